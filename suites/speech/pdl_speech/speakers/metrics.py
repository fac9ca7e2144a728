"""How well speakers are verified."""

from __future__ import annotations

from collections.abc import Mapping

from pdl.train.embeddings import OfTrials, Separation, Trials, TrialsAUC
from pdl.train.metrics import DetectionCost, EqualErrorRate, Metric

COSTS = (0.01, 0.05)  # p_target of minDCF


def speaker_metrics(trials: Trials) -> dict[str, Metric]:
    """EER, minDCF (p_target 0.01 and 0.05, costs 1), AUC, and the trials themselves."""
    costs = {f"min_dcf@{p:g}": DetectionCost(p_target=p) for p in COSTS}
    inner: Mapping[str, Metric] = {"eer": EqualErrorRate(), **costs, "auc": TrialsAUC(), "loss": Separation()}
    return {**{name: OfTrials(trials, metric) for name, metric in inner.items()}, "trials": trials}
