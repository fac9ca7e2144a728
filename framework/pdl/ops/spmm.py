"""The ops below `pdl.spmm`, `pdl.sddmm`, `pdl.edge_softmax`, `pdl.at_rows`: products with sparse matrices, and what is
computed at their nonzeros.

All read a pattern as the six arrays of a `pdl.ops.CSR`: indptr, indices, row, t_indptr, t_indices, t_edges; the last
three may be None where no gradient is wanted. A product's gradients are such products again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pdl.dtype import Array, DType, float32, float64, int32, int64
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import csr as kernels
from pdl.kernels import rows
from pdl.kernels.copies import contiguous
from pdl.kernels.launch import constant
from pdl.ops.attributes import Width
from pdl.ops.base import Arrays, Fused, Spec, apply, not_differentiable
from pdl.ops.cast import astype
from pdl.ops.checks import check_floating
from pdl.ops.elementwise import maximum, reciprocal
from pdl.ops.pool import Place
from pdl.ops.reduce import sum as sum_
from pdl.ops.segment import SegmentExtremum, as_index, as_rows, segment_softmax, segment_sum, segment_take
from pdl.ops.shape import expand_dims, reshape
from pdl.tensor import Tensor

#: a transposed product whose result has at most so many bytes is summed by scattering
SCATTERED_BYTES = 1 << 18
_NONE = (None,) * 6


def check_pattern(name: str, indptr: Spec, indices: Spec, *others: Spec | None) -> None:
    """Raise unless starts are int64 [rows + 1] and the arrays at the nonzeros int32 [E].

    others   row, and the three arrays of the pattern by columns: all of them, or three times None
    """
    transposed = others[1:]
    if transposed and (len(transposed) != 3 or len({t is None for t in transposed}) > 1):
        raise ShapeError(f"{name}: the pattern by columns is three arrays, or none; see pdl.ops.CSR")
    starts = transposed[0] if transposed else None
    for label, spec, dtype in (("indptr", indptr, int64), ("indices", indices, int32), ("t_indptr", starts, int64)):
        if spec is None:
            continue
        if spec.dtype != dtype:
            raise DtypeError(f"{name}: {label} is {spec.dtype.name}; expected {dtype.name}, see pdl.ops.CSR")
        if len(spec.shape) != 1:
            raise ShapeError(f"{name}: {label} {spec.shape} must have one dimension")
    for other in (*others[:1], *transposed[1:]):
        if other is not None and other != indices:
            raise ShapeError(f"{name}: arrays {other.shape} and {indices.shape} of the pattern must be alike")


def check_values(name: str, value: Spec | None, x: Spec, indices: Spec) -> None:
    """Raise unless value [E, *heads] fits x [columns, *heads, ...]."""
    if value is None:
        return
    if value.dtype != x.dtype:
        raise DtypeError(f"{name}: value is {value.dtype.name} and x {x.dtype.name}; expected one dtype")
    heads = value.shape[1:]
    if value.shape[:1] != indices.shape or x.shape[1 : 1 + len(heads)] != heads:
        raise ShapeError(
            f"{name}: value {value.shape} must be {(*indices.shape,)}, or that and the first sizes behind the rows of "
            f"x {x.shape}"
        )


def heads_of(value: Any) -> int:
    """Numbers that a nonzero has."""
    return 1 if value is None else math.prod(value.shape[1:])


def at_heads(value: Tensor, ndim: int) -> Tensor:
    """value [E, *heads] with axes of size 1 behind, up to `ndim` axes."""
    for _ in range(ndim - value.ndim):
        value = expand_dims(value, axis=-1)
    return value


def _columns(x: Array | None, n: int) -> Array | None:
    """[n, ...] as contiguous [n, the product of the others]."""
    return None if x is None else contiguous(x).reshape(n, math.prod(x.shape[1:]))


class SpMM(Fused):
    """y[i] = sum of value[e] x[indices[e]] over the nonzeros e of row i; `transposed`: y[j] = sum of value[e] x[row[e]]
    over those of column j. x [columns, *heads, ...] ([rows, ...]), value [E, *heads] or None (ones).
    """

    transposed: bool = False
    native = True

    def infer(
        self, x: Spec, value: Spec | None, indptr: Spec, indices: Spec, row: Spec,
        t_indptr: Spec | None, t_indices: Spec | None, t_edges: Spec | None,
    ) -> Spec:  # fmt: skip
        check_floating("spmm", x=x)
        check_pattern("spmm", indptr, indices, row, t_indptr, t_indices, t_edges)
        check_values("spmm", value, x, indices)
        rows, columns = indptr.shape[0] - 1, None if t_indptr is None else t_indptr.shape[0] - 1
        have, made = (rows, columns) if self.transposed else (columns, rows)
        if not x.shape or (have is not None and x.shape[0] != have):
            raise ShapeError(f"spmm: x {x.shape} must have {have} rows, as many as the matrix has columns")
        if made is None:
            raise ShapeError("spmm: the transposed product needs the pattern by columns")
        return Spec((made, *x.shape[1:]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, value, indptr, indices, _, *transposed = ins
        y, x, heads = as_rows(outs[0]), as_rows(x), heads_of(value)
        values = _columns(value, len(indices))
        if not self.transposed:
            kernels.spmm(y, x, values, contiguous(indptr), contiguous(indices), None, heads=heads)
        elif heads == 1 and y.nbytes <= SCATTERED_BYTES and len(indices) >= 16 * len(y):
            kernels.spmm_scattered(y, x, values, contiguous(indptr), contiguous(indices))
        else:
            kernels.spmm(y, x, values, *[contiguous(t) for t in transposed], heads=heads)

    def compose(self, x: Tensor, value: Tensor | None, *pattern: Any) -> Tensor:
        """Rows gathered, weighed and added."""
        to, source, count = _ends(self.transposed, pattern)
        message = segment_take(x, source)
        if value is not None:
            message = message * at_heads(value, message.ndim)
        return segment_sum(message, to, num_segments=count)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, value: Tensor | None, *pattern: Any) -> Any:
        q, k = (x, g) if self.transposed else (g, x)
        return (
            lambda: apply(SpMM(not self.transposed), g, value, *pattern),
            None if value is None else lambda: apply(SDDMM(value.ndim - 1), q, k, *pattern),
            *_NONE,
        )


def _ends(transposed: bool, pattern: tuple[Any, ...]) -> tuple[Tensor, Tensor, int]:
    """Where each nonzero adds to, where it takes from, and how many rows the result has."""
    indptr, indices, row, t_indptr = pattern[:4]
    return (indices, row, t_indptr.shape[0] - 1) if transposed else (row, indices, indptr.shape[0] - 1)


class SDDMM(Fused):
    """s[e] = <q[row[e]], k[indices[e]]> over all axes but the first and `lead` more: q [rows, *lead, ...], k [columns,
    *lead, ...] -> [E, *lead].
    """

    lead: Width = 0
    native = True

    def infer(
        self, q: Spec, k: Spec, indptr: Spec, indices: Spec, row: Spec,
        t_indptr: Spec | None, t_indices: Spec | None, t_edges: Spec | None,
    ) -> Spec:  # fmt: skip
        check_floating("sddmm", q=q, k=k)
        check_pattern("sddmm", indptr, indices, row, t_indptr, t_indices, t_edges)
        if q.dtype != k.dtype:
            raise DtypeError(f"sddmm: q is {q.dtype.name} and k {k.dtype.name}; expected one dtype")
        if q.shape[1:] != k.shape[1:] or len(q.shape) <= self.lead or q.shape[0] != indptr.shape[0] - 1:
            raise ShapeError(f"sddmm: q {q.shape} must be [{indptr.shape[0] - 1} rows, ...], k {k.shape} like its rows")
        if t_indptr is not None and k.shape[0] != t_indptr.shape[0] - 1:
            raise ShapeError(f"sddmm: k {k.shape} must have {t_indptr.shape[0] - 1} rows, one for each column")
        return Spec((*indices.shape, *q.shape[1 : 1 + self.lead]), q.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        q, k, indptr, indices, *_ = ins
        heads = math.prod(q.shape[1 : 1 + self.lead])
        y = outs[0].reshape(len(indices), heads)
        kernels.sddmm(y, as_rows(q), as_rows(k), contiguous(indptr), contiguous(indices), heads=heads)

    def compose(self, q: Tensor, k: Tensor, indptr: Tensor, indices: Tensor, row: Tensor, *_: Any) -> Tensor:
        """Rows gathered, multiplied and summed."""
        product = segment_take(q, row) * segment_take(k, indices)
        axes = tuple(range(1 + self.lead, product.ndim))
        return sum_(product, axis=axes) if axes else product

    def vjp(self, g: Tensor, y: Tensor, q: Tensor, k: Tensor, *pattern: Any) -> Any:
        return lambda: apply(SpMM(), k, g, *pattern), lambda: apply(SpMM(True), q, g, *pattern), *_NONE


class TakeEnds(Fused):
    """y[e] = x[row[e]], or with `columns` x[indices[e]]: x [rows, ...] ([columns, ...]) -> [E, ...]."""

    columns: bool = False
    native_bf16 = native = True

    def infer(
        self, x: Spec, indptr: Spec, indices: Spec, row: Spec,
        t_indptr: Spec | None, t_indices: Spec | None, t_edges: Spec | None,
    ) -> Spec:  # fmt: skip
        check_pattern("at_ends", indptr, indices, row, t_indptr, t_indices, t_edges)
        have = (None if t_indptr is None else t_indptr.shape[0] - 1) if self.columns else indptr.shape[0] - 1
        if not x.shape or (have is not None and x.shape[0] != have):
            which = "columns" if self.columns else "rows"
            raise ShapeError(f"at_{which}: x {x.shape} must be [{have}, ...], as the matrix has {have} {which}")
        return Spec((*indices.shape, *x.shape[1:]), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        ids = as_index(ins[2] if self.columns else ins[3])
        rows.take(outs[0], contiguous(ins[0]), ids, name="at_columns" if self.columns else "at_rows")

    def compose(self, x: Tensor, *pattern: Any) -> Tensor:
        """Rows gathered."""
        return segment_take(x, pattern[1 if self.columns else 2])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, *pattern: Any) -> Any:
        return lambda: apply(TakeEndsGrad(self.columns), g, *pattern), *_NONE


class TakeEndsGrad(Fused):
    """dx[i] = sum of g[e] over the nonzeros e of row i, or with `columns` of column i: g [E, ...] -> [rows, ...]."""

    columns: bool = False
    native = True

    def infer(
        self, g: Spec, indptr: Spec, indices: Spec, row: Spec,
        t_indptr: Spec | None, t_indices: Spec | None, t_edges: Spec | None,
    ) -> Spec:  # fmt: skip
        check_floating("at_ends", g=g)
        check_pattern("at_ends", indptr, indices, row, t_indptr, t_indices, t_edges)
        if g.shape[:1] != indices.shape:
            raise ShapeError(f"at_ends: g {g.shape} must have a row for each nonzero, {indices.shape}")
        starts = t_indptr if self.columns else indptr
        if starts is None:
            raise ShapeError("at_ends: sums over columns need the pattern by columns")
        return Spec((starts.shape[0] - 1, *g.shape[1:]), g.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, indptr, indices, _, t_indptr, _, t_edges = ins
        starts = contiguous(t_indptr if self.columns else indptr)
        ids = contiguous(t_edges) if self.columns else constant(np.arange(len(indices), dtype=np.int32))
        kernels.spmm(as_rows(outs[0]), as_rows(g), None, starts, ids, None, name="at_ends")

    def compose(self, g: Tensor, *pattern: Any) -> Tensor:
        """Segments summed."""
        to, _, count = _ends(self.columns, pattern)
        return segment_sum(g, to, num_segments=count)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, *pattern: Any) -> Any:
        return lambda: apply(TakeEnds(self.columns), g, *pattern), *_NONE


class EdgeSoftmax(Fused):
    """y[e] = exp(score[e]) / (sum of exp(score) over the nonzeros of e's row), per column: [E, ...]."""

    native = True
    inplace = True

    def infer(self, score: Spec, indptr: Spec, indices: Spec, row: Spec) -> Spec:
        check_floating("edge_softmax", score=score)
        check_pattern("edge_softmax", indptr, indices, row)
        if score.shape[:1] != indices.shape:
            raise ShapeError(f"edge_softmax: score {score.shape} must have a row for each nonzero, {indices.shape}")
        return score

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.edge_softmax(as_rows(outs[0]), as_rows(ins[0]), contiguous(ins[1]), contiguous(ins[2]))

    def compose(self, score: Tensor, indptr: Tensor, indices: Tensor, row: Tensor) -> Tensor:
        """A softmax over segments."""
        return segment_softmax(score, row, num_segments=indptr.shape[0] - 1)

    def vjp(self, g: Tensor, y: Tensor, score: Tensor, *pattern: Tensor) -> Any:
        return lambda: apply(EdgeSoftmaxGrad(), g, y, *pattern), None, None, None


class EdgeSoftmaxGrad(Fused):
    """dx[e] = y[e] (g[e] - sum of y g over the nonzeros of e's row), y the softmax."""

    native = True
    inplace = True

    def infer(self, g: Spec, y: Spec, indptr: Spec, indices: Spec, row: Spec) -> Spec:
        made = EdgeSoftmax().infer(y, indptr, indices, row)
        if g != y:
            raise ShapeError(f"gradient of edge_softmax: g {g.shape} {g.dtype.name} is not like y {y.shape}")
        return made

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, y, indptr, indices, _ = ins
        kernels.edge_softmax_grad(as_rows(outs[0]), as_rows(g), as_rows(y), contiguous(indptr), contiguous(indices))

    def compose(self, g: Tensor, y: Tensor, indptr: Tensor, indices: Tensor, row: Tensor) -> Tensor:
        """The formula."""
        total = segment_sum(g * y, row, num_segments=indptr.shape[0] - 1)
        return y * (g - segment_take(total, row))


class SpMMExtremum(Fused):
    """y[i] = max (or min) of value[e] x[indices[e]] over the nonzeros e of row i, and the nonzero that attains it
    (int32, the first of equals); 0 and -1 in rows without.
    """

    largest: bool = True
    native = True

    def infer(self, x: Spec, value: Spec | None, *pattern: Spec | None) -> tuple[Spec, Spec]:
        y = SpMM().infer(x, value, *pattern)  # type: ignore[arg-type]
        return y, Spec(y.shape, int32)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x, value, indptr, indices, *_ = ins
        y, winner, values = as_rows(outs[0]), as_rows(outs[1]), _columns(value, len(indices))
        starts, columns = contiguous(indptr), contiguous(indices)
        kernels.extremum(y, winner, as_rows(x), values, starts, columns, self.largest, heads=heads_of(value))

    def compose(self, x: Tensor, value: Tensor | None, *pattern: Any) -> tuple[Tensor, Tensor]:
        """Rows gathered and weighed, and the extremum of segments."""
        message = segment_take(x, pattern[1])
        if value is not None:
            message = message * at_heads(value, message.ndim)
        made: tuple[Tensor, Tensor] = apply(SegmentExtremum(pattern[0].shape[0] - 1, self.largest), message, pattern[2])
        return made

    def vjp(self, g: Any, y: Any, x: Tensor, value: Tensor | None, *pattern: Any) -> Any:
        d, winner = g[0], y[1]
        if d is None:
            return (None,) * 8
        return (
            lambda: apply(SpMMExtremumXGrad(), d, winner, value, *pattern),
            None if value is None else lambda: apply(SpMMExtremumValueGrad(value.ndim - 1), d, winner, x, *pattern),
            *_NONE,
        )


class SpMMExtremumXGrad(Fused):
    """dx[j] = sum of value[e] g[row[e]] over the nonzeros e of column j, where e is the winner."""

    native = True

    def infer(self, g: Spec, winner: Spec, value: Spec | None, *pattern: Spec | None) -> Spec:
        x = Spec((_starts(pattern, 3).shape[0] - 1, *g.shape[1:]), g.dtype)
        _check_extremum(g, winner, x, value, pattern)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, winner, value, *pattern = ins
        transposed, values = [contiguous(t) for t in pattern[3:]], _columns(value, len(pattern[1]))
        dx, heads = as_rows(outs[0]), heads_of(value)
        kernels.extremum_grad_x(dx, as_rows(g), as_rows(winner), values, *transposed, heads=heads)

    def compose(self, g: Tensor, winner: Tensor, value: Tensor | None, *pattern: Any) -> Tensor:
        """What each nonzero has won, weighed and added to its column."""
        won = _won(g, winner, pattern[1].shape[0])
        if value is not None:
            won = won * at_heads(value, won.ndim)
        return segment_sum(won, pattern[1], num_segments=pattern[3].shape[0] - 1)


class SpMMExtremumValueGrad(Fused):
    """dvalue[e] = sum of g[row[e]] x[indices[e]] where e is the winner, over all axes but the first and `lead` more."""

    lead: Width = 0
    native = True

    def infer(self, g: Spec, winner: Spec, x: Spec, *pattern: Spec | None) -> Spec:
        value = Spec((*_starts(pattern, 1).shape, *g.shape[1 : 1 + self.lead]), g.dtype)
        _check_extremum(g, winner, x, value, pattern)
        return value

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        g, winner, x, indptr, indices, *_ = ins
        heads = math.prod(g.shape[1 : 1 + self.lead])
        dvalue, starts, columns = outs[0].reshape(len(indices), heads), contiguous(indptr), contiguous(indices)
        kernels.extremum_grad_value(dvalue, as_rows(g), as_rows(winner), as_rows(x), starts, columns, heads=heads)

    def compose(self, g: Tensor, winner: Tensor, x: Tensor, *pattern: Any) -> Tensor:
        """What each nonzero has won, times what it took."""
        product = _won(g, winner, pattern[1].shape[0]) * segment_take(x, pattern[1])
        axes = tuple(range(1 + self.lead, product.ndim))
        return sum_(product, axis=axes) if axes else product


def _starts(pattern: tuple[Spec | None, ...], place: int) -> Spec:
    spec = pattern[place] if len(pattern) == len(_NONE) else None
    if spec is None or not spec.shape:
        raise ShapeError("gradient of spmm: it needs the pattern by rows and by columns")
    return spec


def _check_extremum(g: Spec, winner: Spec, x: Spec, value: Spec | None, pattern: tuple[Spec | None, ...]) -> None:
    """Raise unless `SpMMExtremum` of x and value makes what g is the gradient of, and the winners."""
    y, wins = SpMMExtremum().infer(x, value, *pattern)
    if (g, winner) != (y, wins):
        raise ShapeError(f"gradient of spmm: g {g.shape} and winner {winner.shape} must be {y.shape}, the latter int32")


def _won(g: Tensor, winner: Tensor, nonzeros: int) -> Tensor:
    """g[row[e]] where e is the winner, else 0: [E, ...]."""
    flat = (1, g.shape[0], math.prod(g.shape[1:]))
    return reshape(apply(Place((nonzeros,)), reshape(g, flat), reshape(winner, flat)), (nonzeros, *g.shape[1:]))


class InverseSizes(Fused):
    """1 / the number of nonzeros of each row [rows], float32 or float64; 1 for a row without."""

    dtype: DType
    native = True
    vjp = not_differentiable("the sizes are integers")  # type: ignore[assignment]

    def infer(self, indptr: Spec, indices: Spec) -> Spec:
        check_pattern("spmm", indptr, indices)
        if self.dtype not in (float32, float64):
            raise DtypeError(f"spmm: shares are float32 or float64, not {self.dtype.name}")
        return Spec((indptr.shape[0] - 1,), self.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        kernels.inverse_sizes(outs[0], contiguous(ins[0]), contiguous(ins[1]))

    def compose(self, indptr: Tensor, indices: Tensor) -> Tensor:
        """From the starts."""
        return reciprocal(maximum(astype(indptr[1:] - indptr[:-1], self.dtype), 1))
