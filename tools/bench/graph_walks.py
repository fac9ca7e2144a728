"""Random walks, steps in a second: pdl's walker against torch_cluster's or networkx's, where one is installed.

    python tools/bench/graph_walks.py [--nodes 1000000] [--degree 20] [--length 80] [--threads 2]

The graph is drawn: `nodes` nodes, each with `degree` edges whose other ends follow a power law, in both directions.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from pdl import threads
from pdl.compressed import from_coo, rows_of
from pdl_graph import Neighbours


def power_law(nodes: int, degree: int, seed: int = 0) -> Neighbours:
    """An undirected graph in which the chance of an end falls with its rank as rank^-0.7."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(nodes, dtype=np.int32), degree // 2)
    target = (nodes * rng.random(len(source)) ** (1 / 0.3)).astype(np.int32)
    target = rng.permutation(nodes).astype(np.int32)[target]
    both = np.concatenate([source, target]), np.concatenate([target, source])
    indptr, indices, _ = from_coo(*both, (nodes, nodes), ascending=True)
    return Neighbours(indptr, indices)


def rate(run: Callable[[], Any], steps: int, repeat: int = 3) -> float:
    """Steps in a second, the best of a few runs."""
    best = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return steps / best


def torch_cluster_walk(near: Neighbours, starts: np.ndarray, length: int, p: float, q: float) -> Callable[[], Any]:
    """torch_cluster's kernel, which PyG's Node2Vec walks with."""
    import torch
    import torch_cluster  # noqa: F401 (its import registers the operator)

    arrays = [torch.from_numpy(np.asarray(a, np.int64)) for a in (near.indptr, near.indices, starts)]
    return lambda: torch.ops.torch_cluster.random_walk(*arrays, length, p, q)


def python_walk(near: Neighbours, starts: np.ndarray, length: int) -> Callable[[], Any]:
    """A walk over networkx's adjacency in Python, as reference implementations of DeepWalk do."""
    import networkx

    graph = networkx.Graph()
    ends = rows_of(near.indptr)
    graph.add_edges_from(zip(ends.tolist(), near.indices.tolist(), strict=True))
    lists = {node: list(graph.adj[node]) for node in graph.adj}

    def run() -> None:
        for start in starts.tolist():
            at = start
            for _ in range(length):
                at = random.choice(lists[at])

    return run


def main() -> None:
    """Measure and print one line of JSON for each walker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--length", type=int, default=80)
    parser.add_argument("--walks", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    near = power_law(args.nodes, args.degree)
    starts = np.random.default_rng(1).integers(0, args.nodes, args.walks)
    steps = args.walks * args.length
    weighted = Neighbours(near.indptr, near.indices, weights=np.ones(len(near.indices)))
    own = {
        "deepwalk": lambda: near.walks(starts, args.length),
        "deepwalk, weighted": lambda: weighted.walks(starts, args.length),
        "node2vec p=0.25 q=4": lambda: near.walks(starts, args.length, p=0.25, q=4.0),
    }
    for name, run in own.items():
        with threads.num_threads(args.threads):
            found = rate(run, steps)
        line = {
            "walk": name,
            "edges": len(near.indices),
            "threads": args.threads,
            "million_steps": round(found / 1e6, 2),
        }
        for peer, other in peers(name, near, starts, args).items():
            line |= {peer: round(other / 1e6, 3), "ratio": round(found / other, 1)}
        print(json.dumps(line), flush=True)


def peers(name: str, near: Neighbours, starts: np.ndarray, args: argparse.Namespace) -> dict[str, float]:
    """Millions of steps in a second of what is installed."""
    found, pq = {}, {"deepwalk": (1.0, 1.0), "node2vec p=0.25 q=4": (0.25, 4.0)}.get(name)
    if pq is None:
        return {}
    try:
        import torch

        torch.set_num_threads(args.threads)
        few = starts[:20_000]
        found["torch_cluster"] = rate(torch_cluster_walk(near, few, args.length, *pq), len(few) * args.length)
    except ImportError:
        pass
    if pq == (1.0, 1.0) and len(near.indices) <= 2_000_000:
        try:
            few = starts[:500]
            found["networkx"] = rate(python_walk(near, few, args.length), len(few) * args.length, 1)
        except ImportError:
            pass
    return found


if __name__ == "__main__":
    main()
