"""Several clips or crops of each video, whose probabilities are averaged; and clips to look at."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np

import pdl
from pdl import Tensor
from pdl.data.transforms.numeric import displayed
from pdl.dtype import Array
from pdl.nn import Module
from pdl.train import Deployed
from pdl_cv.data.clips import chosen
from pdl_cv.data.transforms import EachFrame
from pdl_cv.steps.clips import SHOWN, filmstrip, places
from pdl_cv.steps.skeletons import drawn

RANKS = {"clip": 5, "skeleton": 4}
"""Dimensions of a batch for the net, by the key that its samples have."""


def kind_of(sample: Any) -> str:
    """ "clip" or "skeleton": the key of what a sample, or a batch, shows."""
    return "skeleton" if "skeleton" in sample else "clip"


class Averaged(Module):
    """log of the mean of softmax(net(v)) over the K views of each sample: [N, K, ...] -> [N, classes]; the logits of
    the net themselves where samples have one view, [N, ...] of `rank` dimensions."""

    def __init__(self, net: Module, rank: int) -> None:
        self.net, self.rank = net, rank
        self.train(net.training)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == self.rank:
            return self.net(x)  # type: ignore[no-any-return]
        views = x.shape[1]
        logits = self.net(x.reshape((-1, *x.shape[2:])))
        each = pdl.log_softmax(logits.reshape((-1, views, logits.shape[1])), axis=-1)
        return pdl.logsumexp(each, axis=1) - log(views)


def averaged(model: Module, rank: int) -> Module:
    """The model, with the mean over views around it; a bundle has its own."""
    return model if isinstance(model, Deployed) else Averaged(model, rank)


def picture(sample: Any, dataset: Any = None, steps: Sequence[Any] = ()) -> Array:
    """Some frames of a sample, before or behind transforms (`steps`, of which Normalize and ToFloat are undone): uint8
    [H, W, 3]. Joints are drawn with the edges of the data set."""
    if kind_of(sample) == "skeleton":
        x = sample["skeleton"]
        return drawn(x, told(dataset, "edges") or ())
    frames = chosen(sample["clip"], lambda have: places(have, min(SHOWN, have))[0])
    frames = frames[len(frames) // 2] if frames.ndim == 5 else frames  # of several clips one
    inner = [each for step in steps for each in (step.transforms if isinstance(step, EachFrame) else ())]
    return filmstrip(np.stack([displayed(frame, inner) for frame in frames]))


def told(dataset: Any, name: str) -> Any:
    """What a data set, or that which it is a part of, says of itself; None where it says nothing."""
    while dataset is not None and not hasattr(dataset, name):
        dataset = dataset.datasets[0] if hasattr(dataset, "datasets") else getattr(dataset, "dataset", None)
    return getattr(dataset, name, None)
