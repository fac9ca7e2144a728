"""SVTR-LCNet: the recogniser of PP-OCRv3 and v4 (Li et al., PP-OCRv3, arXiv 2206.03001, section 3.1): a PP-LCNet whose
strides keep the columns (Cui et al., arXiv 2109.15099), two layers of attention over all columns (Du et al., SVTR,
arXiv 2205.00159), and CTC."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, SqueezeExcite, chain, divisible, initialise
from pdl_ocr.models.attention import Guide, Guided
from pdl_ocr.models.recogniser import columns

Width = Annotated[int, Range(1)]
Stride = int | tuple[int, int]

#: kernel, channels, stride and squeeze-and-excite? of the depthwise separable blocks: v4's table for recognition
BLOCKS: list[tuple[int, int, Stride, bool]] = [
    (3, 32, 1, False),
    (3, 64, 1, False),
    (3, 64, 1, False),
    (3, 128, (2, 1), False),
    (3, 128, 1, False),
    (3, 256, (1, 2), False),
    *[(5, 256, 1, False)] * 4,
    (5, 512, (2, 1), True),
    (5, 512, 1, True),
    (5, 512, (2, 1), False),
    (5, 512, 1, False),
]
HALVING = (1, 3, 5, 10)  # blocks with a stride of 2 in v4's table for detection, which has no other strides


def pages(width: float) -> tuple[list[tuple[int, int, int, bool]], tuple[int, ...]]:
    """The same of v4's table for detection, with channels for a width as PaddleOCR rounds them; and the blocks behind
    which the strides are 4, 8, 16 and 32."""
    rows = [
        (kernel, divisible(base * width, 16), 2 if number in HALVING else 1, squeeze)
        for number, (kernel, base, _, squeeze) in enumerate(BLOCKS)
    ]
    return rows, (*(number - 1 for number in HALVING[1:]), len(rows) - 1)


def separable(
    before: int, out: int, kernel: int, stride: Stride, squeeze: bool, *, activated: bool = True
) -> list[nn.Module]:
    """The layers of PP-LCNet's block: a convolution of each channel, squeeze and excite, a convolution of 1 x 1.

    activated  whether a hard swish follows the first one
    """
    swish = nn.Hardswish if activated else None
    return [
        ConvNorm(before, before, kernel, stride=stride, groups=before, activation=swish),
        *([SqueezeExcite(before, divisible(before / 4))] if squeeze else []),
        ConvNorm(before, out, 1, activation=nn.Hardswish),
    ]


class Mixing(nn.Module):
    """Attention over the columns, beside what came in (PP-OCR's EncoderWithSVTR): x [N, T, C] -> [N, T, dim].

    The way in and the way out are convolutions over three columns to C / 8 channels and linear layers.
    """

    def __init__(self, channels: int, dim: int, *, layers: int, heads: int, dropout: float) -> None:
        narrow = max(1, channels // 8)
        self.enter = nn.Sequential(
            ConvNorm(channels, narrow, (1, 3), activation=nn.SiLU), ConvNorm(narrow, dim, 1, activation=nn.SiLU)
        )
        self.encoder = nn.TransformerEncoder(
            dim, heads, layers, dim_feedforward=2 * dim, dropout=dropout, activation="silu", norm_first=True
        )
        self.leave = ConvNorm(dim, channels, 1, activation=nn.SiLU)
        self.join = nn.Sequential(
            ConvNorm(2 * channels, narrow, (1, 3), activation=nn.SiLU), ConvNorm(narrow, dim, 1, activation=nn.SiLU)
        )

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T, C] -> [N, T, dim]."""
        row = pdl.expand_dims(x, axis=1)
        mixed = self.encoder(pdl.squeeze(chain(self.enter, row), axis=1))
        back = self.leave(pdl.expand_dims(mixed, axis=1))
        return pdl.squeeze(chain(self.join, pdl.concat([row, back], axis=3)), axis=1)


class SVTRLCNet(Guided):
    """Images of lines [N, 32 or 48, W, in_channels] -> logits [N, W / stride, num_classes].

    width      multiplies the channels of the convolutions (0.95 in PP-OCRv4)
    stride     columns of the image in a step: 8 as in PP-OCR, or 4, for words and narrow letters
    dim        of the attention, `layers` of it with `heads` heads
    guide      the width of the decoder by which the convolutions learn beside CTC (`Guide`; 384 in PP-OCRv4); None:
               none. It is for training alone: bundles do not hold it, and a net without takes the weights of one with
    pretrained  a run, a file or a name of the hub
    """

    head: ClassVar[tuple[str, ...]] = ("classifier", "guide")
    heights = (32, 48)

    def __init__(
        self,
        *,
        width: Annotated[float, Range(above=0)] = 0.5,
        stride: Literal[4, 8] = 4,
        dim: Width = 64,
        layers: Width = 2,
        heads: Width = 4,
        dropout: Annotated[float, Range(0, below=1)] = 0.1,
        guide: Width | None = None,
        in_channels: Width = 3,
        num_classes: Annotated[int, Range(2)] = 37,
        pretrained: str | None = None,
    ) -> None:
        self.stride = stride
        channels = divisible(16 * width)
        rows: list[nn.Module] = [ConvNorm(in_channels, channels, 3, stride=2, activation=nn.Hardswish)]
        for kernel, base, step, squeeze in BLOCKS:
            out = divisible(base * width)
            rows += separable(channels, out, kernel, step, squeeze)
            channels = out
        self.features = nn.Sequential(*rows)
        self.mixing = Mixing(channels, dim, layers=layers, heads=heads, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(dim, num_classes)
        initialise(self.features)
        self.guide = None if guide is None else Guide(channels, guide, num_classes=num_classes, dropout=dropout)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def columns(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> features [N, W / stride, channels]."""
        self.check(x)
        y = columns(chain(self.features, x))
        if self.stride == 8:
            y = pdl.avg_pool(pdl.expand_dims(y, axis=1), (1, 2), stride=(1, 2)).squeeze(axis=1)
        return y

    def logits(self, y: pdl.Tensor) -> pdl.Tensor:
        """Features [N, T, channels] -> logits [N, T, num_classes]."""
        return self.classifier(self.dropout(self.mixing(y)))  # type: ignore[no-any-return]


TASK = "text_recognition"
VARIANTS = {
    "svtr_lcnet": {"_target_": "pdl_ocr.SVTRLCNet"},
    "svtr_lcnet_095": {"_target_": "pdl_ocr.SVTRLCNet", "width": 0.95, "stride": 8, "dim": 120, "heads": 8},
}
