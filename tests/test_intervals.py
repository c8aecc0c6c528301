"""Student's t against its printed tables; intervals against the coverage they promise."""

from __future__ import annotations

import numpy as np
import pytest

from consmrf.errors import InputError, SettingError
from consmrf.evaluation.intervals import bootstrap_sums, mean_interval, percentile_interval, ratio, t_quantile

# two-sided confidence → degrees of freedom → t, as printed in statistical tables
TABLE = {
    0.90: {1: 6.314, 2: 2.920, 3: 2.353, 5: 2.015, 9: 1.833, 30: 1.697, 120: 1.658},
    0.95: {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 9: 2.262, 30: 2.042, 120: 1.980},
    0.99: {1: 63.657, 2: 9.925, 3: 5.841, 5: 4.032, 9: 3.250, 30: 2.750, 120: 2.617},
    0.999: {1: 636.619, 2: 31.599, 3: 12.924, 5: 6.869, 9: 4.781, 30: 3.646, 120: 3.373},
}


@pytest.mark.parametrize(
    ("confidence", "freedom", "t"), [(c, f, t) for c, row in TABLE.items() for f, t in row.items()]
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: int, t: float) -> None:
    assert t_quantile(confidence, freedom) == pytest.approx(t, abs=5.01e-4)


def test_many_degrees_of_freedom_approach_the_normal_quantile() -> None:
    assert t_quantile(0.99, 10_000) == pytest.approx(2.5758293, abs=5e-4)


def test_closed_forms_of_one_and_two_degrees_of_freedom() -> None:
    for c in (0.01, 0.5, 0.9, 0.999999):
        assert t_quantile(c, 1) == pytest.approx(np.tan(np.pi * c / 2), rel=1e-9)
        assert t_quantile(c, 2) == pytest.approx(c * np.sqrt(2 / (1 - c * c)), rel=1e-9)


def test_mean_interval_of_ten_folds() -> None:
    folds = [0.81, 0.79, 0.83, 0.80, 0.82, 0.78, 0.80, 0.84, 0.79, 0.81]
    mean, low, high = mean_interval(folds)
    assert mean == pytest.approx(0.807)
    assert high - mean == pytest.approx(3.2498 * np.std(folds, ddof=1) / np.sqrt(10), rel=1e-4)
    assert mean - low == pytest.approx(high - mean)


def test_mean_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        _, low, high = mean_interval(rng.normal(3.0, 2.0, 5).tolist(), confidence=0.9)
        covered += low <= 3.0 <= high
    assert 0.88 < covered / 2000 < 0.92


@pytest.mark.parametrize("values", [[], [0.5], [0.5, np.nan], [0.5, np.inf]])
def test_too_little_for_an_interval_is_an_error(values: list[float]) -> None:
    with pytest.raises(InputError, match="at least two finite values"):
        mean_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, 99.0, np.nan])
def test_confidence_is_a_share(confidence: float) -> None:
    with pytest.raises(SettingError, match="between 0 and 1"):
        mean_interval([1.0, 2.0], confidence)


# -- the bootstrap


def interval(values: np.ndarray, confidence: float, seed: int, repeats: int = 400) -> np.ndarray:
    return percentile_interval(bootstrap_sums(values, repeats, seed) / len(values), confidence)


def test_bootstrap_covers_as_often_as_it_says() -> None:
    """Skewed values like reciprocal ranks: 1 / rank of geometric ranks, whose mean is known."""
    rng, p = np.random.default_rng(1), 0.3
    true = -p * np.log(p) / (1 - p)
    covered = 0
    for seed in range(400):
        low, high = interval(1 / rng.geometric(p, (150, 1)), 0.9, seed)[:, 0]
        covered += low <= true <= high
    assert 0.85 < covered / 400 < 0.95


def test_bootstrap_is_as_wide_as_the_standard_error_says() -> None:
    values = np.random.default_rng(2).normal(0, 1, (2500, 1))
    low, high = interval(values, 0.99, seed=0, repeats=2000)[:, 0]
    assert high - low == pytest.approx(2 * 2.576 / 50, rel=0.1)


def test_bootstrap_depends_on_its_seed_only() -> None:
    values = np.random.default_rng(3).random((40, 3))
    np.testing.assert_array_equal(bootstrap_sums(values, 50, 7), bootstrap_sums(values, 50, 7))
    assert (bootstrap_sums(values, 50, 7) != bootstrap_sums(values, 50, 8)).any()
    np.testing.assert_allclose(bootstrap_sums(np.ones((40, 1)), 50, 7), 40)


def test_what_is_nowhere_defined_has_no_interval() -> None:
    means = ratio(np.ones((10, 2)), np.tile([2, 0], (10, 1)))
    np.testing.assert_array_equal(percentile_interval(means, 0.9), [[0.5, np.nan], [0.5, np.nan]])
