"""The mobile recogniser of PP-OCRv4 and v5, as PaddleOCR publishes it, for going on with its training: a PP-LCNetV3
whose branches are merged (Cui et al., arXiv 2109.15099; Vasu et al., MobileOne, arXiv 2206.04040), and SVTR's attention
(arXiv 2205.00159)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, SqueezeExcite
from pdl_ocr.models.attention import Guide, Guided
from pdl_ocr.models.svtr_lcnet import BLOCKS, Mixing, Stride

#: channels of a block's table at the width of 0.95, rounded to multiples of 16
ROUNDED = {32: 32, 64: 64, 128: 128, 256: 240, 512: 480}
STEM, CLASSES, CLASSES_V5 = 16, 6625, 18385


class Affine(nn.Module):
    """x scale + shift, one number each."""

    def __init__(self) -> None:
        self.scale, self.shift = nn.Parameter(pdl.ones((1,))), nn.Parameter(pdl.zeros((1,)))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """The shape stays."""
        return x * self.scale + self.shift


class Merged(nn.Module):
    """A convolution, a learned scale and shift, and where it is `activated` hard swish, and a scale and shift again."""

    def __init__(
        self, before: int, channels: int, kernel: int, stride: Stride = 1, groups: int = 1, *, activated: bool = True
    ) -> None:
        self.conv = nn.Conv2d(before, channels, kernel, stride=stride, padding=kernel // 2, groups=groups)
        self.inner, self.outer = Affine(), Affine() if activated else None

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, before] -> [N, H / stride, W / stride, channels]."""
        conv, scale = self.conv, self.inner.scale
        assert conv.bias is not None
        # the inner scale and shift go into the weights, which are few
        weight, bias = conv.weight * scale, conv.bias * scale + self.inner.shift
        y = pdl.conv2d(x, weight, bias, stride=conv.stride, padding=conv.padding, groups=conv.groups)
        return y if self.outer is None else self.outer(pdl.hardswish(y))  # type: ignore[no-any-return]


