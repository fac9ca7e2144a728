"""RT-DETR: Zhao et al., DETRs beat YOLOs on real-time object detection, CVPR 2024 (arXiv 2304.08069).

Attention within the lowest map and a pyramid of convolutions encode; the best places of all maps are queries, which a
decoder with deformable attention (Zhu et al., arXiv 2010.04159) turns into boxes without any suppression. Names are
those of the authors' PyTorch code, but for the backbone's. Queries that learn to remove noise are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.hints import Range
from pdl_cv.models.blocks import substituted, take_pretrained
from pdl_cv.models.detector import Backbone, Detector, Selection, Targets
from pdl_cv.models.resnet import BasicBlock, ResNet, conv
from pdl_cv.ops import class_targets, hungarian_assign, take_assigned

Width = Annotated[int, Range(1)]
DIM, HEADS, POINTS, LEVELS, FEED = 256, 8, 4, 3, 1024
GRID, EDGE, FAR = 0.05, 0.01, 1e4  # side of queries' first boxes; places nearer to the edge are none; their logits
COSTS = {"class": 2.0, "l1": 5.0, "giou": 2.0}
LOSSES = {"class": 1.0, "l1": 5.0, "giou": 2.0}


class Unit(nn.Module):
    """Convolution, batch norm and SiLU (or nothing), as the authors name them."""

    def __init__(self, in_channels: int, channels: int, kernel: int, stride: int = 1, *, act: bool = True) -> None:
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.norm, self.act = nn.BatchNorm2d(channels), act

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return self.norm(self.conv(x), activation="silu" if self.act else None)  # type: ignore[no-any-return]


class RepBlock(nn.Module):
    """silu(3 x 3 + 1 x 1), each with its norm."""

    def __init__(self, channels: int) -> None:
        self.conv1, self.conv2 = (Unit(channels, channels, k, act=False) for k in (3, 1))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        return pdl.silu(self.conv1(x) + self.conv2(x))


class CSPRepLayer(nn.Module):
    """Two paths of `hidden` channels, one of them through three blocks, added."""

    def __init__(self, hidden: int) -> None:
        self.conv1, self.conv2 = (Unit(2 * DIM, hidden, 1) for _ in range(2))
        self.bottlenecks = nn.Sequential(*(RepBlock(hidden) for _ in range(3)))
        self.conv3 = Unit(hidden, DIM, 1) if hidden != DIM else nn.Identity()

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 512] -> [N, H, W, 256]."""
        return self.conv3(self.bottlenecks(self.conv1(x)) + self.conv2(x))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Attention among the cells of a map, and two linear layers."""

    def __init__(self) -> None:
        self.self_attn = nn.MultiHeadAttention(DIM, HEADS)
        self.linear1, self.linear2 = nn.Linear(DIM, FEED), nn.Linear(FEED, DIM)
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)

    def forward(self, x: pdl.Tensor, places: pdl.Tensor) -> pdl.Tensor:
        """x [N, L, 256], places [1, L, 256] -> [N, L, 256]."""
        at = x + places
        x = self.norm1(x + self.self_attn(at, at, x))
        return self.norm2(x + self.linear2(pdl.gelu(self.linear1(x))))  # type: ignore[no-any-return]


class HybridEncoder(nn.Module):
    """Maps of three resolutions -> the same, 256 channels each, which know of each other. Section 4.2."""

    def __init__(self, channels: Sequence[int], hidden: int) -> None:
        self.input_proj = nn.ModuleList(
            [nn.Sequential(nn.Conv2d(c, DIM, 1, bias=False), nn.BatchNorm2d(DIM)) for c in channels]
        )
        self.encoder = nn.ModuleList([nn.ModuleDict({"layers": nn.ModuleList([EncoderLayer()])})])
        self.lateral_convs = nn.ModuleList([Unit(DIM, DIM, 1) for _ in range(LEVELS - 1)])
        self.fpn_blocks = nn.ModuleList([CSPRepLayer(hidden) for _ in range(LEVELS - 1)])
        self.downsample_convs = nn.ModuleList([Unit(DIM, DIM, 3, 2) for _ in range(LEVELS - 1)])
        self.pan_blocks = nn.ModuleList([CSPRepLayer(hidden) for _ in range(LEVELS - 1)])

    def forward(self, maps: Sequence[pdl.Tensor]) -> list[pdl.Tensor]:
        """maps [N, h, w, c], from high to low resolution -> as many [N, h, w, 256]."""
        xs = [project(x) for project, x in zip(self.input_proj, maps, strict=True)]
        n, h, w, _ = xs[-1].shape
        (layer,) = self.encoder[0]["layers"]  # type: ignore[index]
        xs[-1] = layer(xs[-1].reshape((n, h * w, DIM)), pdl.tensor(sines(h, w))).reshape((n, h, w, DIM))
        up = [xs[-1]]
        for x, lateral, block in zip(xs[-2::-1], self.lateral_convs, self.fpn_blocks, strict=True):
            up[0] = lateral(up[0])
            up.insert(0, block(pdl.concat([pdl.resize(up[0], x.shape[1:3], mode="nearest"), x], axis=-1)))
        found = [up[0]]
        for x, down, block in zip(up[1:], self.downsample_convs, self.pan_blocks, strict=True):
            found.append(block(pdl.concat([down(found[-1]), x], axis=-1)))
        return found


@lru_cache(maxsize=64)
def sines(height: int, width: int) -> Array:
    """float32 [1, height width, 256]: sines and cosines of the row and of the column of each cell, row by row."""
    rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    rates = 1 / 10000 ** (np.arange(DIM // 4) / (DIM // 4))
    angles = [each.reshape(-1, 1) * rates for each in (rows, columns)]
    return np.concatenate([f(v) for v in angles for f in (np.sin, np.cos)], axis=1)[None].astype(np.float32)


class MLP(nn.Module):
    """Linear layers with rectifiers between them."""

    def __init__(self, *widths: int) -> None:
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [..., widths[0]] -> [..., widths[-1]]."""
        *first, last = self.layers
        for layer in first:
            x = pdl.relu(layer(x))
        return last(x)  # type: ignore[no-any-return]


