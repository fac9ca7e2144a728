"""What all detectors share: their base class, what they are given in training and what they answer, and backbones."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.hub.creating import Features
from pdl.nn.module import evaluating
from pdl.nn.stages import head_of
from pdl.ops.base import Spec
from pdl.program import Value, trace
from pdl.program.passes.cleanup import remove_dead

Share = Annotated[float, Range(0, 1)]
LOOKED_AT = 64  # pixels a side of the image by which a backbone's channels are found


class Targets(NamedTuple):
    """The objects of a batch of images, as many rows for each.

    boxes   float32 [N, M, 4] (x1, y1, x2, y2) in pixels of the net's input; pixel (0, 0) covers the square 0..1
    labels  int64 [N, M]; -1 in rows that are padding
    masks   uint8 [N, M, H, W] of 0 and 1, where the data has them
    """

    boxes: pdl.Tensor
    labels: pdl.Tensor
    masks: pdl.Tensor | None = None


class Detections(NamedTuple):
    """The objects found in a batch of images, best first, as many rows for each.

    boxes   float32 [N, K, 4] (x1, y1, x2, y2) in pixels of the net's input
    scores  float32 [N, K], 0..1
    labels  int64 [N, K]; -1 in rows without an object
    masks   float32 [N, K, m, m], of nets that find them: probabilities of the object at the cells of a grid over it
    """

    boxes: pdl.Tensor
    scores: pdl.Tensor
    labels: pdl.Tensor
    masks: pdl.Tensor | None = None


@dataclass(frozen=True)
class Selection:
    """How detections are chosen from dense predictions; see `pdl.select_boxes`.

    kind        of suppression: hard (greedy), linear or gaussian (soft NMS), matrix, or none
    iou         boxes that overlap a better one by more are suppressed
    score       predictions below are left out
    candidates  how many of the best predictions of an image are looked at
    most        how many detections an image has at most
    per_class   boxes of different classes do not suppress each other
    """

    kind: Literal["hard", "linear", "gaussian", "matrix", "none"] = "hard"
    iou: Share = 0.6
    score: Share = 0.01
    candidates: Annotated[int, Range(1)] = 1000
    most: Annotated[int, Range(1)] = 100
    per_class: bool = True

    def __call__(self, boxes: pdl.Tensor, scores: pdl.Tensor) -> Detections:
        """boxes [N, A, 4] or [N, A, C, 4], scores [N, A, C] -> detections, `most` for each image."""
        found = pdl.select_boxes(
            boxes, scores, kind=self.kind, iou_threshold=self.iou, score_threshold=self.score,
            candidates=self.candidates, most=self.most, per_class=self.per_class,
        )  # fmt: skip
        return Detections(*found[:3])


def clipped(boxes: pdl.Tensor, size: Sequence[int]) -> pdl.Tensor:
    """Boxes [..., 4] cut off at the edges of an image of height and width `size`."""
    return pdl.clip(boxes, 0.0, np.array([*size[::-1], *size[::-1]], np.float32))


class Detector(nn.Module):
    """Images [N, H, W, 3] -> `Detections`. A family defines `predictions`, and what becomes of them: `decoded` and
    `losses`; one whose answers are more than boxes extends `detections`.

    stride      heights and widths of images are multiples of it
    rounded_in  what is computed on bytes where the net learns with rounding (`pdl.export.quantise.aware.Rounded`)
    selection   how detections are chosen
    """

    stride: ClassVar[int] = 32
    rounded_in: ClassVar[str] = "predictions"
    selection: Selection = Selection()

    def predictions(self, images: pdl.Tensor) -> Any:
        """What the net says of images, in whatever form."""
        raise NotImplementedError(f"{type(self).__name__} must define predictions")

    def decoded(self, found: Any, size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes [N, A, 4], or [N, A, C, 4] where each class has its own, in pixels of images of `size` (height, width),
        and scores [N, A, C], 0..1, of predictions."""
        raise NotImplementedError(f"{type(self).__name__} must define decoded")

    def losses(self, found: Any, targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """The parts of the training loss of predictions by name, means over the batch, which are summed. They are
        traced: what depends on values is done by ops."""
        raise NotImplementedError(f"{type(self).__name__} must define losses")

    def detections(self, found: Any, size: Sequence[int]) -> Detections:
        """The objects of predictions."""
        return self.selection(*self.decoded(found, size))

    def forward(self, images: pdl.Tensor) -> Detections:
        """The objects found."""
        return self.detections(self.predictions(images), images.shape[1:3])

    def dense(self, images: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes and scores before suppression; see `decoded`."""
        return self.decoded(self.predictions(images), images.shape[1:3])

    def loss(self, images: pdl.Tensor, targets: Targets) -> dict[str, pdl.Tensor]:
        """The parts of the training loss; see `losses`."""
        return self.losses(self.predictions(images), targets, images.shape[1:3])

    def measured(self, images: pdl.Tensor, targets: Targets) -> tuple[Detections, dict[str, pdl.Tensor]]:
        """The objects found and the parts of the loss, of the same predictions."""
        found, size = self.predictions(images), images.shape[1:3]
        return self.detections(found, size), self.losses(found, targets, size)


def without_classifier(net: nn.Module, *, last_conv: bool = False) -> nn.Module:
    """A classification net that has lost what its head is in, and the convolution that it names in `last_conv`, unless
    that is kept."""
    unused = {path.partition(".")[0] for path in head_of(net)}
    if not last_conv:
        unused |= {getattr(net, "last_conv", "")} - {""}
    for path in sorted(unused):
        owner, _, last = path.rpartition(".")
        setattr(net.get_submodule(owner), last, nn.Identity())
    return net


def without_unread(net: nn.Module, read: Container[int]) -> None:
    """Take the parts out of a net's lists of layers that have parameters, none of which is `read` (by id)."""
    lists = [module for module in net.modules() if isinstance(module, nn.ModuleList)]
    for each in lists:
        for name, child in list(each.named_children()):
            own = list(child.parameters())
            if own and not any(id(parameter) in read for parameter in own):
                delattr(each, name)


class Backbone(Features):
    """The feature maps of a classification net at some strides: x [N, H, W, C] -> a list of [N, H / s, W / s, c].

    Layers that these maps do not need are left out: what its head is in, a last convolution that a net names in
    `last_conv`, unless `last_conv` here keeps it, and of lists of layers those behind the last map.

    strides   of the maps, ascending
    channels  of each
    """

    def __init__(self, net: nn.Module, strides: Sequence[int] = (8, 16, 32), *, last_conv: bool = False) -> None:
        super().__init__(without_classifier(net, last_conv=last_conv))
        self.strides = tuple(strides)
        self._at: list[int] = []
        self.channels = self._look()

    def _look(self) -> tuple[int, ...]:
        """Trace a small image, to find which maps have these strides, how many channels, and what they are made of."""
        with evaluating(self):
            program = trace(super().forward, Spec((1, LOOKED_AT, LOOKED_AT, 3), pdl.float32))
        maps = [cast(Value, each) for each in program.outputs]
        have = [LOOKED_AT // each.spec.shape[1] for each in maps]
        missing = [stride for stride in self.strides if stride not in have]
        if missing:
            raise ConfigError(
                f"model.backbone: {type(self.net).__name__} has feature maps of strides {', '.join(map(str, have))}, "
                f"none of {missing[0]}"
            )
        self._at = [have.index(stride) for stride in self.strides]
        if self._at[-1] > 0:  # the maps of a net are told by there being several
            program.outputs = [maps[i] for i in self._at]
            remove_dead(program)
            without_unread(self.net, {id(each.tensor) for each in program.captures})
        return tuple(int(maps[i].spec.shape[3]) for i in self._at)

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, C] -> the maps of `strides`."""
        maps = super().forward(x)
        return [maps[i] for i in self._at]
