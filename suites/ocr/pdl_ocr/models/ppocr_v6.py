"""PP-OCRv6's recogniser, as PaddleOCR publishes it, for going on with its training: a PP-LCNetV4, blocks of a depthwise
convolution and two layers at each place whose branches are merged (Cui et al., arXiv 2109.15099; Yu et al., MetaFormer,
arXiv 2111.11418), and SVTR's attention (Du et al., arXiv 2205.00159)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, SqueezeExcite
from pdl_ocr.models.attention import Guide, Guided
from pdl_ocr.models.ppocr import encoder, squeezed, taken
from pdl_ocr.models.svtr_lcnet import Stride

Size = Literal["tiny", "small"]
#: channels and blocks of the stages, and classes of the published dictionary
STAGES: dict[Size, list[tuple[int, int]]] = {
    "tiny": [(48, 2), (96, 2), (160, 3)],
    "small": [(96, 3), (192, 6), (384, 2)],
}
CLASSES: dict[Size, int] = {"tiny": 6906, "small": 18710}
DIM: dict[Size, int] = {"tiny": 80, "small": 120}
AFTER = ((0, 1), (0, 1))  # padding of windows of 2 x 2 that keep the size


class Stem(nn.Module):
    """PP-HGNet's beginning: x [N, H, W, 3] -> [N, H / 4, W / 4, channels], a maximum beside two convolutions."""

    def __init__(self, channels: int) -> None:
        half = channels // 2
        self.first = nn.Conv2d(3, half, 3, stride=2, padding=1)
        self.left = nn.Conv2d(half, half // 2, 2, padding=AFTER)
        self.right = nn.Conv2d(half // 2, half, 2, padding=AFTER)
        self.join = nn.Conv2d(channels, half, 3, stride=2, padding=1)
        self.last = nn.Conv2d(half, channels, 1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, 3] -> [N, H / 4, W / 4, channels]."""
        x = pdl.relu(self.first(x))
        y = pdl.relu(self.right(pdl.relu(self.left(x))))
        y = pdl.concat([pdl.max_pool(x, 2, stride=1, padding=AFTER), y], axis=3)
        return pdl.relu(self.last(pdl.relu(self.join(y))))


class Block(nn.Module):
    """A convolution of each channel, squeeze and excite, and two layers at each place with a GELU between, to which
    their input is added where its shape is that of the output."""

    def __init__(self, before: int, channels: int, *, stride: Stride = 1, squeeze: bool = False) -> None:
        self.depth = nn.Conv2d(before, before, 3, stride=stride, padding=1, groups=before)
        self.squeeze = SqueezeExcite(before, before // 4) if squeeze else nn.Identity()
        self.widen, self.narrow = nn.Conv2d(before, 2 * before, 1), nn.Conv2d(2 * before, channels, 1)
        self.added = stride == 1 and channels == before

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, before] -> [N, H / stride, W / stride, channels]."""
        x = self.squeeze(self.depth(x))
        y = self.narrow(pdl.gelu(self.widen(x)))
        return x + y if self.added else y  # type: ignore[no-any-return]


def stages(table: Sequence[tuple[int, int]], stride: Stride) -> list[nn.Sequential]:
    """The stages behind the stem, each of which but the first begins with a stride; every other block but the last of a
    stage squeezes and excites."""
    made, before = list[nn.Sequential](), table[0][0]
    for number, (channels, count) in enumerate(table):
        first = [Block(before, channels, stride=stride)] if number else []
        rest = (Block(channels, channels, squeeze=i % 2 == 0 and i < count - 1) for i in range(count))
        made.append(nn.Sequential(*first, *rest))
        before = channels
    return made


class LightMixing(nn.Module):
    """Attention over the columns behind a convolution over seven of them, beside what came in: x [N, T, C] ->
    [N, T, dim]."""

    def __init__(self, channels: int, dim: int, *, dropout: float) -> None:
        self.enter = ConvNorm(channels, dim, 1, activation=nn.SiLU)
        self.near = ConvNorm(dim, dim, (1, 7), groups=dim, activation=nn.SiLU)
        self.beside = ConvNorm(channels, dim, 1, activation=nn.SiLU)
        self.encoder = nn.TransformerEncoder(
            dim, 8, 2, dim_feedforward=2 * dim, dropout=dropout, activation="silu", norm_first=True
        )

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, C] -> [N, T, dim]."""
        row = pdl.expand_dims(x, axis=1)
        y = self.enter(row)
        y = self.encoder(pdl.squeeze(y + self.near(y), axis=1))
        return y + pdl.squeeze(self.beside(row), axis=1)  # type: ignore[no-any-return]


class NearMixing(nn.Module):
    """A convolution over five columns and two layers at each: x [N, T, C] -> [N, T, dim]."""

    def __init__(self, channels: int, dim: int) -> None:
        self.near = ConvNorm(channels, channels, (1, 5), groups=channels, activation=nn.Hardswish)
        self.each = ConvNorm(channels, channels, 1, activation=nn.Hardswish)
        self.linear = nn.Linear(channels, dim)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, C] -> [N, T, dim]."""
        y = self.each(self.near(pdl.expand_dims(x, axis=1)))
        return self.linear(pdl.squeeze(y, axis=1))  # type: ignore[no-any-return]


class PPOCRv6Recogniser(Guided):
    """Images of lines [N, 48, W, 3] (RGB, -1 to 1) -> logits [N, W / 8, num_classes], W a multiple of 8.

    The merged convolutions have no norms: this is a net to begin with PaddleOCR's weights (`pretrained:
    ocr/ppocr_v6_rec_small`, or `..._tiny` with `size: tiny`), not with random ones; for those there is `SVTRLCNet`.
    `guide` as there: the published files have none, so it is learned anew.
    """

    head: ClassVar[tuple[str, ...]] = ("classifier", "guide")
    heights = (48,)
    stride = 8
    tolerance = 1e-4  # without norms between them, layers amplify roundings

    def __init__(
        self,
        size: Size = "small",
        *,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        guide: Annotated[int, Range(1)] | None = None,
        num_classes: Annotated[int, Range(2)] | None = None,
        pretrained: str | None = None,
    ) -> None:
        num_classes = CLASSES[size] if num_classes is None else num_classes
        first, channels = STAGES[size][0][0], STAGES[size][-1][0]
        self.stem: nn.Module = Stem(first)
        if size == "tiny":
            half = ConvNorm(3, first // 2, 3, stride=2, activation=None)
            self.stem = nn.Sequential(half, nn.GELU(), ConvNorm(first // 2, first, 3, stride=2, activation=None))
        self.blocks = nn.Sequential(*stages(STAGES[size], (2, 1)))
        light = size == "small"
        self.mixing = LightMixing(channels, DIM[size], dropout=dropout) if light else NearMixing(channels, DIM[size])
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(DIM[size], num_classes)
        self.guide = None if guide is None else Guide(channels, guide, num_classes=num_classes)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def columns(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, 48, W, 3] -> features [N, W / 8, channels]."""
        self.check(x)
        return pdl.squeeze(pdl.avg_pool(self.blocks(self.stem(x)), (3, 2), stride=(3, 2)), axis=1)

    def logits(self, y: pdl.Tensor) -> pdl.Tensor:
        """Features [N, T, channels] -> logits [N, T, num_classes]."""
        return self.classifier(self.dropout(self.mixing(y)))  # type: ignore[no-any-return]


TASK = "text_recognition"
VARIANTS: dict[str, dict[str, Any]] = {
    f"ppocr_v6_rec_{size}": {"_target_": "pdl_ocr.PPOCRv6Recogniser", "size": size} for size in STAGES
}


def remap(model: PPOCRv6Recogniser, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of PP-OCRv6_small_rec or PP-OCRv6_tiny_rec, under Paddle's names, in pdl's names and layouts.

    Paddle numbers layers of a kind in the order of their making: what is not merged first. Its images are BGR, so the
    stem's channels are turned. ShapeError for a file of another net.
    """
    merged = merged_convolutions(model)
    if isinstance(model.mixing, LightMixing):
        mixing = ("mixing.enter", "mixing.near", "mixing.beside")
        order = {
            "conv2d": [*squeezed(model), *(f"{name}.0" for name in mixing), *merged],
            "batch_norm2d": [f"{name}.1" for name in mixing],
            **encoder("mixing.encoder", "classifier"),
        }
        return nn.from_torch(model, taken(model, order, state, stem="stem.first"))
    near = ("mixing.near", "mixing.each")
    order = {
        "conv2d": ["stem.0.0", "stem.2.0", *squeezed(model), *merged],
        "batch_norm2d": ["stem.0.1", "stem.2.1"],
        "conv1d": [f"{name}.0" for name in near],
        "batch_norm1d": [f"{name}.1" for name in near],
        "linear": ["mixing.linear", "classifier"],
    }
    return nn.from_torch(model, taken(model, order, state, stem="stem.0.0"))


def merged_convolutions(model: nn.Module) -> list[str]:
    """Those of the stem and the blocks, in the order of the net."""
    found: list[str] = []
    for name, module in model.named_modules():
        if isinstance(module, Stem):
            found += [f"{name}.{each}" for each in ("first", "left", "right", "join", "last")]
        elif isinstance(module, Block):
            found += [f"{name}.{each}" for each in ("depth", "widen", "narrow")]
    return found
