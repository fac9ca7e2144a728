"""The `compress:` section of a recipe: what makes its model smaller than the recipe's `model` alone says, and whom it
learns from. `pdl compress` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from pdl.config.signature import SECTION
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.hub.pretrained import load_pretrained, skipped
from pdl.nn import Module


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """What a net learns from another one beside the labels: (1 - weight) loss + weight T^2 KL(p(t / T), p(s / T)), with
    the softmax p, of its outputs s and the teacher's t (Hinton et al., arXiv 1503.02531).

    teacher         a run folder, a bundle, an ONNX file or a name of the hub; it is given what the net is given
    weight          of the teacher
    temperature     T
    features        names of modules of the net, with those of the teacher (a run) whose maps they imitate:
                    {"layer3": "layer3"}. Compared are the places where they respond (attention transfer, Zagoruyko and
                    Komodakis, arXiv 1612.03928), so channels may differ, heights and widths not
    feature_weight  of that
    """

    teacher: str
    weight: Annotated[float, Range(0, 1)] = 0.5
    temperature: Annotated[float, Range(above=0)] = 4.0
    features: dict[str, str] | None = None
    feature_weight: Annotated[float, Range(0)] = 1.0


@dataclass(frozen=True, kw_only=True)
class Int8:
    """A model with the roundings of bytes in its forward part (`pdl.export.quantise.aware.Rounded`).

    inputs  of the deployed net: {"image": ["float32", "n=3", 32, 32, 3]}; sizes with a name may change
    keep    products that stay in floats: "first", "last", "both" or ""
    """

    inputs: dict[str, list[int | str]]
    keep: Literal["", "first", "last", "both"] = ""


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """Weights of linear layers and convolutions that become zeros in training (`pdl.train.sparsity`).

    share   of these weights, at the end
    block   outputs side by side that go together, of one input: 16 are what the runtime computes without, where that is
            faster; 1 makes bundles smaller alone
    ratios  the same share of each layer ("uniform"), or one order of all, by what each block is among those of its
            layer ("global")
    until   the part of all steps after which the share is reached
    """

    share: Annotated[float, Range(above=0, below=1)] = 0.8
    block: Literal[1, 16] = 16
    ratios: Literal["uniform", "global"] = "global"
    until: Annotated[float, Range(above=0, high=1)] = 0.5


@dataclass(frozen=True, kw_only=True)
class Compression:
    """How a model differs from what the recipe's `model` builds.

    shapes   sizes of the weights that have fewer channels, by name
    ranks    of layers whose weight is a product of two smaller ones, by name of the module (`pdl.nn.factored`)
    int8     {inputs: {...}}: it is rounded to bytes and learns with that (`Int8`)
    sparse   {share: 0.8}: weights become zeros (`Sparse`)
    weights  what training begins with: a run folder, a bundle or a file of weights; needed with int8
    distil   {teacher: runs/large}: whom it learns from (`Distillation`)
    """

    shapes: dict[str, list[int]] | None = None
    ranks: dict[str, int] | None = None
    int8: Annotated[Int8, SECTION] | None = None
    sparse: Annotated[Sparse, SECTION] | None = None
    weights: str | None = None
    distil: Annotated[Distillation, SECTION] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.distil, Mapping):
            object.__setattr__(self, "distil", Distillation(**self.distil))
        if isinstance(self.sparse, Mapping):
            object.__setattr__(self, "sparse", Sparse(**self.sparse))
        if isinstance(self.int8, Mapping):
            object.__setattr__(self, "int8", Int8(**self.int8))

    def applied(self, model: Module) -> Module:
        """The model in its smaller form, with the weights that it begins with."""
        shapes = dict(self.shapes or {})
        if self.ranks:
            from pdl.pruning import cutting, ranks

            whole = [name for name, _ in (*model.named_parameters(), *model.named_buffers()) if name in shapes]
            cutting.shape(model, {name: shapes.pop(name) for name in whole})
            ranks.shape(model, self.ranks)
        if shapes:  # with ranks those of the smaller weights, of which channels went afterwards
            from pdl.pruning import cutting

            cutting.shape(model, shapes)
        if self.int8 is not None:
            if self.weights is None and not skipped():
                raise ConfigError("compress.int8: ranges are found on data; begin with a run that has them (weights)")
            from pdl.export.quantise.aware import Rounded, inputs_of

            model = Rounded(_apart(model).eval(), inputs_of(self.int8.inputs), self.int8.keep)
        if self.weights is not None:
            load_pretrained(model, self.weights)
        return model


def _apart(model: Module) -> Module:
    """The model with numbers of no meaning, none like another: equal ones would be one constant of its program, and the
    names of what is learned would hang on values."""
    draws = np.random.default_rng(0)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.dtype.kind == "f" and getattr(tensor, "persistent", True):
            tensor._data = draws.uniform(0.5, 1.5, tensor.shape).astype(tensor.dtype)
    return model
