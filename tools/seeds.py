"""A recipe trained with several seeds: mean and standard deviation of its metrics.

    python tools/seeds.py graph/cora_gcn                               # train.seed=0..9
    python tools/seeds.py graph/cora_gcn optim.lr=0.02 --seeds 3 --metric val/accuracy
    python tools/seeds.py graph/cora_gcn --runs runs --json out.json   # runs are kept, finished ones not repeated

Settings are chosen by val/..., which is shown beside test/...; the standard deviation is over the seeds (n - 1 in the
denominator). Neither reports nor bundles are written. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pdl.config import load
from pdl.train import Recipe
from pdl.workflow import train
from pdl.workflow.result import Result
from pdl.workflow.run import Run
from pdl.workflow.training import check_same

QUIET = ("train.report=false", "train.export=false")


def trained(recipe: str, overrides: Sequence[str], seeds: int, runs: Path) -> list[Result]:
    """The results of all seeds, from RUNS/<recipe>-seed<k>."""
    found = []
    for seed in range(seeds):
        loaded = Recipe(load(recipe, [*QUIET, *overrides, f"train.seed={seed}"]))
        folder = Run(runs / f"{Path(recipe).stem}-seed{seed}")
        begun = (folder.path / "config.yaml").is_file()
        if begun:
            check_same(folder, loaded)
        done = folder.result.is_file()
        result = Result.load(folder.result) if done else train(loaded, run=folder.path, resume=begun, progress=False)
        told = ", ".join(f"{name} {result.metrics[name]:.4f}" for name in shown(result, None))
        print(f"seed {seed}: {told}, {result.epochs} epochs, {result.seconds:.1f} s", file=sys.stderr, flush=True)
        found.append(result)
    return found


def shown(result: Result, metric: str | None) -> list[str]:
    """The metric that is asked for; otherwise those that both val and test have, but for the loss."""
    if metric is not None:
        return [metric]
    names = [name.partition("/")[2] for name in result.metrics if name.startswith("test/")]
    both = [f"{split}/{name}" for name in names if name != "loss" for split in ("val", "test")]
    return [name for name in both if name in result.metrics]


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def main() -> None:
    """Parse, train, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*", help="settings, as for pdl train: optim.lr=0.02")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--metric", help="one alone, such as test/accuracy")
    parser.add_argument("--runs", help="a folder to keep the runs in")
    parser.add_argument("--json", help="a file for the metrics of every seed")
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as scratch:
        results = trained(args.recipe, args.overrides, args.seeds, Path(args.runs or scratch))
    print(" ".join([args.recipe, *args.overrides]))
    for name in shown(results[0], args.metric):
        mean, std = spread([result.metrics[name] for result in results])
        print(f"  {name} {mean:.4f} +- {std:.4f} over seeds 0 to {args.seeds - 1}")
    seconds = spread([result.seconds for result in results])[0]
    epochs = spread([float(result.epochs) for result in results])[0]
    print(f"  {seconds:.1f} s and {epochs:.0f} epochs a training")
    if args.json:
        rows = [{"seed": seed, "seconds": r.seconds, **r.metrics} for seed, r in enumerate(results)]
        held = {"recipe": args.recipe, "overrides": args.overrides, "seeds": rows}
        Path(args.json).write_text(json.dumps(held) + "\n")


if __name__ == "__main__":
    main()
