"""What convolutions on graphs share: degrees, and the symmetrically normalised adjacency."""

from __future__ import annotations

from typing import Any

import pdl
from pdl import Tensor
from pdl.errors import ConfigError
from pdl.ops import CSR


def degrees(adjacency: CSR, edge_weight: Any = None) -> tuple[Tensor, Tensor]:
    """Sums of the weights (ones without any) over each row and each column: [rows], [columns]."""
    if edge_weight is None:
        ends = pdl.as_tensor(adjacency.indptr), pdl.as_tensor(adjacency.t_indptr)
        row, column = (pdl.astype(p[1:] - p[:-1], pdl.float32) for p in ends)
        return row, column
    rows, columns = adjacency.shape
    weight = pdl.as_tensor(edge_weight)
    return (
        pdl.segment_sum(weight, pdl.as_tensor(adjacency.row), num_segments=rows),
        pdl.segment_sum(weight, pdl.as_tensor(adjacency.indices), num_segments=columns),
    )


def gcn_norm(adjacency: CSR, edge_weight: Any = None) -> Tensor:
    """The nonzeros of D^-1/2 A D^-1/2, [E]: w[e] / sqrt(d_in[row[e]] d_out[indices[e]]), with d_in the sums of A's rows
    and d_out those of its columns, which are the same in an undirected graph (Kipf & Welling, arXiv 1609.02907; of a
    directed one this is DGL's norm="both"). What stands on graphs that do not change is computed once.
    """
    row, column = degrees(adjacency, edge_weight)
    scaled = pdl.take(_rsqrt(row), adjacency.row) * pdl.take(_rsqrt(column), adjacency.indices)
    return scaled if edge_weight is None else scaled * pdl.as_tensor(edge_weight)


def _rsqrt(degree: Tensor) -> Tensor:
    """d^-1/2; 0 where nothing comes together, or weights cancel."""
    there = degree > 0
    return pdl.where(there, 1.0 / pdl.sqrt(pdl.where(there, degree, 1.0)), 0.0)


def required(model: object, **number: int | None) -> int:
    """The one number given by name; ConfigError where neither the recipe nor the data gives it."""
    ((name, value),) = number.items()
    if value is None:
        raise ConfigError(f"{type(model).__name__} needs {name}; a task infers it where it has the data")
    return value
