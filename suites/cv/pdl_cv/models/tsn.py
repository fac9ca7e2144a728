"""TSN: Wang et al., Temporal segment networks: towards good practices for deep action recognition, ECCV 2016 (arXiv
1608.00859).

A classification net looks at frames one by one; the logits of a clip are the mean of theirs, whatever the order.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError, UsageError
from pdl.hints import Range
from pdl.nn.stages import head_of
from pdl_cv.models.blocks import take_pretrained
from pdl_cv.models.resnet import ResNet


class TSN(nn.Module):
    """Clips [N, T, H, W, in_channels] -> logits [N, num_classes].

    net         any classification net; by default ResNet-18 with fresh weights. A head for another number of classes is
                replaced by a fresh one
    in_channels  of the default net
    pretrained  a name of the hub or a file, with weights of the whole net; those of `net` are told there
    """

    head: ClassVar[str] = "net"

    def __init__(
        self,
        net: nn.Module | None = None,
        *,
        in_channels: Annotated[int, Range(1)] = 3,
        num_classes: Annotated[int, Range(1)] = 400,
        pretrained: str | None = None,
    ) -> None:
        made = ResNet(18, in_channels=in_channels, num_classes=num_classes) if net is None else net
        self.net = with_head(made, num_classes)
        self.head = f"net.{head_of(made)[0]}"  # type: ignore[misc]
        self._complete()
        take_pretrained(self, pretrained)

    def _complete(self) -> None:
        """What a subclass changes of the net before it gets weights."""

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, H, W, C] -> logits [N, num_classes]."""
        if x.ndim != 5:
            raise ShapeError(f"{type(self).__name__}: x {x.shape} must be clips [N, T, H, W, C]")
        logits = self.net(x.reshape((-1, *x.shape[2:])))
        return logits.reshape((-1, x.shape[1], logits.shape[1])).mean(axis=1)


def head_parts(net: nn.Module) -> tuple[nn.Module, str, nn.Linear]:
    """The module that holds the head of a classification net, the head's name there, and itself; UsageError where it is
    no single linear layer."""
    heads = head_of(net)
    last = net.get_submodule(heads[0]) if len(heads) == 1 else None
    if not isinstance(last, nn.Linear):
        raise UsageError(f"{type(net).__name__} is no classification net whose head is a linear layer, such as ResNet")
    owner, _, name = heads[0].rpartition(".")
    return net.get_submodule(owner) if owner else net, name, last


def with_head(net: nn.Module, num_classes: int) -> nn.Module:
    """The net with a head for so many classes, a fresh one where it has another."""
    owner, name, last = head_parts(net)
    features, classes = last.weight.shape
    if classes != num_classes:
        setattr(owner, name, nn.Linear(features, num_classes))
    return net


TASK = "video"
VARIANTS: dict[str, dict[str, Any]] = {
    "tsn_resnet18": {"_target_": "pdl_cv.TSN"},
    "tsn_resnet50": {"_target_": "pdl_cv.TSN", "net": {"_target_": "pdl_cv.ResNet", "depth": 50}},
    "tsn_mobilenet_v2": {"_target_": "pdl_cv.TSN", "net": {"_target_": "pdl_cv.MobileNetV2"}},
}
