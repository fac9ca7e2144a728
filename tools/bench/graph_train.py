"""Full-batch training of GCN and GAT in pdl and PyTorch Geometric, in one run: whole steps with Adam's update.

    python tools/bench/graph_train.py                                         # pdl alone
    python tools/bench/graph_train.py --torch-python PYTHON                   # in turns with PyTorch Geometric
    python tools/bench/graph_train.py --torch-python PYTHON --dropout 0        # without drawing random numbers
    python tools/bench/graph_train.py --torch-python PYTHON --data cora --nets gat --json out.json

An epoch is one step on the whole graph (Planetoid's, found under PDL_DATA), as in the papers: GCN with 16
hidden numbers and dropout 0.5; GAT with 8 heads of 8 and one of the classes, dropout 0.6 of features and attention.
Both sides get the same edges with self-loops, the same features and the same initial weights, drawn by NumPy. The first
10 steps run without dropout and their losses are compared: the largest relative difference is printed, and above 1e-3
is an error. Then steps with dropout are timed: the median of a process, and of the rounds, each a process of its own.

PyTorch Geometric's modes: the graph as `edges` (edge_index, as its examples do) or `rows` (a sparse CSR tensor;
torch_sparse's, where that is installed), sorted by target; features `dense`, as its data sets give them, or `sparse`
(a CSR tensor whose nonzeros are dropped out); `compiled` is torch.compile. GCN's normalisation is cached, self-loops
are added beforehand. The last line of each net compares with the fastest of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

NETS = ("gcn", "gat")
MODES = ("edges dense", "edges sparse", "rows dense", "rows sparse", "edges dense compiled", "edges sparse compiled")
HIDDEN, HEADS, LR, COMPARED = {"gcn": 16, "gat": 8}, 8, 0.01, 10
DROPOUT = {"gcn": 0.5, "gat": 0.6}
Arrays = dict[str, np.ndarray]
Step = Callable[[], float]


def write(name: str, path: Path) -> None:
    """The graph with self-loops, its features, labels and training nodes, for both sides."""
    from pdl_graph.data import Planetoid

    graph = Planetoid(name, normalize=True).graph.with_self_loops()
    x = graph.x.pattern
    source, target = graph.edges()
    np.savez(
        path, source=source, target=target, indptr=graph.indptr, y=graph.y, train=np.flatnonzero(graph.masks["train"]),
        x_indptr=x.indptr, x_indices=x.indices, x_value=graph.x.value, width=np.int64(x.shape[1]),
    )  # fmt: skip


def weights(net: str, data: Arrays) -> list[np.ndarray]:
    """Initial weights of the two layers: [in, out] each, for GAT with the vectors of receiving and sending nodes."""
    rng, classes = np.random.default_rng(7), int(data["y"].max()) + 1
    if net == "gcn":
        shapes: list[tuple[int, ...]] = [(int(data["width"]), HIDDEN[net]), (HIDDEN[net], classes)]
    else:
        wide, own = HEADS * HIDDEN[net], (HEADS, HIDDEN[net])
        shapes = [(int(data["width"]), wide), own, own, (wide, classes), (1, classes), (1, classes)]
    return [rng.uniform(-1, 1, s).astype(np.float32) * (6 / sum(s)) ** 0.5 for s in shapes]


# -- pdl ---------------------------------------------------------------------------------------------------------------
def pdl_step(args: argparse.Namespace, net: str, mode: str, data: Arrays, p: float) -> Step:
    """A training step of pdl_graph's net and task, compiled as the trainer compiles it."""
    import pdl
    from pdl import threads
    from pdl.ops import CSR
    from pdl.program import CompiledStep
    from pdl_graph import GAT, GCN, Graph, NodeClassification
    from pdl_graph.batch import SparseFeatures

    threads.set_num_threads(args.threads)
    pdl.seed(0)
    about: dict[str, Any] = {"num_features": int(data["width"]), "num_classes": int(data["y"].max()) + 1}
    if net == "gcn":
        model: Any = GCN(hidden=HIDDEN[net], dropout=p, **about)
        learned = [conv.weight for conv in model.convs]
    else:
        model = GAT(hidden=HIDDEN[net], heads=HEADS, dropout=p, attention_dropout=p, **about)
        learned = [w for conv in model.convs for w in (conv.weight, conv.receive, conv.send)]
    for own, given in zip(learned, weights(net, data), strict=True):
        own.data[...] = given
    x = SparseFeatures(CSR.from_rows(data["x_indptr"], data["x_indices"], int(data["width"])), data["x_value"])
    task = NodeClassification()
    task.self_loops = model.self_loops
    number = task.hold(Graph(data["indptr"], data["source"], x, data["y"], directed=False))
    batch = {"node": data["train"], "label": data["y"][data["train"]], "graph": number}

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program = CompiledStep(lambda batch: task.step(model, batch), model, notify=notify)
    optimizer = pdl.optim.Adam(model, lr=LR)

    def step() -> float:
        loss = program(batch)
        optimizer.step()
        return float(loss.value.item())

    return step


