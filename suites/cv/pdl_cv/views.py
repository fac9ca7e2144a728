"""Test-time augmentation: a net is asked about an image and about views of it, and what it answers is averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import pdl
from pdl import Tensor
from pdl.errors import ConfigError, UsageError
from pdl.nn import Module
from pdl.train import Deployed
from pdl_cv.models.blocks import mean_of_softmax

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
BACK: dict[View, View] = {"rotate90": "rotate270", "rotate270": "rotate90"}
"""What undoes a view, where it is not itself."""
SIDEWAYS = ("rotate90", "rotate270")  # height and width change places


class Viewed(Module):
    """A net behind several views of each image. The net runs once on the views of the same height and width, and once
    on those that lie sideways."""

    def __init__(self, net: Module, views: Sequence[View]) -> None:
        self.net, self.views = net, tuple(views)
        self.train(net.training)

    def answers(self, images: Tensor) -> list[tuple[View | None, Tensor]]:
        """What the net answers to the images [N, H, W, C] themselves (None) and to each view, [N, ...] each."""
        upright: list[View | None] = [None, *(name for name in self.views if name not in SIDEWAYS)]
        sideways: list[View | None] = [name for name in self.views if name in SIDEWAYS]
        return [pair for group in (upright, sideways) if group for pair in self._asked(images, group)]

    def _asked(self, images: Tensor, names: Sequence[View | None]) -> list[tuple[View | None, Tensor]]:
        shown = [images if name is None else VIEWS[name](images) for name in names]
        made = self.net(pdl.concat(shown, axis=0) if shown[1:] else shown[0])
        each = made.reshape((len(shown), shown[0].shape[0], *made.shape[1:]))
        return [(name, each[k]) for k, name in enumerate(names)]


class Views(Viewed):
    """log of the mean of softmax(net(v)) over the images [N, H, W, C] themselves and their `views`: [N, classes].

    Its softmax is that mean, so it takes the place of the net's logits in losses, metrics and bundles.
    """

    def forward(self, images: Tensor) -> Tensor:
        return mean_of_softmax([logits for _, logits in self.answers(images)])


class MaskViews(Viewed):
    """The same of logits of each pixel, [N, h, w, classes], those of a view moved back to where its pixels were."""

    def forward(self, images: Tensor) -> Tensor:
        answers = self.answers(images)
        return mean_of_softmax([x if name is None else VIEWS[BACK.get(name, name)](x) for name, x in answers])


class EmbeddingViews(Viewed):
    """Embeddings of length 1: the mean direction of those of the images [N, H, W, C] and of their `views`, [N, C]."""

    def forward(self, images: Tensor) -> Tensor:
        first, *others = (pdl.normalize(x) for _, x in self.answers(images))
        return pdl.normalize(sum(others, first)) if others else first


def check_views(views: Sequence[View]) -> tuple[View, ...]:
    """The views of a recipe; ConfigError for one that is named twice."""
    if len(set(views)) < len(views):
        raise ConfigError(f"task.tta: {', '.join(views)}: each view counts once, and the image itself is always there")
    return tuple(views)


def with_views(model: Module, views: Sequence[View], around: type[Viewed] = Views) -> Module:
    """The model with its views around it. A bundle has its own: UsageError where these are others."""
    if not isinstance(model, Deployed):
        return around(model, views) if views else model
    bundle = model.session.bundle
    own = tuple(views) if bundle is None else tuple(filter(None, str(bundle.meta["about"].get("tta", "")).split(", ")))
    if own and own != tuple(views):
        raise UsageError(f"task.tta: the bundle averages over {', '.join(own)}; measure its run to choose other views")
    return model if own else around(model, views) if views else model


def named(views: Sequence[View]) -> dict[str, Any]:
    """What a bundle says of itself of its views."""
    return {"tta": ", ".join(views)} if views else {}
