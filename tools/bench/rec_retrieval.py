"""Finding the best of many items: exact products, the best of given scores, ranks, and an approximate index.

    python tools/bench/rec_retrieval.py                                # a million items of 64 numbers, beside NumPy
    PYTHONPATH=$PYTHONPATH:FAISS python tools/bench/rec_retrieval.py   # and beside FAISS, where faiss-cpu is
    python tools/bench/rec_retrieval.py --hnsw 100000                  # the approximate index over so many items

Queries and items are Gaussian, float32, k = 20. NumPy multiplies 64 queries at a time, then argpartition and a sort of
the k; FAISS is IndexFlatIP. All take turns in one process; a figure is the median of `--rounds`. Answers are compared
before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

K = 20
Array = np.ndarray[Any, Any]
Call = Callable[[], Array]


def best_of(scores: Array) -> Array:
    """The K highest of each row with NumPy, best first."""
    some = np.argpartition(scores, -K, axis=1)[:, -K:]
    order = np.argsort(-np.take_along_axis(scores, some, axis=1), axis=1)
    found: Array = np.take_along_axis(some, order, axis=1)
    return found


def in_turns(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Median seconds of each."""
    answers = {name: call() for name, call in calls.items()}
    first = next(iter(answers.values()))
    for name, answer in answers.items():
        if (answer != first).mean() > 1e-3:  # products of other libraries round otherwise
            raise SystemExit(f"{name} answers otherwise than {next(iter(answers))}")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}


def exact(args: argparse.Namespace, rng: np.random.Generator) -> None:
    """Queries a second over all items, in batches of one and more."""
    from pdl.ranking import top_products

    table = rng.standard_normal((args.items, args.width), dtype=np.float32)
    index = None
    if importlib.util.find_spec("faiss") is not None:
        import faiss

        faiss.omp_set_num_threads(args.threads)
        index = faiss.IndexFlatIP(args.width)
        index.add(table)
    print(f"exact, {args.items:,} items of {args.width}: queries a second")
    for batch in args.batches:
        queries = rng.standard_normal((batch, args.width), dtype=np.float32)

        def numpy_way(queries: Array = queries) -> Array:
            return np.concatenate([best_of(queries[i : i + 64] @ table.T) for i in range(0, len(queries), 64)])

        calls: dict[str, Call] = {
            "pdl": lambda queries=queries: top_products(queries, table, K, first=0)[1],  # type: ignore[misc]
            "numpy": numpy_way,
        }
        if index is not None:
            calls["faiss"] = lambda queries=queries: index.search(queries, K)[1]  # type: ignore[misc]
        found = in_turns(calls, args.rounds)
        line = "   ".join(f"{name} {batch / seconds:8.1f}" for name, seconds in found.items())
        print(f"  batch {batch:5d}   {line}")


def given(args: argparse.Namespace, rng: np.random.Generator) -> None:
    """Rows a second of scores that are there already, as an evaluation has them."""
    from pdl.ranking import ranks, top_k

    scores = rng.standard_normal((256, 37_000), dtype=np.float32)
    targets = rng.integers(1, 37_000, 256)

    def numpy_ranks() -> Array:
        own = np.take_along_axis(scores, targets[:, None], axis=1)
        counted: Array = (scores[:, 1:] >= own).sum(axis=1)
        return counted

    for title, calls in {
        "the best 20": {"pdl": lambda: top_k(scores, K, first=0)[1], "numpy": lambda: best_of(scores)},
        "ranks": {"pdl": lambda: ranks(scores, targets), "numpy": numpy_ranks},
    }.items():
        found = in_turns(calls, args.rounds)
        line = "   ".join(f"{name} {256 / seconds:8.0f}" for name, seconds in found.items())
        print(f"{title} of scores [256, 37000]: rows a second   {line}")


def approximate(args: argparse.Namespace, rng: np.random.Generator) -> None:
    """Queries a second and recall of the graph for growing effort, over clustered vectors as models learn them."""
    from pdl_rec.retrieval import ItemIndex

    centres = rng.standard_normal((1000, args.width), dtype=np.float32)
    noise = rng.standard_normal((args.hnsw + 512, args.width), dtype=np.float32)
    vectors = centres[rng.integers(0, 1000, len(noise))] + 0.5 * noise
    table, queries = np.concatenate([vectors[:1], vectors[: args.hnsw]]), vectors[args.hnsw :]
    plain = ItemIndex(table)
    begin = time.perf_counter()
    index = ItemIndex(table, method="hnsw")
    print(f"hnsw, {args.hnsw:,} items of {args.width}: built in {time.perf_counter() - begin:.1f} s")
    seconds = in_turns({"exact": lambda: plain.search(queries, K)[1]}, args.rounds)["exact"]
    print(f"  exact        {len(queries) / seconds:8.0f} queries a second")
    for effort in (32, 128, 512):
        index.effort = effort
        seconds = in_turns({"hnsw": lambda: index.search(queries, K)[1]}, args.rounds)["hnsw"]
        recall = index.recall(queries, K)
        print(f"  effort {effort:4d}  {len(queries) / seconds:8.0f} queries a second, recall {recall:.3f}")


def main() -> None:
    """Print one table, or that of the approximate index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--hnsw", type=int, metavar="ITEMS")
    args = parser.parse_args()
    from pdl import threads

    threads.set_num_threads(args.threads)
    rng = np.random.default_rng(0)
    if args.hnsw is not None:
        approximate(args, rng)
        return
    exact(args, rng)
    given(args, rng)


if __name__ == "__main__":
    main()