# -- PyTorch Geometric -------------------------------------------------------------------------------------------------
def torch_step(args: argparse.Namespace, net: str, mode: str, data: Arrays, p: float) -> Step:
    """The same as PyTorch Geometric's examples write it."""
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import GATConv, GCNConv

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    form, features, *compiled = mode.split()
    width, classes = int(data["width"]), int(data["y"].max()) + 1
    starts, columns, values = (torch.from_numpy(data[f"x_{name}"]) for name in ("indptr", "indices", "value"))
    sizes = (len(starts) - 1, width)
    sparse = torch.sparse_csr_tensor(starts, columns.long(), values, sizes)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            h = HIDDEN[net]
            if net == "gcn":
                kwargs: dict[str, Any] = {"add_self_loops": False, "cached": True}
                self.a, self.b = GCNConv(width, h, **kwargs), GCNConv(h, classes, **kwargs)
            else:
                kwargs = {"add_self_loops": False, "dropout": p}
                self.a, self.b = (
                    GATConv(width, h, HEADS, **kwargs),
                    GATConv(h * HEADS, classes, 1, concat=False, **kwargs),
                )

        def forward(self, x: Any, edges: Any) -> Any:
            if features == "dense":
                x = F.dropout(x, p, self.training)
            else:
                dropped = F.dropout(values, p, self.training)
                x = torch.sparse_csr_tensor(starts, columns.long(), dropped, sizes, check_invariants=False)
            x = self.a(x, edges)
            x = F.relu(x) if net == "gcn" else F.elu(x)
            return self.b(F.dropout(x, p, self.training), edges)

    model = Net()
    with torch.no_grad():
        for own, given in zip(_parameters(model, net), weights(net, data), strict=True):
            own.copy_(torch.from_numpy(given).reshape(own.shape))
    net_ = torch.compile(model) if compiled else model
    edges = _edges(data, form)
    x = sparse.to_dense() if features == "dense" else sparse
    train, y = torch.from_numpy(data["train"]), torch.from_numpy(data["y"])
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(net_(x, edges)[train], y[train])
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def _parameters(model: Any, net: str) -> list[Any]:
    """In the order of `weights`; matrices as [in, out]."""
    return [
        w
        for conv in (model.a, model.b)
        for w in ([conv.lin.weight.t()] + ([] if net == "gcn" else [conv.att_dst, conv.att_src]))
    ]


def _edges(data: Arrays, form: str) -> Any:
    import torch

    source, target = (torch.from_numpy(data[end]).long() for end in ("source", "target"))
    if form == "edges":
        return torch.stack([source, target])
    n = len(data["y"])
    try:
        from torch_sparse import SparseTensor  # type: ignore[import-not-found]

        return SparseTensor(row=target, col=source, sparse_sizes=(n, n))
    except ImportError:
        ones = torch.ones(len(source))
        return torch.sparse_csr_tensor(torch.from_numpy(data["indptr"]), source, ones, (n, n))


