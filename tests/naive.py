"""Algorithms 1 and 2 written out densely, one number at a time: slow, obvious, no code shared.

It keeps A_r, W_r and V_r for every relation and every entity, as the paper prints them. The samples (s, o,
o′) are given to it, so that both implementations see the same draws.
"""

import numpy as np


def score(scorer, a_s, w, a_o):
    if scorer == "identity":
        return float(np.sum(a_s * a_o))
    if scorer == "diagonal":
        return float(np.sum(a_s * w * a_o))
    return float(a_s @ w @ a_o)


def bpr_gradients(scorer, a_s, w, a_o, a_neg):
    """The paper's four cases of ∂ℓ_r(s, o, o′)/∂θ, for θ = a_s, a_o, a_o′ and W_r, and ℓ_r itself."""
    difference = score(scorer, a_s, w, a_o) - score(scorer, a_s, w, a_neg)
    c = -1.0 / (1.0 + np.exp(difference))
    if scorer == "identity":
        matrix = np.eye(len(a_s))
    elif scorer == "diagonal":
        matrix = np.diag(w)
    else:
        matrix = w
    g_s = c * (matrix @ (a_o - a_neg))
    g_o = c * (matrix.T @ a_s)
    g_neg = -g_o
    if scorer == "identity":
        g_w = np.zeros_like(w)
    elif scorer == "diagonal":
        g_w = c * a_s * (a_o - a_neg)
    else:
        g_w = c * np.outer(a_s, a_o - a_neg)
    return g_s, g_o, g_neg, g_w, float(np.log1p(np.exp(-difference)))


class Naive:
    def __init__(self, z0, w0, *, scorer, learning_rate, reg, rho):
        self.scorer, self.learning_rate, self.reg, self.rho = scorer, learning_rate, reg, rho
        n_relations = len(w0)
        self.z = z0.copy()
        self.a = [z0.copy() for _ in range(n_relations)]
        self.w = [w.copy() for w in w0]
        self.v = [np.zeros_like(z0) for _ in range(n_relations)]
        self.a_sums = [np.ones_like(z0) for _ in range(n_relations)]
        self.w_sums = [np.ones_like(w) for w in w0]
        self.loss = 0.0
        self.primal = self.dual = 0.0

    def _step(self, values, sums, row, gradient):
        for j in range(len(gradient)):
            sums[row][j] += gradient[j] ** 2
            values[row][j] -= self.learning_rate * gradient[j] / np.sqrt(sums[row][j])

    def update_aw(self, r, samples):
        a, w, v, z = self.a[r], self.w[r], self.v[r], self.z
        loss = 0.0
        for s, o, neg in samples:
            g_s, g_o, g_neg, g_w, one = bpr_gradients(self.scorer, a[s], w, a[o], a[neg])
            loss += one
            gradients = [
                (e, g + self.reg * a[e] + v[e] + self.rho * (a[e] - z[e]))
                for e, g in ((s, g_s), (o, g_o), (neg, g_neg))
            ]
            g_w = g_w + self.reg * w
            for e, gradient in gradients:
                self._step(a, self.a_sums[r], e, gradient)
            if self.scorer != "identity":
                self.w_sums[r] += g_w**2
                w -= self.learning_rate * g_w / np.sqrt(self.w_sums[r])
        return loss

    def round(self, samples_of):
        before = self.z
        loss, count = 0.0, 0
        for r, samples in enumerate(samples_of):
            self.a[r] = self.z.copy()
            loss += self.update_aw(r, samples)
            count += len(samples)
        self.z = sum(self.a) / len(self.a)
        for r in range(len(self.a)):
            self.v[r] = self.v[r] + self.rho * (self.a[r] - self.z)
        self.loss = loss / count
        self.primal = np.sqrt(sum(np.sum((a - self.z) ** 2) for a in self.a))
        self.dual = self.rho * np.sqrt(len(self.a)) * np.sqrt(np.sum((self.z - before) ** 2))
