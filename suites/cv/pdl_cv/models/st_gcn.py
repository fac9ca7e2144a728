"""ST-GCN: Yan, Xiong, Lin, Spatial temporal graph convolutional networks for skeleton-based action recognition, AAAI
2018 (arXiv 1801.07455); and several of it side by side, as in Shi, Zhang, Cheng, Lu, Two-stream adaptive graph
convolutional networks for skeleton-based action recognition, CVPR 2019 (arXiv 1805.07694).

Joints are the nodes of a graph, bones its edges. A block mixes the joints that lie next to each other, those nearer to
the middle of the body, those further away and the joint itself with weights of their own, and then looks along time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ShapeError, UsageError
from pdl.hints import Range
from pdl_cv.models.blocks import Auxiliary, mean_of_softmax, take_pretrained

Width = Annotated[int, Range(1)]
Field = Literal["place", "motion", "bone", "direction"]
WIDTHS = (64, 64, 64, 64, 128, 128, 128, 256, 256, 256)
LATER = 9  # frames that a temporal convolution sees
SHORTEST = 1e-3  # a bone that has a direction, in the units of places
FIELDS = get_args(Field)
NTU_JOINTS, NTU_CENTRE = 25, 20
NTU_EDGES = (
    (0, 1), (1, 20), (2, 20), (2, 3), (4, 20), (4, 5), (5, 6), (6, 7), (8, 20), (8, 9), (9, 10), (10, 11), (0, 12),
    (12, 13), (13, 14), (14, 15), (0, 16), (16, 17), (17, 18), (18, 19), (7, 22), (21, 22), (11, 24), (23, 24),
)  # fmt: skip
"""The bones of the 25 joints of Kinect 2, as in NTU RGB+D (Shahroudy et al., arXiv 1604.02808)."""


def partition(joints: int, edges: Sequence[Sequence[int]], centre: int) -> Array:
    """float32 [3, joints, joints]: A[k, i, j] is what joint j gives to joint i, 1 / (neighbours of j, itself counted),
    where j is as far from `centre` as i (k = 0), nearer (1) or further away (2), in edges: the spatial configuration of
    section 3.3. UsageError where an edge leads to no joint, or a joint is not joined with the centre."""
    near = np.eye(joints, dtype=bool)
    for a, b in edges:
        if not 0 <= min(a, b) <= max(a, b) < joints:
            raise UsageError(f"STGCN: edges: [{a}, {b}] leads to no joint of 0 to {joints - 1}")
        near[a, b] = near[b, a] = True
    if not 0 <= centre < joints:
        raise UsageError(f"STGCN: centre={centre} is no joint of 0 to {joints - 1}")
    hops = np.full(joints, -1)
    reached = np.arange(joints) == centre
    for distance in range(joints):
        hops[reached & (hops < 0)] = distance
        reached = near[:, reached].any(axis=1)
    if (hops < 0).any():
        raise UsageError(f"STGCN: edges: joint {int(np.flatnonzero(hops < 0)[0])} is not joined with {centre}")
    share = near / near.sum(axis=0)
    order = np.sign(hops[None, :] - hops[:, None])  # of j against i: -1 nearer
    return np.stack([share * (order == k) for k in (0, -1, 1)]).astype(np.float32)


class GraphBlock(nn.Module):
    """relu(shortcut(x) + temporal(spatial(x))): x [N, T, V, C] -> [N, T / stride, V, channels]."""

    def __init__(
        self, graph: Array, in_channels: int, channels: int, stride: int, dropout: float, residual: bool
    ) -> None:
        parts, joints, _ = graph.shape
        self.channels, self.parts, self.stride = channels, parts, stride
        self.register_buffer("graph", pdl.Tensor(graph))
        self.importance = nn.Parameter(pdl.ones((parts, joints, joints)))
        self.gcn = nn.Conv2d(in_channels, parts * channels, 1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.tcn = nn.Conv2d(channels, channels, (LATER, 1), stride=(stride, 1), padding=(LATER // 2, 0))
        self.norm2, self.dropout = nn.BatchNorm2d(channels), nn.Dropout(dropout)
        self.shortcut: nn.Module | None = None
        if residual and (stride != 1 or in_channels != channels):
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, channels, 1, stride=(stride, 1)), nn.BatchNorm2d(channels)
            )
        self.residual = residual

    graph: pdl.Tensor

    def forward(self, x: pdl.Tensor, there: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, V, in_channels] and which frames there are, 1 or 0 [N, T, 1, 1] -> [N, T / stride, V, channels]."""
        joints = x.shape[2]
        mixing = (self.graph * self.importance).permute_dims((1, 2, 0)).reshape((joints, joints * self.parts))
        y = self.gcn(x)  # a row of parts for each joint, so joint and part are one axis
        y = pdl.matmul(mixing, y.reshape((*x.shape[:2], joints * self.parts, self.channels)))
        y = self.dropout(self.norm2(self.tcn(self.norm1(y, activation="relu") * there)))
        if self.residual:
            y = y + (x if self.shortcut is None else self.shortcut(x))
        return pdl.relu(y)


