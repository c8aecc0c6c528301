"""The baselines that are trained in rounds, by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from consmrf.baselines.alpha import Alpha
from consmrf.baselines.coupled import Coupled, TargetPass
from consmrf.baselines.dmf import Dmf
from consmrf.baselines.kernels import spans_of
from consmrf.baselines.rescal import Rescal
from consmrf.baselines.rounds import Baseline
from consmrf.baselines.sme import Sme
from consmrf.config import Config
from consmrf.consensus.facts import lay_out
from consmrf.graph.partition import Partition

__all__ = ["begin"]


def begin(
    partitions: Sequence[Partition],
    n_entities: int,
    config: Config,
    *,
    labels: Sequence[str],
    targets: Sequence[int] | None,
) -> Baseline:
    """Hand on the method that the settings name, with its data, before its first round.

    `labels` are the relations', in id order; `targets` are those that get a model of their own, None for all.
    """
    if config.method == "rescal":
        return Rescal(partitions, n_entities, config)
    views = targets if config.method == "catsmf" else ()
    layout = lay_out(partitions, n_entities, reciprocal=False, views=views)
    if config.method == "dmf":
        return Dmf(layout, config, Alpha(config.alpha, labels), targets)
    if config.method == "catsmf":
        alpha = Alpha(config.alpha, labels)
        rows = ((t, alpha.row(t)) for t in (range(len(labels)) if targets is None else targets))
        passes = [TargetPass(spans_of(layout.indptr, row > 0), row, t, t) for t, row in rows]
        return Coupled(layout, config, passes)
    everything = TargetPass(spans_of(layout.indptr, np.ones(len(labels), bool)), np.ones(len(labels)))
    if config.scorer.startswith("sme"):
        return Sme(layout, config, everything.spans)
    return Coupled(layout, config, [everything])
