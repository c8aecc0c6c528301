"""Comparing two models: p with and without a planted difference, pairing, and files that are refused."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consmrf.errors import DataError, InputError, SettingError
from consmrf.evaluation.comparison import Comparison, ComparisonOptions, compare
from consmrf.evaluation.protocol import EvaluationOptions, evaluate
from consmrf.evaluation.result import save_ranks
from consmrf.evaluation.saved_ranks import read_ranks
from consmrf.evaluation.significance import Verdict, holm, sign_flip
from table_model import TableModel, graph_of

E, R = 50, 5
QUICK = ComparisonOptions(flips=500, resamples=500)
TEST = np.random.default_rng(1).integers(0, [E, R, E], (240, 3)).astype(np.int32)


def model_with(skill: float, seed: int, relations: tuple[int, ...] = tuple(range(R))) -> TableModel:
    """Random scores; test facts of some relations get more, by the skill."""
    table = np.random.default_rng(seed).normal(size=(R, E, E))
    for s, r, o in TEST.tolist():
        table[r, s, o] += skill if r in relations else 0.0
    return TableModel(table)


def ranked(model: TableModel, test: np.ndarray = TEST):
    options = EvaluationOptions(sides=("objects", "subjects", "relations"), bootstrap=0)
    return evaluate(model, graph_of(model, test), options=options)


# -- sign flips


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=7))
def test_few_rows_are_flipped_in_every_way(rows: list[tuple[int, int]]) -> None:
    u = np.array(rows, float)
    patterns = np.array(list(product([1, -1], repeat=len(u))))
    expected = [np.mean(np.abs(patterns @ column) >= abs(column.sum())) for column in u.T]
    assert sign_flip(u, 100).tolist() == pytest.approx(expected)


def test_drawn_signs_agree_with_all_signs_and_with_themselves() -> None:
    u = np.random.default_rng(0).normal(0.25, 1, (16, 1))
    patterns = 1 - 2 * (np.arange(2**16)[:, None] >> np.arange(16) & 1)
    exact = np.mean(np.abs(patterns @ u[:, 0]) >= abs(u.sum()) - 1e-12)
    drawn = sign_flip(u, 20_000, seed=3)
    assert drawn[0] == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))
    assert sign_flip(u, 20_000, seed=3) == drawn
    assert sign_flip(u, 20_000, seed=4) != drawn
    early = sign_flip(u, 20_000, enough=200, seed=3)[0]
    assert early == pytest.approx(exact, rel=0.3)


@pytest.mark.parametrize("enough", [None, 20])
def test_p_is_uniform_under_the_null(enough: int | None) -> None:
    """Differences whose sign is a coin's, with heavy tails: p ≤ x happens with probability x."""
    rng = np.random.default_rng(5)
    u = rng.standard_t(2, (40, 600))
    p = np.concatenate([sign_flip(u[:, i : i + 1], 400, enough=enough, seed=i) for i in range(u.shape[1])])
    for x in (0.05, 0.2, 0.5, 0.8):
        assert abs((p <= x).mean() - x) < 4 * np.sqrt(x * (1 - x) / len(p)) + 1 / 400


def test_a_planted_difference_is_found_and_none_is_not() -> None:
    rng = np.random.default_rng(6)
    noise = rng.normal(size=(400, 1))
    assert sign_flip(noise + 0.3, 2000)[0] < 0.002
    assert sign_flip(np.zeros((30, 2)), 1000).tolist() == [1, 1]


def test_holm_is_the_step_down_by_hand() -> None:
    p = np.array([0.01, 0.04, np.nan, 0.03, 0.005])
    np.testing.assert_allclose(holm(p), [0.03, 0.06, np.nan, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])).tolist() == [1, 1]


def test_holm_keeps_false_findings_rare() -> None:
    rng = np.random.default_rng(7)
    found = [(holm(rng.uniform(size=20)) <= 0.05).any() for _ in range(1000)]
    assert np.mean(found) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)


# -- whole comparisons