# -- the run -----------------------------------------------------------------------------------------------------------
def worker(args: argparse.Namespace, side: str, net: str, mode: str, path: str) -> dict[str, Any]:
    """Losses of the first steps, then the median step, in this process."""
    with np.load(path) as held:
        data = dict(held)
    made = pdl_step if side == "pdl" else torch_step
    plain = made(args, net, mode, data, 0.0)
    losses = [plain() for _ in range(COMPARED)]
    step = made(args, net, mode, data, DROPOUT[net] if args.dropout is None else args.dropout)
    for _ in range(3):
        step()
    times: list[float] = []
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return {"losses": losses, "ms": 1e3 * statistics.median(times)}


def run(side: str, net: str, mode: str, path: Path, args: argparse.Namespace) -> dict[str, Any]:
    """`worker` in a process of its own; {"fault": why} where a mode does not run."""
    python = sys.executable if side == "pdl" else args.torch_python
    sizes = [f"--{name}={getattr(args, name)}" for name in ("threads", "seconds")]
    sizes += [] if args.dropout is None else [f"--dropout={args.dropout}"]
    command = [python, __file__, "--worker", side, net, mode, str(path), *sizes]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        if side == "pdl":
            raise SystemExit(done.stderr)
        return {"fault": (done.stderr.strip().splitlines() or ["no reason given"])[-1][:150]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(net: str, path: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each side and mode."""
    sides = [("pdl", "")] + ([("torch", mode) for mode in args.modes] if args.torch_python else [])
    rounds: list[dict[tuple[str, str], dict[str, Any]]] = []
    for _ in range(args.rounds):
        failed = {side: found for side, found in (rounds[0].items() if rounds else ()) if "fault" in found}
        rounds.append({side: failed.get(side) or run(side[0], net, side[1], path, args) for side in sides})
    first, rows = rounds[0][sides[0]]["losses"], []
    for side in sides:
        found = [each[side] for each in rounds]
        if fault := found[0].get("fault"):
            rows.append({"net": net, "side": " ".join(side), "fault": fault})
            continue
        apart = max(abs(a - b) / abs(b) for a, b in zip(found[0]["losses"], first, strict=True))
        if apart > 1e-3:
            raise SystemExit(f"{net}, {' '.join(side)}: losses differ from pdl's by {apart:.2g}")
        ms = statistics.median(f["ms"] for f in found)
        rows.append({"net": net, "side": " ".join(side).strip(), "ms": ms, "apart": apart})
    return rows


def main() -> None:
    """Print a row for each net, side and mode, or write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", help="a Python with PyTorch and torch_geometric")
    parser.add_argument("--data", default="pubmed", choices=["cora", "citeseer", "pubmed"])
    parser.add_argument("--nets", nargs="*", default=NETS, choices=NETS)
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES, help="of PyTorch Geometric")
    parser.add_argument("--dropout", type=float, help="of both nets, in place of the papers'")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed steps, each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        sys.stdout.write(json.dumps(worker(args, *args.worker)) + "\n")
        return
    rows = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.npz"
        write(args.data, path)
        for net in args.nets:
            found = measured(net, path, args)
            own = found[0]["ms"]
            for row in found:
                if "fault" in row:
                    print(f"{net} {row['side']:<28} does not run: {row['fault']}")
                    continue
                row["pdl_is"] = row["ms"] / own
                print(f"{net} {row['side']:<28} {row['ms']:8.2f} ms an epoch   pdl is {row['pdl_is']:5.1f}x   "
                      f"losses apart {row['apart']:.1e}", flush=True)  # fmt: skip
            peers = [row for row in found[1:] if "ms" in row]
            if peers:
                best = min(peers, key=lambda row: row["ms"])
                print(f"{net}: pdl is {best['pdl_is']:.1f}x as fast as {best['side']}")
            rows += found
    if args.json:
        args.json.write_text(json.dumps({"data": args.data, "threads": args.threads, "rows": rows}))


if __name__ == "__main__":
    main()