class PPOCRRecogniser(Guided):
    """Images of lines [N, 48, W, 3] (RGB, -1 to 1) -> logits [N, W / 8, num_classes], W a multiple of 8.

    The merged convolutions have no norms: this is a net to begin with PaddleOCR's weights (`pretrained:
    ocr/ppocr_v4_rec` or `ocr/ppocr_v5_rec`), not with random ones; for those there is `SVTRLCNet`. Another dictionary
    has a last layer of its own, which is learned anew but for the characters that both have. `guide` as in `SVTRLCNet`:
    the published files have none, so it is learned anew.
    """

    head: ClassVar[tuple[str, ...]] = ("classifier", "guide")
    heights = (48,)
    stride = 8
    tolerance = 1e-4  # without norms between them, layers amplify roundings: 7e-6 of the largest output in float32

    def __init__(
        self,
        *,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        guide: Annotated[int, Range(1)] | None = None,
        num_classes: Annotated[int, Range(2)] = CLASSES,
        pretrained: str | None = None,
    ) -> None:
        self.stem = ConvNorm(3, STEM, 3, stride=2, activation=None)
        rows, channels = list[nn.Module](), STEM
        for kernel, base, step, squeeze in BLOCKS:
            rows.append(Merged(channels, channels, kernel, step, channels))
            rows += [SqueezeExcite(channels, channels // 4)] if squeeze else []
            rows.append(Merged(channels, ROUNDED[base], 1))
            channels = ROUNDED[base]
        self.blocks = nn.Sequential(*rows)
        self.mixing = Mixing(channels, 120, layers=2, heads=8, dropout=dropout)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(120, num_classes)
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
    "ppocr_v4_rec": {"_target_": "pdl_ocr.PPOCRRecogniser"},
    "ppocr_v5_rec": {"_target_": "pdl_ocr.PPOCRRecogniser", "num_classes": CLASSES_V5},
    "cyrillic_rec": {"_target_": "pdl_ocr.PPOCRRecogniser", "num_classes": 160},
    "devanagari_rec": {"_target_": "pdl_ocr.PPOCRRecogniser", "num_classes": 164},
}


def remap(model: PPOCRRecogniser, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of ch_PP-OCRv4_rec_infer or PP-OCRv5_mobile_rec_infer, under Paddle's names (conv2d_157.w_0), in
    pdl's names and layouts.

    Paddle numbers layers of a kind in the order of their making: first the stem, squeeze-and-excite and the attention,
    and the merged convolutions last. Its images are BGR, so the stem's channels are turned. ShapeError for a file of
    another net.
    """
    merged, affine = merged_of(model, state)
    mixing = ("enter.0", "enter.1", "leave", "join.0", "join.1")
    order = {
        "conv2d": ["stem.0", *squeezed(model), *(f"mixing.{name}.0" for name in mixing), *merged],
        "batch_norm2d": ["stem.1", *(f"mixing.{name}.1" for name in mixing)],
        **affine,
        **encoder("mixing.encoder", "classifier"),
    }
    return nn.from_torch(model, taken(model, order, state))


def merged_of(model: nn.Module, state: Mapping[str, Any]) -> tuple[list[str], dict[str, list[str]]]:
    """The merged convolutions, and the scales and shifts behind them: of two kinds in PP-OCRv4, of one in v5."""
    own = {name for name, _ in model.named_parameters()}
    merged = [name for name, module in model.named_modules() if isinstance(module, Merged)]
    pairs = [[name for name in (f"{each}.inner", f"{each}.outer") if f"{name}.scale" in own] for each in merged]
    if any(name.startswith("learnable_affine_block") for name in state):
        affine = {"learnable_affine_block": [name for pair in pairs for name in pair]}
    else:
        affine = {
            "mobile_one_block": [pair[0] for pair in pairs],
            "whswish_b": [name for pair in pairs for name in pair[1:]],
        }
    return [f"{name}.conv" for name in merged], affine


def squeezed(model: nn.Module) -> list[str]:
    """The convolutions of squeeze-and-excite in the blocks of a net."""
    found = [name for name, module in model.named_modules() if isinstance(module, SqueezeExcite)]
    return [f"{name}.{fc}" for name in found if name.startswith("blocks.") for fc in ("fc1", "fc2")]


def encoder(name: str, *more: str) -> dict[str, list[str]]:
    """The norms of SVTR's two layers of attention, and its linear layers, with those behind it."""
    layers = [f"{name}.layers.{i}" for i in range(2)]
    linear = [
        f"{each}.{one}" for each in layers for one in ("self_attn.in_proj", "self_attn.out_proj", "linear1", "linear2")
    ]
    return {
        "layer_norm": [*(f"{each}.{one}" for each in layers for one in ("norm1", "norm2")), f"{name}.norm"],
        "linear": [*linear, *more],
    }


def taken(
    model: nn.Module, order: Mapping[str, Sequence[str]], state: Mapping[str, Any], *, stem: str = "stem.0"
) -> dict[str, Any]:
    """A file's tensors in PyTorch's names and layouts, where `order` has for each kind of layers the names here, in the
    order of Paddle's numbers; the stem's channels turned from BGR to RGB. ShapeError for a file of another net."""
    found: dict[str, Any] = {}
    for kind, names in order.items():
        layers = {int(m[1]) for name in state if (m := re.fullmatch(rf"{kind}_(\d+)\.\w_\d", name))}
        if len(layers) != len(names):
            what = type(model).__name__
            raise ShapeError(f"{what} has {len(names)} layers {kind} under Paddle's names, the file {len(layers)}")
        for number, name in zip(sorted(layers), names, strict=True):
            own = {key.rpartition(".")[2]: state[key] for key in state if key.startswith(f"{kind}_{number}.")}
            try:
                found.update(_named(kind, name, own))
            except (KeyError, ValueError) as error:
                raise ShapeError(f"{kind}_{number} of the file is no layer {name} ({error})") from None
    found[f"{stem}.weight"] = np.asarray(found[f"{stem}.weight"])[:, ::-1]
    return found


def _named(kind: str, name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """A layer's tensors in PyTorch's names and layouts. Paddle's linear layers are [in, out], its transposed
    convolutions [in, out, 2, 2]: as those of `Doubled`, [4 out, in, 1, 1], channel (2 i + j) out + c is for the cell
    (i, j)."""
    if kind == "conv2d_transpose":
        weight, bias = np.asarray(own["w_0"]).transpose(2, 3, 1, 0), np.asarray(own["b_0"]).reshape(-1)
        return {f"{name}.weight": weight.reshape(-1, weight.shape[-1], 1, 1), f"{name}.bias": np.tile(bias, 4)}
    if kind in ("mobile_one_block", "whswish_b", "learnable_affine_block"):
        return {f"{name}.scale": own["w_0"], f"{name}.shift": own["w_1"]}
    if kind == "linear":
        joined = "_" if name.endswith("in_proj") else "."  # a parameter of the attention, not a layer in it
        return {f"{name}{joined}weight": np.asarray(own["w_0"]).T, f"{name}{joined}bias": own["b_0"]}
    if kind == "conv1d":  # one row high here
        weight = np.asarray(own["w_0"])
        return {f"{name}.weight": weight.reshape(*weight.shape[:2], 1, weight.shape[-1])}
    names = {"w_0": "weight", "b_0": "bias", "w_1": "running_mean", "w_2": "running_var"}
    return {f"{name}.{names[key]}": value for key, value in own.items()}