def test_the_figures_are_those_of_the_evaluations() -> None:
    better, worse = ranked(model_with(2.0, 0)), ranked(model_with(1.0, 0))
    found = compare(better, worse, options=QUICK)
    assert found.pairs == {
        "paired": 3 * len(np.unique(TEST, axis=0)),
        "only_first": 0,
        "only_second": 0,
        "other_candidates": 0,
    }
    assert list(found.views) == ["both", "objects", "subjects", "relation_prediction"]
    for view, metrics in found.views.items():
        for name, told in metrics.items():
            one, other = better.micro[view][name], worse.micro[view][name]
            if one is None:  # chance hits the first ten of five relations
                assert (view, name) == ("relation_prediction", "adjusted_hits@10")
                assert (told.first, told.difference, told.low) == (None, None, None)
                continue
            assert told.first == pytest.approx(one)
            assert told.second == pytest.approx(other)
            assert told.difference == pytest.approx(one - other)
            assert told.low <= told.difference <= told.high
            assert told.count == better.micro[view]["count"]
    mrr = found.views["both"]["mrr"]
    assert mrr.verdict("mrr") is Verdict.BETTER
    assert mrr.p < 0.01
    assert found.views["both"]["mr"].verdict("mr") is Verdict.BETTER
    for label, told in found.relations.items():
        assert told.first == pytest.approx(better.relations[label]["both"]["mrr"])
        assert told.p <= told.p_holm


def test_a_comparison_turned_round_is_its_mirror_image() -> None:
    one, other = ranked(model_with(1.0, 0)), ranked(model_with(1.2, 3))
    there, back = compare(one, other, options=QUICK), compare(other, one, options=QUICK)
    for name, told in there.views["both"].items():
        mirror = back.views["both"][name]
        assert (told.difference, told.low, told.high) == pytest.approx(
            (-mirror.difference, -mirror.high, -mirror.low)
        )
        assert told.p == mirror.p
    assert compare(one, other, options=QUICK).to_dict() == there.to_dict()


def test_only_the_relations_that_differ_are_found() -> None:
    found = compare(ranked(model_with(3.0, 0, (1, 3))), ranked(model_with(0.0, 0)), options=QUICK)
    sure = {label for label, told in found.relations.items() if told.p_holm < 0.01}
    assert sure == {"r0001", "r0003"}
    assert found.relations["r0000"].p == 1  # the same scores, the same ranks
    assert found.relations["r0000"].verdict("mrr") is Verdict.TIED


def test_relations_with_too_few_triples_are_not_tested() -> None:
    few = np.concatenate([TEST[TEST[:, 1] == 0][:5], TEST[TEST[:, 1] == 1]])
    found = compare(ranked(model_with(3.0, 0), few), ranked(model_with(0.0, 1), few), options=QUICK)
    assert found.relations["r0000"].p is None
    assert found.relations["r0000"].p_holm is None
    assert found.relations["r0001"].p == found.relations["r0001"].p_holm


def test_what_does_not_pair_is_counted() -> None:
    one, other = ranked(model_with(1.0, 0), TEST[:100]), ranked(model_with(1.0, 1), TEST[40:])
    found = compare(one, other, options=QUICK)
    total = {name: len(x.ranks) for name, x in (("one", one), ("other", other))}
    assert found.pairs["paired"] + found.pairs["only_first"] == total["one"]
    assert found.pairs["paired"] + found.pairs["only_second"] == total["other"]
    # the filters differ, so some were ranked among other candidates: nothing adjusted is compared
    assert found.pairs["other_candidates"] > 0
    assert "adjusted_mrr" not in found.views["both"]
    with pytest.raises(InputError, match="among different numbers of candidates"):
        compare(one, other, options=ComparisonOptions(metric="amri"))
    with pytest.raises(InputError, match="no rank of one has the same"):
        compare(ranked(model_with(1, 0), TEST[:5]), ranked(model_with(1, 0), TEST[-5:]))


def test_intervals_cover_the_true_difference() -> None:
    """Ranks drawn from two known laws; the mean difference of 1 / rank is known."""
    law = 1 / np.arange(1, 9)

    def frame(rng: np.random.Generator) -> pl.DataFrame:
        rank = rng.integers(1, 9, 60)
        labels = {
            "s": [f"s{i}" for i in range(60)],
            "r": ["r"] * 60,
            "o": ["o"] * 60,
            "side": ["objects"] * 60,
        }
        return pl.DataFrame(
            {**labels, "rank": rank.astype(float), "lower": rank, "upper": rank, "candidates": [8] * 60}
        )

    rng, covered = np.random.default_rng(8), 0
    options = ComparisonOptions(flips=100, resamples=200, confidence=0.9)
    for _ in range(120):
        one, other = frame(rng), frame(rng)
        told = compare(one, other, options=options).views["objects"]["mrr"]
        covered += told.low <= 0.0 <= told.high
        assert told.first == pytest.approx(np.mean(law[one["lower"].to_numpy() - 1]))
    assert 0.8 < covered / 120 < 0.98