class DeformableAttention(nn.Module):
    """Each query and head reads four points of every map, whose places and weights it computes."""

    def __init__(self) -> None:
        total = HEADS * LEVELS * POINTS
        self.sampling_offsets, self.attention_weights = nn.Linear(DIM, 2 * total), nn.Linear(DIM, total)
        self.value_proj, self.output_proj = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        angles = np.arange(HEADS) * (2 * np.pi / HEADS)
        ways = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
        ways = (ways / np.abs(ways).max(axis=-1, keepdims=True))[:, None, None] * np.arange(1, POINTS + 1)[:, None]
        for layer in (self.sampling_offsets, self.attention_weights):
            nn.init.zeros_(layer.weight)
        for layer in (self.attention_weights, self.value_proj, self.output_proj):
            nn.init.zeros_(layer.get_parameter("bias"))
        for layer in (self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(layer.weight)
        offsets = self.sampling_offsets.get_parameter("bias")
        offsets._data[...] = np.broadcast_to(ways, (HEADS, LEVELS, POINTS, 2)).reshape(-1)

    def forward(self, query: pdl.Tensor, boxes: pdl.Tensor, maps: Sequence[pdl.Tensor]) -> pdl.Tensor:
        """query [N, Q, 256], boxes [N, Q, 4] (x, y, w, h of 0 to 1), maps [N, h, w, 256] -> [N, Q, 256]."""
        n, q = query.shape[:2]
        offsets = self.sampling_offsets(query).reshape((n, q, HEADS, LEVELS * POINTS, 2))
        middle, size = (boxes[..., k : k + 2].reshape((n, q, 1, 1, 2)) for k in (0, 2))
        grid = 2 * (middle + offsets * size * (0.5 / POINTS)) - 1  # [N, Q, heads, levels points, 2]
        grid = pdl.permute_dims(grid, (0, 2, 1, 3, 4)).reshape((n * HEADS, q, LEVELS * POINTS, 2))
        weights = pdl.softmax(self.attention_weights(query).reshape((n, q, HEADS, LEVELS * POINTS)), axis=-1)
        weights = pdl.permute_dims(weights, (0, 2, 1, 3)).reshape((n * HEADS, q, LEVELS * POINTS, 1))
        read = []
        for level, x in enumerate(maps):
            h, w = x.shape[1:3]
            value = self.value_proj(x).reshape((n, h, w, HEADS, DIM // HEADS))
            value = pdl.permute_dims(value, (0, 3, 1, 2, 4)).reshape((n * HEADS, h, w, DIM // HEADS))
            read.append(pdl.grid_sample(value, grid[:, :, level * POINTS : (level + 1) * POINTS]))
        found = pdl.sum(pdl.concat(read, axis=2) * weights, axis=2)  # [N heads, Q, 32]
        found = pdl.permute_dims(found.reshape((n, HEADS, q, DIM // HEADS)), (0, 2, 1, 3)).reshape((n, q, DIM))
        return self.output_proj(found)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Attention among the queries, then to the maps, and two linear layers."""

    def __init__(self) -> None:
        self.self_attn, self.cross_attn = nn.MultiHeadAttention(DIM, HEADS), DeformableAttention()
        self.linear1, self.linear2 = nn.Linear(DIM, FEED), nn.Linear(FEED, DIM)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(DIM), nn.LayerNorm(DIM), nn.LayerNorm(DIM)

    def forward(self, x: pdl.Tensor, places: pdl.Tensor, boxes: pdl.Tensor, maps: Sequence[pdl.Tensor]) -> pdl.Tensor:
        """x and places [N, Q, 256], boxes [N, Q, 4] -> [N, Q, 256]."""
        at = x + places
        x = self.norm1(x + self.self_attn(at, at, x))
        x = self.norm2(x + self.cross_attn(x + places, boxes, maps))
        return self.norm3(x + self.linear2(pdl.relu(self.linear1(x))))  # type: ignore[no-any-return]


class Said(NamedTuple):
    """logits [N, Q, C] and boxes [N, Q, 4] (x, y, w, h of 0 to 1) of queries."""

    logits: pdl.Tensor
    boxes: pdl.Tensor


class Decoder(nn.Module):
    """The best places of all maps as queries, and what each layer makes of them. Sections 4.3 and 4.4."""

    def __init__(self, num_classes: int, layers: int, queries: int) -> None:
        self.queries = queries
        self.input_proj = nn.ModuleList(
            [
                nn.Sequential({"conv": nn.Conv2d(DIM, DIM, 1, bias=False), "norm": nn.BatchNorm2d(DIM)})
                for _ in range(LEVELS)
            ]
        )
        self.decoder = nn.ModuleDict({"layers": nn.ModuleList([DecoderLayer() for _ in range(layers)])})
        self.query_pos_head = MLP(4, 2 * DIM, DIM)
        self.enc_output = nn.Sequential(nn.Linear(DIM, DIM), nn.LayerNorm(DIM))
        self.enc_score_head, self.enc_bbox_head = nn.Linear(DIM, num_classes), MLP(DIM, DIM, DIM, 4)
        self.dec_score_head = nn.ModuleList([nn.Linear(DIM, num_classes) for _ in range(layers)])
        self.dec_bbox_head = nn.ModuleList([MLP(DIM, DIM, DIM, 4) for _ in range(layers)])
        for scores in (self.enc_score_head, *self.dec_score_head):
            nn.init.constant_(scores.get_parameter("bias"), -math.log(99))
        for boxes in (self.enc_bbox_head, *self.dec_bbox_head):
            nn.init.zeros_(boxes.layers[-1].weight)  # type: ignore[union-attr]
            nn.init.zeros_(boxes.layers[-1].bias)  # type: ignore[union-attr]

    def forward(self, maps: Sequence[pdl.Tensor]) -> list[Said]:
        """maps [N, h, w, 256] -> what the encoder says of its best places, and each layer of its queries."""
        maps = [project(x) for project, x in zip(self.input_proj, maps, strict=True)]
        sizes = tuple((int(x.shape[1]), int(x.shape[2])) for x in maps)
        places, inside = first_boxes(sizes)
        n = maps[0].shape[0]
        memory = pdl.concat([x.reshape((n, h * w, DIM)) for x, (h, w) in zip(maps, sizes, strict=True)], axis=1)
        memory = self.enc_output(memory * inside)
        logits, boxes = self.enc_score_head(memory), self.enc_bbox_head(memory) + places
        _, best = pdl.topk(pdl.max(logits, axis=-1).detach(), min(self.queries, len(places)), axis=1)
        logits, boxes, x = (_rows(each, best) for each in (logits, boxes, memory))
        found, x, before = [Said(logits, pdl.sigmoid(boxes))], x.detach(), pdl.sigmoid(boxes.detach())
        at = before
        decoding: Any = self.decoder["layers"]
        for layer, score, box in zip(decoding, self.dec_score_head, self.dec_bbox_head, strict=True):
            x = layer(x, self.query_pos_head(at), at, maps)
            shift = box(x)
            found.append(Said(score(x), pdl.sigmoid(shift + logit(before))))
            before = pdl.sigmoid(shift + logit(at))
            at = before.detach()
        return found


def _rows(x: pdl.Tensor, index: pdl.Tensor) -> pdl.Tensor:
    """x [N, A, C] at index [N, Q] -> [N, Q, C]."""
    wide = pdl.broadcast_to(pdl.expand_dims(index, 2), (*index.shape, x.shape[2]))
    return pdl.take_along_axis(x, wide, axis=1)


def logit(p: pdl.Tensor) -> pdl.Tensor:
    """log(p / (1 - p)), both at least 1e-5."""
    return pdl.log(pdl.maximum(p, 1e-5) / pdl.maximum(1 - p, 1e-5))


@lru_cache(maxsize=64)
def first_boxes(sizes: tuple[tuple[int, int], ...]) -> tuple[Array, Array]:
    """Logits float32 [A, 4] of the box (x, y, w, h) that each cell of maps of these sizes begins with, and float32 [A,
    1]: 0 of cells at the edge, which are no queries.
    """
    found = []
    for level, (height, width) in enumerate(sizes):
        x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
        side = np.full_like(x, GRID * 2**level)
        found.append(np.stack([x, y, side, side], axis=-1).reshape(-1, 4))
    boxes = np.concatenate(found)
    inside: Array = np.all((boxes > EDGE) & (boxes < 1 - EDGE), axis=1, keepdims=True)
    safe = np.clip(boxes, 1e-6, 1 - 1e-6)
    return np.where(inside, np.log(safe / (1 - safe)), FAR).astype(np.float32), inside.astype(np.float32)


class RTDETR(Detector):
    """Images [N, H, W, 3] -> boxes of `num_classes` classes; H and W are multiples of 32.

    backbone  any classification net; by default a fresh ResNet-D of 18 layers
    hidden    channels within the blocks of the encoder's pyramid
    layers    of the decoder
    queries   objects that are found at most
    """

    head: str | tuple[str, ...] = ()

    def __init__(
        self,
        size: Literal["r18"] = "r18",
        *,
        num_classes: Width = 80,
        backbone: nn.Module | None = None,
        hidden: Width = 128,
        layers: Width = 3,
        queries: Width = 300,
        pretrained: str | None = None,
    ) -> None:
        self.selection = Selection(kind="none", score=0.01, candidates=queries, most=queries)
        self.backbone = Backbone(_resnet18() if backbone is None else backbone)
        self.encoder = HybridEncoder(self.backbone.channels, hidden)
        self.decoder = Decoder(num_classes, layers, queries)
        self.num_classes = num_classes
        heads = (f"decoder.dec_score_head.{i}" for i in range(layers))
        self.head = ("decoder.enc_score_head", *heads)
        take_pretrained(self, pretrained)

    def predictions(self, images: pdl.Tensor) -> list[Said]:
        """What the encoder and each layer of the decoder say."""
        return self.decoder(self.encoder(self.backbone(images)))  # type: ignore[no-any-return]

    def decoded(self, found: list[Said], size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """What the last layer says of its queries: boxes [N, Q, 4] in pixels of the images, scores [N, Q, C]."""
        last, (height, width) = found[-1], size
        extent = np.array([width, height, width, height], np.float32)
        return corners(last.boxes) * extent, pdl.sigmoid(last.logits)

    def losses(self, found: list[Said], targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """Varifocal loss of the classes, L1 distance and GIoU of the boxes (section 4.3), of the encoder and of every
        layer, each after a pairing of its own with the lowest cost; divided by the number of objects.
        """
        height, width = size
        boxes = targets.boxes / np.array([width, height, width, height], np.float32)
        count = pdl.maximum(pdl.sum(pdl.astype(pdl.greater_equal(targets.labels, 0), boxes.dtype)), 1.0)
        each = [self._loss(said, boxes, targets.labels) for said in found]
        sums: dict[str, Any] = {name: sum(parts[name] for parts in each) for name in LOSSES}
        return {name: total * (LOSSES[name] / count) for name, total in sums.items()}

    def _loss(self, said: Said, boxes: pdl.Tensor, labels: pdl.Tensor) -> dict[str, pdl.Tensor]:
        """The sums over a batch; boxes [N, M, 4] are corners, as shares of the image."""
        found = corners(said.boxes)
        index = hungarian_assign(cost(said.logits.detach(), said.boxes.detach(), boxes, labels), labels)
        paired = pdl.astype(pdl.greater_equal(index, 0), found.dtype)
        wanted = take_assigned(boxes, index)
        overlap = pdl.maximum(1 - pdl.box_iou_loss(found.detach(), wanted, kind="iou"), 0.0) * paired
        classes = class_targets(index, labels, num_classes=self.num_classes, quality=overlap)
        apart = pdl.sum(pdl.abs(said.boxes - centred(wanted)), axis=-1)
        return {
            "class": pdl.varifocal_loss(said.logits, classes, reduction="sum"),
            "l1": pdl.sum(apart * paired),
            "giou": pdl.sum(pdl.box_iou_loss(found, wanted, kind="giou") * paired),
        }


def cost(logits: pdl.Tensor, boxes: pdl.Tensor, truth: pdl.Tensor, labels: pdl.Tensor) -> pdl.Tensor:
    """What it costs to pair a query with an object: logits [N, Q, C], boxes [N, Q, 4] (x, y, w, h), truth [N, M, 4]
    (corners), labels [N, M] -> [N, Q, M]. Focal loss, L1 distance and GIoU (section 4.3).
    """
    wide = pdl.broadcast_to(pdl.expand_dims(pdl.maximum(labels, 0), 1), (*logits.shape[:2], labels.shape[1]))
    p = pdl.sigmoid(pdl.take_along_axis(logits, wide, axis=2))
    right = 0.25 * (1 - p) ** 2 * -pdl.log(p + 1e-8)
    wrong = 0.75 * p**2 * -pdl.log(1 - p + 1e-8)
    apart = pdl.sum(pdl.abs(pdl.expand_dims(boxes, 2) - pdl.expand_dims(centred(truth), 1)), axis=-1)
    giou = pdl.box_iou(corners(boxes), truth, kind="giou")
    return COSTS["class"] * (right - wrong) + COSTS["l1"] * apart - COSTS["giou"] * giou


def corners(boxes: pdl.Tensor) -> pdl.Tensor:
    """(x, y, w, h) [..., 4] -> (x1, y1, x2, y2)."""
    middle, half = boxes[..., :2], boxes[..., 2:] * 0.5
    return pdl.concat([middle - half, middle + half], axis=-1)


def centred(boxes: pdl.Tensor) -> pdl.Tensor:
    """(x1, y1, x2, y2) [..., 4] -> (x, y, w, h)."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return pdl.concat([(low + high) * 0.5, high - low], axis=-1)


def _resnet18() -> ResNet:
    """ResNet-18-D as Paddle defines it: the first block has a projection, too."""
    net = ResNet(18, deep_stem=True, average_shortcut=True)
    first = net.layer1[0]
    assert isinstance(first, BasicBlock)
    first.downsample = nn.Sequential(nn.Identity(), conv(64, 64, 1), nn.BatchNorm2d(64))
    return net


TASK = "detection"
VARIANTS: dict[str, dict[str, Any]] = {"rt_detr_r18": {"_target_": "pdl_cv.RTDETR", "size": "r18"}}


def remap(model: RTDETR, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of the authors' PyTorch code in pdl's names and layouts."""
    stem = {"1.conv": "conv1.0", "1.norm": "conv1.1", "2.conv": "conv1.3", "2.norm": "conv1.4", "3.conv": "conv1.6",
            "3.norm": "bn1"}  # fmt: skip
    names = [
        (r"^backbone\.conv1\.conv1_(\d\.\w+)", lambda found: f"backbone.net.{stem[found[1]]}"),
        (r"^backbone\.res_layers\.(\d)\.blocks\.", lambda found: f"backbone.net.layer{int(found[1]) + 1}."),
        (r"\.branch2a\.conv", ".conv1"), (r"\.branch2a\.norm", ".bn1"),
        (r"\.branch2b\.conv", ".conv2"), (r"\.branch2b\.norm", ".bn2"),
        (r"\.short\.(conv\.)?conv\.", ".downsample.1."), (r"\.short\.(conv\.)?norm\.", ".downsample.2."),
    ]  # fmt: skip
    unused = ("decoder.denoising_class_embed", "decoder.anchors", "decoder.valid_mask")
    kept = {name: value for name, value in state.items() if not name.startswith(unused)}
    return nn.from_torch(model, substituted(kept, names))
