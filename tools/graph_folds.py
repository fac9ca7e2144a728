"""Cross-validation of a recipe whose data sets come in folds, such as graph/mutag_gin.

    python tools/graph_folds.py graph/mutag_gin                      # the GIN paper's protocol: 10 folds
    python tools/graph_folds.py graph/mutag_gin --validate inner     # the epoch is chosen on another fold
    python tools/graph_folds.py graph/mutag_gin --validate inner --either data.batch_size=32 data.batch_size=128
    python tools/graph_folds.py graph/mutag_gin --folds 5 train.epochs=50 --json out.json

With --either every fold chooses among settings by its own validation fold; several keys of one setting are joined by
commas. See `pdl_graph.graphs.folds` for what the numbers are; progress goes to standard error. Runs are kept below
--runs, and what is there is not trained again.
"""

from __future__ import annotations

import argparse
import json
import sys

from pdl_graph.graphs.folds import Folds, chosen_within, cross_validate


def main() -> None:
    """Parse, cross-validate, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("overrides", nargs="*", help="settings, as for pdl train: train.epochs=50")
    parser.add_argument("--validate", choices=("held_out", "inner"), default="held_out")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--metric", default="accuracy")
    parser.add_argument("--runs", default="runs")
    parser.add_argument("--json", help="a file for all curves")
    parser.add_argument("--either", nargs="+", default=[], metavar="SETTING", help="each fold chooses among these")
    args = parser.parse_intermixed_args()
    if args.either and args.validate != "inner":
        parser.error("--either goes with --validate inner: the held-out fold must choose nothing")

    def measured(setting: str, runs: str) -> Folds:
        return cross_validate(
            args.recipe,
            validate=args.validate,
            folds=args.folds,
            metric=args.metric,
            overrides=[*args.overrides, *(setting.split(",") if setting else [])],
            runs=runs,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        )

    if args.either:
        every = [measured(setting, f"{args.runs}/setting{k}") for k, setting in enumerate(args.either)]
        test, pick = chosen_within(every)
        for setting, one in zip(args.either, every, strict=True):
            print(f"{setting}: val {one.curves.max(axis=1).mean():.4f}, test {one.test.mean():.4f}")
        names = [args.either[k] for k in pick]
        print(f"nested    {args.metric} {test.mean():.4f} +- {test.std():.4f} over {args.folds} folds; {names}")
        return
    found = measured("", args.runs)
    for name, epoch, mean, std in found.rows(args.validate):
        at = "" if epoch is None else f"  epoch {epoch}"
        print(f"{name:10}{args.metric} {mean:.4f} +- {std:.4f} over {args.folds} folds{at}")
    if args.json:
        held = {
            "metric": found.metric,
            "epochs": found.epochs,
            "curves": found.curves.tolist(),
            "test": found.test.tolist(),
        }
        with open(args.json, "w") as file:
            json.dump(held, file)


if __name__ == "__main__":
    main()
