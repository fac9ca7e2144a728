"""Test-time augmentation: an image and views of it are classified, and their probabilities averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Literal

import pdl
from pdl import Tensor
from pdl.errors import ConfigError, UsageError
from pdl.nn import Module
from pdl.train import Deployed

View = Literal["horizontal_flip", "vertical_flip", "rotate90", "rotate180", "rotate270"]


def _turned(images: Tensor) -> Tensor:
    return images.swapaxes(1, 2)


VIEWS: dict[View, Callable[[Tensor], Tensor]] = {
    "horizontal_flip": lambda x: pdl.flip(x, axis=2),
    "vertical_flip": lambda x: pdl.flip(x, axis=1),
    "rotate90": lambda x: pdl.flip(_turned(x), axis=1),
    "rotate180": lambda x: pdl.flip(x, axis=(1, 2)),
    "rotate270": lambda x: pdl.flip(_turned(x), axis=2),
}
"""By name, of images [N, H, W, C]; rotations are counterclockwise."""
SIDEWAYS = ("rotate90", "rotate270")  # height and width change places


class Views(Module):
    """log of the mean of softmax(net(v)) over the images [N, H, W, C] themselves and their `views`: [N, classes].

    Its softmax is that mean, so it takes the place of the net's logits in losses, metrics and bundles. The net runs
    once on the views of the same height and width, and once on those that lie sideways.
    """

    def __init__(self, net: Module, views: Sequence[View]) -> None:
        self.net, self.views = net, tuple(views)
        self.train(net.training)

    def forward(self, images: Tensor) -> Tensor:
        upright = [images, *(VIEWS[name](images) for name in self.views if name not in SIDEWAYS)]
        sideways = [VIEWS[name](images) for name in self.views if name in SIDEWAYS]
        each = [self._scores(group) for group in (upright, sideways) if group]
        return pdl.logsumexp(pdl.concat(each, axis=0), axis=0) - log(1 + len(self.views))

    def _scores(self, views: Sequence[Tensor]) -> Tensor:
        """log softmax of several views: [views, N, classes]."""
        logits = self.net(pdl.concat(views, axis=0) if views[1:] else views[0])
        return pdl.log_softmax(logits.reshape((len(views), views[0].shape[0], logits.shape[1])), axis=-1)


def check_views(views: Sequence[View]) -> tuple[View, ...]:
    """The views of a recipe; ConfigError for one that is named twice."""
    if len(set(views)) < len(views):
        raise ConfigError(f"task.tta: {', '.join(views)}: each view counts once, and the image itself is always there")
    return tuple(views)


def with_views(model: Module, views: Sequence[View]) -> Module:
    """The model with its views around it. A bundle has its own: UsageError where these are others."""
    if not isinstance(model, Deployed):
        return Views(model, views) if views else model
    bundle = model.session.bundle
    own = tuple(views) if bundle is None else tuple(filter(None, str(bundle.meta["about"].get("tta", "")).split(", ")))
    if own and own != tuple(views):
        raise UsageError(f"task.tta: the bundle averages over {', '.join(own)}; measure its run to choose other views")
    return model if own else Views(model, views) if views else model
