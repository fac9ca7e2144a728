"""What the names of metrics say: of which split they are, and whether less is better."""

from __future__ import annotations

from collections.abc import Iterable

#: metrics of which less is better, by their last word
LESS = (
    "loss", "logloss", "error", "rmse", "mae", "mse", "cer", "wer", "perplexity", "energy", "energy_error", "ece",
    "eer", "min_dcf",
)  # fmt: skip

#: what tables of several runs have only where it is named: f1 and auc say most of it
BESIDE = ("precision", "recall", "ece")


def less_is_better(metric: str) -> bool:
    """Whether "test/rmse" or "val/error@3" is better the less it is."""
    return metric.rpartition("/")[2].partition("@")[0] in LESS


def of_the_test(metrics: Iterable[str]) -> list[str]:
    """The metrics of the split that was measured last, for a table: without the loss, which is not the same for all
    models, and without what others say as well (`BESIDE`)."""
    names = list(dict.fromkeys(metrics))
    for split in ("test", "val", "train"):
        own = [name for name in names if name.startswith(f"{split}/")]
        if own:
            left_out = {f"{split}/{name}" for name in ("loss", *BESIDE)}
            return [name for name in own if name not in left_out] or own
    return names
