"""A recipe for a graph of the user's, as `pdl init quantum.qaoa --data FILE` writes it."""

from __future__ import annotations

from pathlib import Path

from pdl.config.text import quoted
from pdl.errors import UsageError
from pdl_quantum.problems import read_edges

MOST, SMALL = 26, 16
"""The most nodes that a recipe is written for, and up to how many it takes 100 steps."""


def write_recipe(data: Path) -> str:
    """The text of a recipe that looks for the largest cut of the graph of a file: source,target[,weight] a line."""
    if not data.is_file():
        raise UsageError(f"{data}: no file; name a list of edges, source,target[,weight] a line")
    graph = read_edges(data)
    if graph.n > MOST:
        raise UsageError(f"{data}: a graph of {graph.n} nodes takes as many qubits; {MOST} are the most")
    lines = [
        f"# The largest cut of {graph.n} nodes and {len(graph.pairs)} edges by QAOA (arXiv 1411.4028).",
        "defaults:",
        "  - /quantum/qaoa",
        "  - _self_",
        "data:",
        f"  train: {{_target_: pdl_quantum.data.MaxCutGraph, file: {quoted(data.resolve())}}}",
        "model: {layers: 8}",
        *([] if graph.n <= SMALL else ["train: {epochs: 5}"]),
    ]
    return "\n".join(lines) + "\n"
