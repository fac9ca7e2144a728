"""Time for each edge of a training step of a GCN layer, from a million edges to fifty: a table and a plot.

    python tools/bench/graph_scale.py --plot scale.svg
    python tools/bench/graph_scale.py --graphs uniform --millions 1 10 --width 32 --json out.json

A step is relu(S (x W) + b) of `pdl_graph.GCNConv` with 64 numbers in and out, float32, its mean as the loss, and the
gradients to W, b and x, as a hidden layer has them, compiled as the trainer compiles it. Graphs of 20 edges to a node,
which differ in where neighbours lie:

    clustered   within 1,000 places of the node: what a node reads, its neighbours in the order have just read
    shuffled    the same, its nodes numbered at random;    reordered   and put in order again by `Graph.reordered`
    power law   `pdl_graph.data.PowerLaw`: any node, those of high degree often
    uniform     any node, all with the same chance: nothing is read twice while a cache holds it

The table has nanoseconds an edge: of the whole step, of its sparse product y = S h
(one of two in it), and of what one edge of the graph costs to be drawn and put in order (`Graph.from_edges`, and the
pattern by columns). The last line of a graph is the ratio of its slowest step to its fastest.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pdl
from pdl import threads
from pdl.nn import Module, Parameter
from pdl.program import CompiledStep
from pdl.report.chart import line_chart
from pdl_graph import GCNConv, Graph
from pdl_graph.data import PowerLaw
from pdl_graph.models.propagation import gcn_norm

GRAPHS = ("clustered", "shuffled", "reordered", "power law", "uniform")
REACH = 1000
STYLE = ".grid { stroke: #ddd } text { font: 11px sans-serif; fill: #444 }"


def ends(kind: str, nodes: int, edges: int) -> tuple[np.ndarray, np.ndarray]:
    """(source, target) of half the edges; the others are their reverses."""
    rng = np.random.default_rng(0)
    source = rng.integers(0, nodes, edges // 2, dtype=np.int32)
    if kind == "uniform":
        return source, rng.integers(0, nodes, edges // 2, dtype=np.int32)
    return source, ((source + rng.integers(1, REACH, edges // 2, dtype=np.int32)) % nodes).astype(np.int32)


def graph_of(kind: str, nodes: int, edges: int) -> Graph:
    """A graph without features."""
    if kind == "power law":
        graph = PowerLaw(nodes=nodes, edges=edges, features=1).graph
        return Graph(graph.indptr, graph.indices, directed=False)
    graph = Graph.from_edges(*ends(kind, nodes, edges), nodes, directed=False)
    if kind in ("shuffled", "reordered"):
        graph = graph.subgraph(np.random.default_rng(3).permutation(nodes))
    return graph.reordered()[0] if kind == "reordered" else graph


class Layer(Module):
    """GCNConv and ReLU that learn their input, too."""

    def __init__(self, nodes: int, width: int) -> None:
        self.conv = GCNConv(width, width)
        self.x = Parameter(pdl.Tensor(np.random.default_rng(1).standard_normal((nodes, width), dtype=np.float32)))

    def forward(self, adjacency: Any, norm: Any) -> Any:
        """The loss."""
        return pdl.relu(self.conv(adjacency, self.x, norm=norm)).mean()


def best(run: Callable[[], Any], seconds: float) -> float:
    """Seconds of the fastest of at least five runs: others may use the memory, too."""
    run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def measured(kind: str, edges: int, args: argparse.Namespace) -> dict[str, Any]:
    """Nanoseconds an edge of one graph."""
    nodes = edges // args.degree
    begin = time.perf_counter()
    graph = graph_of(kind, nodes, edges)
    adjacency = graph.adjacency
    made = time.perf_counter() - begin
    with pdl.no_grad():
        norm = gcn_norm(adjacency)
    model = Layer(nodes, args.width)

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program = CompiledStep(lambda: model(adjacency, norm), model, notify=notify)
    step = best(program, args.seconds)
    program.programs.clear()
    with pdl.no_grad():
        product = best(lambda: pdl.spmm(adjacency, model.x, norm), args.seconds / 4)
    count = graph.num_edges
    return {"graph": kind, "edges": count, "nodes": nodes, "step": 1e9 * step / count, "spmm": 1e9 * product / count,
            "made": 1e9 * made / count}  # fmt: skip


def main() -> None:
    """Print a row for each graph and size; write a plot or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", nargs="*", default=GRAPHS, choices=GRAPHS)
    parser.add_argument("--millions", nargs="*", type=float, default=[1, 2, 5, 10, 20, 50], help="of edges")
    parser.add_argument("--degree", type=int, default=20, help="edges of a node, both directions counted")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed steps, each size")
    parser.add_argument("--plot", type=Path, help="an SVG: edges across, nanoseconds an edge up")
    parser.add_argument("--json", type=Path, help="rows; of other graphs those in the file stay")
    args = parser.parse_args()
    threads.set_num_threads(args.threads)
    rows = []
    for kind in args.graphs:
        own = []
        for millions in args.millions:
            row = measured(kind, int(millions * 1e6), args)
            own.append(row)
            print(f"{kind:<10} {row['edges'] / 1e6:6.1f} M edges  {row['nodes'] / 1e6:5.2f} M nodes   "
                  f"step {row['step']:6.2f} ns an edge   of it S h {row['spmm']:6.2f}   made in {row['made']:6.1f}",
                  flush=True)  # fmt: skip
            pdl.kernels.memory.release_cached()
        steps = [row["step"] for row in own]
        print(f"{kind}: {max(steps) / min(steps):.2f} times as long for an edge at the slowest as at the fastest")
        rows += own
    if args.json and args.json.exists():
        rows = [row for row in json.loads(args.json.read_text())["rows"] if row["graph"] not in args.graphs] + rows
    if args.plot:
        series = {kind: [(r["edges"] / 1e6, r["step"]) for r in rows if r["graph"] == kind] for kind in GRAPHS}
        drawn = line_chart(series, x_label="million edges (up: ns an edge)")
        args.plot.write_text(drawn.replace(">", f"><style>{STYLE}</style>", 1))
    if args.json:
        args.json.write_text(json.dumps({"width": args.width, "threads": args.threads, "rows": rows}))


if __name__ == "__main__":
    main()
