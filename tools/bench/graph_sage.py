"""GraphSAGE trained on drawn neighbourhoods of a large graph, in pdl and PyTorch Geometric, in one run.

    python tools/bench/graph_sage.py                                          # pdl alone: an epoch, peak memory
    python tools/bench/graph_sage.py --torch-python PYTHON                    # and PyTorch Geometric
    python tools/bench/graph_sage.py --torch-python PYTHON --modes loader-0 --fanouts 15 10 --json out.json

The graph is drawn (`pdl_graph.data.PowerLaw`: a million nodes, 20 million edges, both directions counted, 64 features,
16 classes); a tenth of the nodes are trained on, in batches of 1,024 with 10 neighbours each and 10 of each of those.
The net is GraphSAGE with means, two layers, 128 hidden numbers, dropout 0.5, Adam. pdl runs whole epochs as its trainer
does (neighbours drawn by one thread beside the step), and tells the median, and the peak memory of the process, the
making of the graph included. PyTorch Geometric runs `--batches` of them after five to warm up, and an epoch is
extrapolated.

Both begin with the same weights, drawn by NumPy; the loss of 8 nodes with all their neighbours is compared: a relative
difference above 1e-3 is an error. PyTorch Geometric's modes: loader-N is NeighborLoader with N workers, sampler-N its
older NeighborSampler, whose layers do not compute what the next one does not read. Both need torch_sparse or pyg-lib.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

CLASSES, LR, DROPOUT, COMPARED, WARM = 16, 0.01, 0.5, 8, 5
MODES = ("loader-0", "loader-2", "sampler-0", "sampler-2")


def weights(args: argparse.Namespace) -> list[np.ndarray]:
    """[in, out] of each layer: of the node itself, of its neighbours' mean."""
    rng, sizes = np.random.default_rng(7), (args.features, args.hidden, CLASSES)
    shapes = [shape for shape in pairwise(sizes) for _ in range(2)]
    return [rng.uniform(-1, 1, s).astype(np.float32) * (6 / sum(s)) ** 0.5 for s in shapes]


