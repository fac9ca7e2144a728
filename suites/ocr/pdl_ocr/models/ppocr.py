"""PP-OCRv4's mobile recogniser, as PaddleOCR publishes it, for going on with its training: a PP-LCNetV3 whose branches
are merged (Cui et al., arXiv 2109.15099; Vasu et al., MobileOne, arXiv 2206.04040), and SVTR's attention (arXiv
2205.00159)."""

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

#: channels of a block's table at PP-OCRv4's width of 0.95, rounded to multiples of 16
ROUNDED = {32: 32, 64: 64, 128: 128, 256: 240, 512: 480}
STEM, CLASSES = 16, 6625


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
    ocr/ppocr_v4_rec`), not with random ones; for those there is `SVTRLCNet`. Another dictionary has a last layer of its
    own, which is learned anew. `guide` as in `SVTRLCNet`: the published file has none, so it is learned anew.
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
VARIANTS: dict[str, dict[str, Any]] = {"ppocr_v4_rec": {"_target_": "pdl_ocr.PPOCRRecogniser"}}


def remap(model: PPOCRRecogniser, state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of ch_PP-OCRv4_rec_infer, under Paddle's names (conv2d_157.w_0), in pdl's names and layouts.

    Paddle numbers layers of a kind in the order of their making: first the stem, squeeze-and-excite and the attention,
    and the merged convolutions last. Its images are BGR, so the stem's channels are turned. ShapeError for a file of
    another net.
    """
    merged = [name for name, module in model.named_modules() if isinstance(module, Merged)]
    squeezed = [f"{n}.{fc}" for n, m in model.named_modules() if isinstance(m, SqueezeExcite) for fc in ("fc1", "fc2")]
    mixing = ("enter.0", "enter.1", "leave", "join.0", "join.1")
    encoder = [f"mixing.encoder.layers.{i}" for i in range(2)]
    linear = [
        f"{layer}.{name}"
        for layer in encoder
        for name in ("self_attn.in_proj", "self_attn.out_proj", "linear1", "linear2")
    ]
    order = {
        "conv2d": ["stem.0", *squeezed, *(f"mixing.{name}.0" for name in mixing), *(f"{name}.conv" for name in merged)],
        "batch_norm2d": ["stem.1", *(f"mixing.{name}.1" for name in mixing)],
        "mobile_one_block": [f"{name}.inner" for name in merged],
        "whswish_b": [f"{name}.outer" for name in merged],
        "layer_norm": [*(f"{layer}.{name}" for layer in encoder for name in ("norm1", "norm2")), "mixing.encoder.norm"],
        "linear": [*linear, "classifier"],
    }
    return nn.from_torch(model, taken("recogniser", order, state))


def taken(what: str, order: Mapping[str, Sequence[str]], state: Mapping[str, Any]) -> dict[str, Any]:
    """A file's tensors in PyTorch's names and layouts, where `order` has for each kind of layers the names here, in the
    order of Paddle's numbers; the stem's channels turned from BGR to RGB. ShapeError for a file of another net."""
    found: dict[str, Any] = {}
    for kind, names in order.items():
        layers = {int(m[1]) for name in state if (m := re.fullmatch(rf"{kind}_(\d+)\.\w_\d", name))}
        if len(layers) != len(names):
            raise ShapeError(f"PP-OCRv4's {what} has {len(names)} layers {kind}, the file {len(layers)}")
        for number, name in zip(sorted(layers), names, strict=True):
            own = {key.rpartition(".")[2]: state[key] for key in state if key.startswith(f"{kind}_{number}.")}
            found.update(_named(kind, name, own))
    found["stem.0.weight"] = np.asarray(found["stem.0.weight"])[:, ::-1]
    return found


def _named(kind: str, name: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """A layer's tensors in PyTorch's names and layouts. Paddle's linear layers are [in, out], its transposed
    convolutions [in, out, 2, 2]: as those of `Doubled`, [4 out, in, 1, 1], channel (2 i + j) out + c is for the cell
    (i, j)."""
    if kind == "conv2d_transpose":
        weight, bias = np.asarray(own["w_0"]).transpose(2, 3, 1, 0), np.asarray(own["b_0"]).reshape(-1)
        return {f"{name}.weight": weight.reshape(-1, weight.shape[-1], 1, 1), f"{name}.bias": np.tile(bias, 4)}
    if kind in ("mobile_one_block", "whswish_b"):
        return {f"{name}.scale": own["w_0"], f"{name}.shift": own["w_1"]}
    if kind == "linear":
        joined = "_" if name.endswith("in_proj") else "."  # a parameter of the attention, not a layer in it
        return {f"{name}{joined}weight": np.asarray(own["w_0"]).T, f"{name}{joined}bias": own["b_0"]}
    names = {"w_0": "weight", "b_0": "bias", "w_1": "running_mean", "w_2": "running_var"}
    return {f"{name}.{names[key]}": value for key, value in own.items()}
