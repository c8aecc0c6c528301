"""One step of the baselines' SGD, and the objective that it has to descend.

Run as a program, it checks every form; with NUMBA_DISABLE_JIT=1 that takes seconds, since the kernels are
then the Python that they are written in.
"""

from itertools import product

import numpy as np

from consmrf.baselines.kernels import Steps, descend_kernel
from consmrf.consensus.losses import LOSSES
from consmrf.consensus.scorers import SCORERS

K, ETA, SUMS, REG = 5, 1e-4, 1e12, 0.07


def value(loss, x):
    """The losses by their formulas, of the scores of o and then of each o′."""
    softplus = np.logaddexp(0, x)
    return {
        "bpr": np.mean(np.logaddexp(0, x[1:] - x[0])),
        "softmax": np.logaddexp.reduce(x) - x[0],
        "logistic": softplus[0] - x[0] + np.mean(softplus[1:]),
        "squared": 0.5 * (x[0] - 1) ** 2 + 0.5 * np.mean(x[1:] ** 2),
    }[loss]


def objective(scorer, loss, sample, share, a, w):
    """The loss of a sample, and what its step charges of Ω: each row as often as it is met."""
    row, s, *objects = sample
    q = np.empty(K)
    SCORERS[scorer].query(K, a[s], w[row], q)
    charged = sum(np.sum(a[e] ** 2) for e in (s, *objects)) + np.sum(w[row] ** 2)
    return share * value(loss, a[objects] @ q), share * 0.5 * REG * charged


def check(scorer, loss, sample, share):
    """Compare a step with finite differences; the sums are so large that it is the gradient."""
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(7, K)), rng.normal(size=(3, SCORERS[scorer].weights(K)))
    table, w_table = (np.concatenate([x, np.full_like(x, SUMS)], axis=1) for x in (a, w))
    shares = np.array([1.0, share, 1.0])
    descend = descend_kernel(scorer, loss, K, len(sample) - 3)
    steps = Steps(np.float64(ETA), np.float64(REG))
    told = descend(np.array([sample], np.int32), table, w_table, shares, steps)
    expected = objective(scorer, loss, sample, share, a, w)[0]
    assert abs(told - expected) <= 1e-4 * abs(expected), (told, expected)
    for at, x, after in ((0, a, table), (1, w, w_table)):
        moved = (x - after[:, : x.shape[1]]) * np.sqrt(SUMS) / ETA
        gradient = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            h = np.zeros_like(x)
            h[i] = 1e-6
            up, down = (
                sum(objective(scorer, loss, sample, share, *((x + d, w), (a, x + d))[at])) for d in (h, -h)
            )
            gradient[i] = (up - down) / 2e-6
        np.testing.assert_allclose(moved, gradient, rtol=2e-4, atol=3e-4)


def main():
    """Check every scorer with every loss, with one o′ and with three, rows met twice among them."""
    forms = list(product(SCORERS, LOSSES, ((1, 0, 4, 6), (1, 2, 3, 2, 5, 0), (1, 3, 3, 1))))
    for scorer, loss, sample in forms:
        check(scorer, loss, sample, 0.25)
    print(len(forms))


if __name__ == "__main__":
    main()