def peak_gb() -> float:
    """Of this process, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


# -- pdl ---------------------------------------------------------------------------------------------------------------
def pdl_worker(args: argparse.Namespace, mode: str, folder: Path | None) -> dict[str, Any]:
    """Draw the graph, train some epochs; leave the graph in a folder for the other side."""
    import pdl
    from pdl import threads
    from pdl.program import CompiledStep
    from pdl.train.recipe import Data
    from pdl_graph import GraphSAGE, NodeClassification
    from pdl_graph.data import PowerLaw
    from pdl_graph.node.loader import sampled_loader
    from pdl_graph.node.sampler import NeighbourSampler

    threads.set_num_threads(args.threads)
    pdl.seed(0)
    begin = time.perf_counter()
    data = PowerLaw("train", nodes=args.nodes, edges=args.edges, features=args.features, classes=CLASSES)
    made = time.perf_counter() - begin
    model = GraphSAGE(args.features, CLASSES, hidden=args.hidden, dropout=0.0)
    learned = [w for conv in model.convs for w in (conv.own, conv.neighbour)]
    for own, given in zip(learned, weights(args), strict=True):
        own.data[...] = given
    task = NodeClassification(neighbours=args.fanouts)
    sampler = NeighbourSampler(data.graph, seed=0)
    loader = sampled_loader(data, sampler, args.fanouts, Data({"batch_size": args.batch}), training=True, seed=0)
    first = data.get_batch(np.arange(COMPARED))
    loss = task.step(model, {**first, "blocks": sampler.blocks(first["node"], (-1, -1), epoch=0, step=0)})
    model.dropout = DROPOUT
    step = CompiledStep(lambda batch: task.step(model, batch), model)
    optimizer = pdl.optim.Adam(model, lr=LR)
    times = []
    for _ in range(args.epochs):
        begin = time.perf_counter()
        for batch in loader:
            last = float(step(batch).value.item())
            optimizer.step()
        times.append(time.perf_counter() - begin)
    peak = peak_gb()
    if folder is not None:
        graph = data.graph
        arrays = {"indptr": graph.indptr, "indices": graph.indices, "x": graph.x, "y": graph.y, "train": data.nodes}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
    found = {"loss": float(loss.value.item()), "seconds": statistics.median(times), "gb": peak}
    return {**found, "made": made, "last": last}


# -- PyTorch Geometric -------------------------------------------------------------------------------------------------
def torch_worker(args: argparse.Namespace, mode: str, folder: Path | None) -> dict[str, Any]:
    """The same as PyTorch Geometric's examples write it."""
    import torch
    import torch.nn.functional as F
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader, NeighborSampler
    from torch_geometric.nn import SAGEConv

    assert folder is not None
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    held = {name: np.load(folder / f"{name}.npy") for name in ("indptr", "indices", "x", "y", "train")}
    target = np.repeat(np.arange(len(held["y"])), np.diff(held["indptr"]))
    edges = torch.from_numpy(np.stack([held["indices"].astype(np.int64), target]))
    x, y, train = (torch.from_numpy(held[name]) for name in ("x", "y", "train"))
    data = Data(x=x, edge_index=edges, y=y)
    kind, workers = mode.split("-")

    def batches(nodes: Any, sizes: list[int], size: int, **options: Any) -> Any:
        """(features, edges of each layer with their sizes, labels) of every batch."""
        if kind == "loader":
            for batch in NeighborLoader(data, sizes, nodes, batch_size=size, is_sorted=True, **options):
                yield batch.x, [(batch.edge_index, None)] * 2, batch.y[: batch.batch_size]
        else:
            for count, ids, adjs in NeighborSampler(edges, sizes=sizes, node_idx=nodes, batch_size=size, **options):
                yield x[ids], [(adj.edge_index, adj.size) for adj in adjs], y[ids[:count]]

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = torch.nn.ModuleList([SAGEConv(args.features, args.hidden), SAGEConv(args.hidden, CLASSES)])
            self.p = 0.0

        def forward(self, x: Any, layers: Any) -> Any:
            for i, (edge_index, size) in enumerate(layers):
                x = self.convs[i](x if size is None else (x, x[: size[1]]), edge_index)
                if i == 0:
                    x = F.dropout(F.relu(x), self.p, self.training)
            return x

    model = Net()
    learned = [w for conv in model.convs for w in (conv.lin_r.weight, conv.lin_l.weight)]
    with torch.no_grad():
        for own, given in zip(learned, weights(args), strict=True):
            own.copy_(torch.from_numpy(given).t())
        for conv in model.convs:
            conv.lin_l.bias.zero_()
    features, layers, labels = next(iter(batches(train[:COMPARED], [-1, -1], COMPARED)))
    loss = float(F.cross_entropy(model(features, layers)[:COMPARED], labels))
    model.p = DROPOUT
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    times, begin, last = [], 0.0, 0.0
    own = {"num_workers": int(workers), "persistent_workers": workers != "0"}
    for number, (features, layers, labels) in enumerate(batches(train, args.fanouts, args.batch, shuffle=True, **own)):
        if number == WARM:
            begin = time.perf_counter()
        if number == WARM + args.batches:
            break
        optimizer.zero_grad()
        value = F.cross_entropy(model(features, layers)[: len(labels)], labels)
        value.backward()
        optimizer.step()
        last = value.item()
        if number >= WARM:
            times.append(time.perf_counter())
    count = -(-len(train) // args.batch)
    return {"loss": loss, "seconds": (times[-1] - begin) / len(times) * count, "gb": peak_gb(), "last": last}


# -- the run -----------------------------------------------------------------------------------------------------------
def run(side: str, mode: str, folder: Path | None, args: argparse.Namespace) -> dict[str, Any]:
    """A side in a process of its own."""
    names = ("nodes", "edges", "features", "hidden", "batch", "threads", "epochs", "batches")
    sizes = [f"--{name}={getattr(args, name)}" for name in names]
    python = sys.executable if side == "pdl" else args.torch_python
    command = [python, __file__, *sizes, "--fanouts", *map(str, args.fanouts)]
    done = subprocess.run([*command, "--worker", side, mode, str(folder or "")], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{side} {mode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a row for each side and mode, or write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch-python", help="a Python with PyTorch, torch_geometric and torch_sparse")
    parser.add_argument("--modes", nargs="*", default=MODES, choices=MODES, help="of PyTorch Geometric")
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--fanouts", type=int, nargs=2, default=[10, 10])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3, help="of pdl")
    parser.add_argument("--batches", type=int, default=30, help="of PyTorch Geometric, timed")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        side, mode, place = args.worker
        found = (pdl_worker if side == "pdl" else torch_worker)(args, mode, Path(place) if place else None)
        sys.stdout.write(json.dumps(found) + "\n")
        return
    sides = [("pdl", "")] + ([("torch", mode) for mode in args.modes] if args.torch_python else [])
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.torch_python else None
        for side, mode in sides:
            row = {"side": f"{side} {mode}".strip(), **run(side, mode, folder, args)}
            own = rows[0] if rows else row
            row |= {"pdl_is": row["seconds"] / own["seconds"], "apart": abs(row["loss"] - own["loss"]) / own["loss"]}
            rows.append(row)
            print(f"{row['side']:<16} {row['seconds']:7.2f} s an epoch   pdl is {row['pdl_is']:4.1f}x   "
                  f"peak {row['gb']:.2f} GB   losses apart {row['apart']:.1e}", flush=True)  # fmt: skip
            if row["apart"] > 1e-3:
                raise SystemExit(f"{row['side']}: the loss differs from pdl's")
    print(f"pdl drew the graph in {rows[0]['made']:.1f} s")
    if args.json:
        about = {"nodes": args.nodes, "edges": args.edges, "fanouts": args.fanouts, "batch": args.batch}
        args.json.write_text(json.dumps({**about, "rows": rows}))


if __name__ == "__main__":
    main()
