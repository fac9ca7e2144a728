"""Forms that ops had before opset 7 (Scan: before 9), where these mean something else than today's."""

from __future__ import annotations

from typing import Any

from pdl.errors import ShapeError, UsageError
from pdl.onnx.registry import Context, onnx_op, today
from pdl.onnx.table.control import at, stacked
from pdl.onnx.table.shape import reshaped


def _named_axes(name: str) -> None:
    """A pairwise op with `broadcast`: b's axes stand below those of a from `axis` on, or below its last ones."""

    def op(
        ctx: Context, a: Any, b: Any, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: Any = None
    ) -> Any:
        if broadcast and axis is not None and len(b.shape) < len(a.shape):
            start = axis % len(a.shape)
            behind = len(a.shape) - start - len(b.shape)
            if behind < 0:
                raise ShapeError(f"{ctx.node.label()}: b {tuple(b.shape)} from axis {axis} of a {tuple(a.shape)} on")
            b = reshaped(b, (*b.shape, *[1] * behind))
        elif not broadcast and tuple(a.shape) != tuple(b.shape):
            raise ShapeError(f"{ctx.node.label()}: a {tuple(a.shape)} and b {tuple(b.shape)} without broadcast=1")
        return today(name, 7)(ctx, a, b)

    op.__doc__ = f"{name} with broadcasting by attributes."
    onnx_op(name, since=1)(op)


for _name in ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"):
    _named_axes(_name)


@onnx_op("BatchNormalization", since=1)
def _batch_norm(
    ctx: Context, x: Any, scale: Any, shift: Any, mean: Any, var: Any, *, consumed_inputs: Any = None,
    epsilon: float = 1e-5, is_test: int = 0, momentum: float = 0.9, spatial: int = 1,
) -> Any:  # fmt: skip
    """Batch normalisation with `is_test`."""
    if not is_test:
        raise UsageError(f"{ctx.node.label()}: is_test=0 trains; export the model for inference")
    return today("BatchNormalization", 7)(
        ctx, x, scale, shift, mean, var, epsilon=epsilon, momentum=momentum, spatial=spatial
    )


@onnx_op("Dropout", since=1)
def _dropout(ctx: Context, x: Any, *, consumed_inputs: Any = None, is_test: int = 0, ratio: float = 0.5) -> Any:
    """Dropout with `is_test`."""
    if not is_test:
        raise UsageError(f"{ctx.node.label()}: is_test=0 trains; export the model for inference")
    return today("Dropout", 7)(ctx, x, ratio=ratio)


@onnx_op("PRelu", since=1)
def _prelu(ctx: Context, x: Any, slope: Any, *, consumed_inputs: Any = None) -> Any:
    """One slope, or one a channel."""
    if len(slope.shape) == 1 and len(x.shape) > 1:
        slope = reshaped(slope, (slope.shape[0], *[1] * (len(x.shape) - 2)))
    return today("PRelu", 7)(ctx, x, slope)


@onnx_op("Gemm", since=1)
def _gemm(
    ctx: Context, a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0, broadcast: int = 0, transA: int = 0,
    transB: int = 0,
) -> Any:  # fmt: skip
    """alpha a b + beta c; c of another shape needs `broadcast`."""
    if not broadcast and len(c.shape) != 2:
        raise ShapeError(f"{ctx.node.label()}: c {tuple(c.shape)} without broadcast=1")
    return today("Gemm", 7)(ctx, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@onnx_op("Scan", since=8)
def _scan(ctx: Context, lengths: Any, *inputs: Any, body: Any, num_scan_inputs: int, directions: Any = None) -> Any:
    """Scan of each sample of a batch: the first axis of all inputs, the second is walked."""
    if lengths is not None:
        raise UsageError(f"{ctx.node.label()}: sequence_lens is not supported")
    samples = {x.shape[0] for x in inputs}
    if len(samples) != 1:
        raise ShapeError(f"{ctx.node.label()}: its inputs have {sorted(samples)} samples")
    scan = today("Scan", 9)
    made = [
        scan(
            ctx, *[at(x, 0, i) for x in inputs], body=body, num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
        )
        for i in range(samples.pop())
    ]  # fmt: skip
    return tuple(stacked(list(column)) for column in zip(*made, strict=True))