@pytest.mark.parametrize(
    "settings_", [{"metric": "best"}, {"flips": 10}, {"resamples": True}, {"seed": -1}, {"confidence": 1}]
)
def test_settings_out_of_range(settings_: dict[str, object]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings_))):
        ComparisonOptions(**settings_)


# -- files


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "a.ranks"
    save_ranks(ranked(model_with(1.0, 0), TEST[:30]), path)
    return path


@pytest.mark.parametrize(("suffix", "separator"), [("csv", ","), ("tsv", "\t"), ("ranks", ",")])
def test_text_is_read_like_parquet(saved: Path, tmp_path: Path, suffix: str, separator: str) -> None:
    expected = read_ranks(saved)
    # columns in another order, one more, and labels that look like numbers
    shown = expected.with_columns(s=pl.lit("00") + pl.col("s").str.tail(1)).unique(["s", "r", "o", "side"])
    shown.select("candidates", pl.lit("x").alias("note"), *shown.columns[:-1]).write_csv(
        tmp_path / f"b.{suffix}", separator=separator
    )
    found = read_ranks(tmp_path / f"b.{suffix}")
    assert found.equals(shown)
    assert found.schema == expected.schema


def spoilt(**columns: object) -> pl.DataFrame:
    """Two good rows with some columns changed; None leaves one out."""
    good = {
        "s": ["a", "b"],
        "r": ["r", "r"],
        "o": ["c", "c"],
        "side": ["objects", "subjects"],
        "rank": [1.5, 2.0],
        "lower": [1, 2],
        "upper": [2, 2],
        "candidates": [9, 9],
    } | columns
    return pl.DataFrame({name: values for name, values in good.items() if values is not None})


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"side": None, "upper": None}, "no column side, upper: ranks have the columns s, r, o, side, rank"),
        ({"s": ["a", None]}, r"row 2 \(s = None, .*\): every cell must have a value"),
        ({"side": ["objects", "tails"]}, "row 2 .*: side must be one of objects, subjects, relations"),
        ({"lower": [0, 2]}, "row 1 .*: 1 ≤ lower ≤ upper ≤ candidates must hold"),
        ({"upper": [1, 12], "rank": [1.0, 7.0]}, "row 2 .*: 1 ≤ lower"),
        ({"rank": [1.5, 2.5]}, "row 2 .*: rank must be the middle"),
        ({"rank": [float("nan"), 2.0]}, "row 1 .*: rank must be the middle"),
        ({"candidates": [9.5, 9.0]}, "row 1 .*: lower, upper and candidates must be whole"),
        ({"rank": ["first", "second"]}, "rank, lower, upper and candidates must be numbers"),
        ({"s": ["a", "a"], "side": ["objects"] * 2}, "row 2 .*: s, r, o and side must not occur twice"),
    ],
)
def test_a_table_that_cannot_be_ranks_is_refused(
    columns: dict[str, object], says: str, tmp_path: Path
) -> None:
    spoilt(**columns).write_parquet(tmp_path / "bad.ranks")
    with pytest.raises(DataError, match=f"bad.ranks: {says}") as problem:
        read_ranks(tmp_path / "bad.ranks")
    assert "\n" not in str(problem.value)


def test_files_that_hold_no_ranks_are_refused(tmp_path: Path) -> None:
    spoilt().head(0).write_parquet(tmp_path / "empty.ranks")
    (tmp_path / "blank.ranks").write_text("")
    (tmp_path / "cut.ranks").write_bytes(b"PAR1 and then nothing")
    (tmp_path / "torn.ranks").write_text('s,r,o\n"a\n')
    for name, says in (
        ("empty", "holds no ranks"),
        ("blank", "not a table of ranks"),
        ("cut", "not a table of ranks"),
        ("torn", "ranks"),
        ("absent", "cannot be read: No such file"),
    ):
        with pytest.raises(DataError, match=f"{name}.ranks: .*{says}"):
            read_ranks(tmp_path / f"{name}.ranks")


def test_models_and_their_files_compare_alike(tmp_path: Path) -> None:
    found = [ranked(model_with(skill, 0)) for skill in (1.0, 1.5)]
    for name, one in zip("ab", found, strict=True):
        save_ranks(one, tmp_path / name)
    from_files: Comparison = compare(*(read_ranks(tmp_path / name) for name in "ab"), options=QUICK)
    assert from_files.to_dict() == compare(*found, options=QUICK).to_dict()
