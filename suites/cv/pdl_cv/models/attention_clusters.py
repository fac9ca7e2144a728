"""Attention clusters: Long, Gan, de Melo, Wu, Liu, Wen, Attention clusters: purely attention based local feature
integration for video classification, CVPR 2018 (arXiv 1711.09550).

Several units look at the features of all frames, each with weights of its own over these, and say what they saw. As in
TSN, the order of the frames does not matter; which of them count is learned.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl_cv.models.blocks import take_pretrained
from pdl_cv.models.resnet import ResNet
from pdl_cv.models.tsn import head_parts

Width = Annotated[int, Range(1)]


class AttentionUnits(nn.Module):
    """Features x [N, T, C] -> [N, units C]. Unit k gives (alpha_k g + beta_k) / (sqrt(units) |alpha_k g + beta_k|) of
    g = sum over t of softmax over t (w_k x_t) x_t: the shifting operation of section 3.2, by which units differ."""

    def __init__(self, features: int, units: int) -> None:
        self.weights = nn.Linear(features, units)
        self.alpha, self.beta = nn.Parameter(pdl.ones((units, 1))), nn.Parameter(pdl.zeros((units, 1)))
        self.units = units

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, C] -> [N, units C]."""
        weights = pdl.softmax(self.weights(x), axis=1)  # [N, T, units]
        seen = self.alpha * pdl.matmul(weights.permute_dims((0, 2, 1)), x) + self.beta
        return pdl.flatten(pdl.normalize(seen) * self.units**-0.5, start=1)


class AttentionClusters(nn.Module):
    """Clips [N, T, H, W, in_channels] -> logits [N, num_classes].

    net         any classification net, whose head is left out; by default ResNet-18 with fresh weights
    units       of attention
    in_channels  of the default net
    dropout     before the head
    pretrained  a name of the hub or a file, with weights of the whole net; those of `net` are told there
    """

    head: ClassVar[str] = "fc"

    def __init__(
        self,
        net: nn.Module | None = None,
        *,
        units: Width = 16,
        in_channels: Width = 3,
        num_classes: Width = 400,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        pretrained: str | None = None,
    ) -> None:
        self.net = ResNet(18, in_channels=in_channels) if net is None else net
        owner, name, last = head_parts(self.net)
        features = last.weight.shape[0]
        setattr(owner, name, nn.Identity())
        self.attention, self.dropout = AttentionUnits(features, units), nn.Dropout(dropout)
        self.fc = nn.Linear(units * features, num_classes)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, H, W, C] -> logits [N, num_classes]."""
        if x.ndim != 5:
            raise ShapeError(f"AttentionClusters: x {x.shape} must be clips [N, T, H, W, C]")
        features = self.net(x.reshape((-1, *x.shape[2:])))
        seen = self.attention(features.reshape((-1, x.shape[1], features.shape[1])))
        return self.fc(self.dropout(seen))  # type: ignore[no-any-return]


TASK = "video"
VARIANTS: dict[str, dict[str, Any]] = {"attention_clusters_resnet18": {"_target_": "pdl_cv.AttentionClusters"}}
