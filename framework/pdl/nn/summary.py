"""What a model consists of: its layers with output shapes, parameters and multiply-adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.dtype import float32
from pdl.errors import TraceError
from pdl.nn.module import Module, evaluating
from pdl.ops.base import Op, Spec
from pdl.ops.cost import multiply_adds
from pdl.ops.listeners import observed
from pdl.tensor import HookHandle, Tensor


@dataclass
class Row:
    """One layer: path, class, output shape (of the last call; None where it was not called), own parameters,
    multiply-adds.
    """

    name: str
    layer: str
    output_shape: tuple[int, ...] | None = None
    parameters: int = 0
    multiply_adds: int = 0


@dataclass
class Summary:
    """The layers of a model and their totals. `multiply_adds` is None where the model was not run. `str()` gives a
    table.
    """

    model: str
    rows: list[Row]
    parameters: int
    trainable: int
    buffers: int
    multiply_adds: int | None
    input_shapes: list[tuple[int, ...]] = field(default_factory=list)

    def __str__(self) -> str:
        ran = self.multiply_adds is not None
        titles = ["layer", "type", *(["output"] if ran else []), "parameters", *(["multiply-adds"] if ran else [])]
        lines = [titles, *(self._cells(row, ran) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
        numbers = {"parameters", "multiply-adds"}
        right = [title in numbers for title in titles]
        table = [
            "  ".join(_pad(c, w, r) for c, w, r in zip(line, widths, right, strict=True)).rstrip() for line in lines
        ]
        table.insert(1, "  ".join("-" * w for w in widths))
        return "\n".join([*table, "", self._total()])

    @staticmethod
    def _cells(row: Row, ran: bool) -> list[str]:
        shape = "-" if row.output_shape is None else " x ".join(map(str, row.output_shape))
        counts = [f"{row.parameters:,}", *([f"{row.multiply_adds:,}"] if ran else [])]
        return [row.name or "(model)", row.layer, *([shape] if ran else []), *counts]

    def _total(self) -> str:
        frozen = f" ({self.parameters - self.trainable:,} frozen)" if self.trainable != self.parameters else ""
        parts = [f"{self.model}: {self.parameters:,} parameters{frozen}"]
        if self.multiply_adds is not None:
            shapes = ", ".join(" x ".join(map(str, shape)) for shape in self.input_shapes)
            parts.append(f"{self.multiply_adds:,} multiply-adds for an input of {shapes}")
        return "; ".join(parts)


def summary(model: Module, inputs: Sequence[int] | Tensor | Sequence[Tensor] | None = None) -> Summary:
    """Layers, parameters, and, if `inputs` are given, output shapes and multiply-adds.

    `inputs`: a shape with its batch dimension, such as (1, 224, 224, 3), or the tensors themselves. The model is
    traced, in evaluation mode and without gradients: nothing is computed, and nothing of it is changed. One whose
    shapes or branches depend on values is run instead. Multiply-adds are those of products (convolutions, matrices,
    attention), as papers count them.
    """
    specs = _specs(model, inputs)
    rows = _rows(model)
    if specs is not None:
        with evaluating(model):
            try:
                _trace(model, specs, rows)
            except TraceError:
                rows = _rows(model)
                _run(model, _tensors(inputs, specs), rows)
    shown = [row for m in model.modules() if _is_shown(m, row := rows[id(m)])]
    parameters = list(model.parameters())
    return Summary(
        type(model).__name__,
        shown,
        sum(p.size for p in parameters),
        sum(p.size for p in parameters if p.requires_grad),
        sum(b.size for b in model.buffers()),
        None if specs is None else sum(row.multiply_adds for row in rows.values()),
        [] if specs is None else [spec.shape for spec in specs],
    )


def _rows(model: Module) -> dict[int, Row]:
    return {
        id(m): Row(name, type(m).__name__, None, sum(p.size for p in m.parameters(recurse=False)))
        for name, m in model.named_modules()
    }


def _specs(model: Module, inputs: Any) -> list[Spec] | None:
    """Shapes and dtypes of the arguments; images of a shape alone are of the parameters' dtype."""
    if inputs is None:
        return None
    if isinstance(inputs, Tensor):
        inputs = [inputs]
    elif all(isinstance(x, int) for x in inputs):
        return [Spec(tuple(inputs), next((p.dtype for p in model.parameters()), float32))]
    return [Spec(x.shape, x.dtype) for x in inputs]


def _tensors(inputs: Any, specs: list[Spec]) -> list[Tensor]:
    if isinstance(inputs, Tensor):
        return [inputs]
    return [x if isinstance(x, Tensor) else Tensor(np.zeros(*spec)) for x, spec in zip(inputs, specs, strict=False)]


def _is_shown(module: Module, row: Row) -> bool:
    """Layers without layers of their own, and whatever computes or learns by itself."""
    return next(module.children(), None) is None or row.parameters > 0 or row.multiply_adds > 0


def _trace(model: Module, specs: list[Spec], rows: dict[int, Row]) -> None:
    from pdl.program.tracing import Recorder  # not needed to build and train a model

    recorder = Recorder("summary", {key: str(key) for key in rows})
    with recorder.active(), _shapes(model, rows, []):
        model(*[recorder.input(spec, f"x{i}") for i, spec in enumerate(specs)])
    owners = {str(key): row for key, row in rows.items()}
    for node in recorder.program.nodes:
        if getattr(node.op, "blocks", ()):
            raise TraceError(f"what {type(node.op).__name__} runs depends on values", node.where)
        row = owners.get(node.scope, rows[id(model)])  # a module that is not registered counts for the whole
        row.multiply_adds += multiply_adds(node.op, _known(node.inputs), _known(node.outputs))


def _known(values: Sequence[Any]) -> list[Spec | None]:
    return [None if value is None else value.spec for value in values]


def _run(model: Module, arguments: list[Tensor], rows: dict[int, Row]) -> None:
    running: list[Row] = []

    def observe(op: Op, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        if running:
            running[-1].multiply_adds += multiply_adds(op, ins, outs)

    with observed(observe), _shapes(model, rows, running):
        model(*arguments)


@contextmanager
def _shapes(model: Module, rows: dict[int, Row], running: list[Row]) -> Iterator[None]:
    """Inside the block, calls of modules fill the shapes of their rows; the last of `running` is the one at work."""

    def enter(module: Module, args: Any) -> None:
        running.append(rows[id(module)])

    def leave(module: Module, args: Any, out: Any) -> None:
        row = running.pop()
        first = next(iter(out.values())) if isinstance(out, dict) else out[0] if isinstance(out, tuple | list) else out
        row.output_shape = first.shape if isinstance(first, Tensor) else None

    handles: list[HookHandle] = []
    for module in model.modules():
        handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _pad(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)