class STGCN(nn.Module):
    """Sequences [N, T, joints, in_channels] -> logits [N, num_classes]. Frames whose numbers are all 0 are none: what
    the net sees there counts in no mean.

    joints      of a body; these three by default those of NTU RGB+D
    edges       pairs of joints that bones join
    centre      the joint in the middle of the body
    widths      channels of the blocks; where they grow, every second frame is left out
    fields      what the first block sees of a joint: its place, its motion since the frame before, the bone from the
                joint next to it that is nearer to the centre, and the bone's direction, of length 1; the paper has the
                place alone
    dropout     in blocks
    pretrained  a name of the hub or a file
    """

    head: ClassVar[str] = "fc"

    def __init__(
        self,
        *,
        joints: Width = NTU_JOINTS,
        edges: Sequence[Sequence[int]] = NTU_EDGES,
        centre: Annotated[int, Range(0)] = NTU_CENTRE,
        in_channels: Width = 3,
        num_classes: Width = 60,
        widths: Sequence[Width] = WIDTHS,
        fields: Sequence[Field] = ("place",),
        dropout: Annotated[float, Range(0, below=1)] = 0.5,
        pretrained: str | None = None,
    ) -> None:
        if not fields or len(set(fields)) < len(fields):
            raise UsageError(f"STGCN: fields={list(fields)} must be some of {', '.join(FIELDS)}, each once")
        graph = partition(joints, edges, centre)
        self.joints, self.in_channels, self.fields = joints, in_channels, tuple(fields)
        self.parents = [int(row.argmax()) if row.any() else k for k, row in enumerate(graph[1])]
        channels = in_channels * len(self.fields)
        self.data_norm = nn.BatchNorm1d(joints * channels)
        blocks: list[nn.Module] = []
        for number, width in enumerate(widths):
            stride = 2 if number and width > widths[number - 1] else 1
            blocks.append(GraphBlock(graph, channels, width, stride, dropout, number > 0))
            channels = width
        self.blocks = nn.ModuleList(blocks)
        self.fc = nn.Linear(channels, num_classes)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, joints, in_channels] -> logits [N, num_classes]."""
        if x.ndim != 4 or x.shape[2:] != (self.joints, self.in_channels):
            raise ShapeError(f"STGCN: x {x.shape} must be [N, T, {self.joints}, {self.in_channels}]")
        there = (pdl.abs(x).max(axis=(2, 3), keepdims=True) > 0).astype(x.dtype)  # [N, T, 1, 1]
        found = {"place": x}
        if "motion" in self.fields:
            moved = (x[:, 1:] - x[:, :-1]) * (there[:, 1:] * there[:, :-1])
            found["motion"] = pdl.pad(moved, ((0, 0), (1, 0), (0, 0), (0, 0)))
        if {"bone", "direction"} & set(self.fields):
            found["bone"] = x - pdl.take(x, np.array(self.parents), axis=2)
            found["direction"] = pdl.normalize(found["bone"], eps=SHORTEST)
        y = pdl.concat([found[name] for name in self.fields], axis=3) if self.fields[1:] else found[self.fields[0]]
        width = y.shape[3]
        y = self.data_norm(y.reshape((-1, self.joints * width))).reshape((-1, x.shape[1], self.joints, width))
        for block in cast(Any, self.blocks):
            y = block(y, there)
            there = there[:, :: block.stride]
        pooled = (y.mean(axis=2, keepdims=True) * there).sum(axis=(1, 2))
        return self.fc(pooled / pdl.maximum(there.sum(axis=(1, 2)), 1.0))  # type: ignore[no-any-return]


class STGCNStreams(nn.Module):
    """An `STGCN` for each of several streams of fields: the mean of their probabilities (arXiv 1805.07694, section 3.4,
    adds them up). In training each has a loss of its own, so none leans on another.

    streams  the fields of each
    Others as of `STGCN`.
    """

    def __init__(
        self,
        *,
        joints: Width = NTU_JOINTS,
        edges: Sequence[Sequence[int]] = NTU_EDGES,
        centre: Annotated[int, Range(0)] = NTU_CENTRE,
        in_channels: Width = 3,
        num_classes: Width = 60,
        widths: Sequence[Width] = WIDTHS,
        streams: Sequence[Sequence[Field]] = (("place",), ("bone",)),
        dropout: Annotated[float, Range(0, below=1)] = 0.5,
        pretrained: str | None = None,
    ) -> None:
        if not streams:
            raise UsageError("STGCNStreams: streams must name the fields of one stream at least")
        self.joints, self.in_channels = joints, in_channels
        self.streams = nn.ModuleList(
            STGCN(
                joints=joints, edges=edges, centre=centre, in_channels=in_channels, num_classes=num_classes,
                widths=widths, fields=fields, dropout=dropout,
            )
            for fields in streams
        )  # fmt: skip
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor | Auxiliary:
        """x [N, T, joints, in_channels] -> log probabilities [N, num_classes]; in training `Auxiliary` of the logits of
        all streams."""
        logits = [stream(x) for stream in cast(Any, self.streams)]
        if self.training:
            return Auxiliary(logits[0], tuple(logits[1:]), 1.0)
        return mean_of_softmax(logits)


TASK = "video"
VARIANTS: dict[str, dict[str, Any]] = {"st_gcn": {"_target_": "pdl_cv.STGCN"}}
