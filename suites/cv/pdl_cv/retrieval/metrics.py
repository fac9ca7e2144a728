"""What is measured: the nearest images of each, and trials of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pdl.train.embeddings import AcceptRate, Neighbours, OfNeighbours, OfTrials, Separation, Trials, TrialsAUC
from pdl.train.metrics import EqualErrorRate, Metric


def retrieval_metrics(trials: Trials, recall: Sequence[int], far: Sequence[float]) -> dict[str, Metric]:
    """Recall@k and MAP@R of the nearest images, EER, TAR at FAR and AUC of trials, and the trials themselves."""
    found = {f"recall@{k}": partial(Neighbours.recall, k=k) for k in recall}
    near: Mapping[str, Metric] = {
        **{name: OfNeighbours(trials, number) for name, number in found.items()},
        "map@r": OfNeighbours(trials, Neighbours.mean_average_precision),
    }
    rates = {f"tar@far{each:g}": AcceptRate(each) for each in far}
    of_two: Mapping[str, Metric] = {"eer": EqualErrorRate(), **rates, "auc": TrialsAUC(), "loss": Separation()}
    return {**near, **{name: OfTrials(trials, metric) for name, metric in of_two.items()}, "trials": trials}
