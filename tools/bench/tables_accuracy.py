"""Whether a training with tables on servers is as good asynchronously as step by step: the recipes' test metrics.

    pip install "pdl-core[ray,mpi]" pdl-rec           # and the recipes' data (pdl data get rec/ml100k, ...)
    python tools/bench/tables_accuracy.py                              # 3 seeds of sync and async, two recipes
    python tools/bench/tables_accuracy.py --modes sync async ssp geo --seeds 0 1 2 3 4 --recipes rec/ml100k_deepfm

Two processes train, two servers have the tables; all other settings are the recipes', but for gradients of tables by
rows (model.sparse=true). The modes `alone` and `two` have no servers: one process, and two that average gradients. The
test split is used once, at the end of each run. Of each mode the mean and the standard deviation over seeds, and of all
but the first the mean of the differences from the first, seed by seed, and its standard error.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

METRICS = {"rec/ml100k_deepfm": "test/auc", "rec/yoochoose100k_gru4rec": "test/recall@20"}
WORDS = {"rec/yoochoose100k_gru4rec": ["task.compare=[]"]}  # no baselines
TABLES = "distributed.tables={{servers: 2, mode: {mode}}}"


def trained(recipe: str, mode: str, seed: int, metric: str) -> float:
    """The metric of one run."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        line = [sys.executable, "-m", "pdl", "train", "-c", recipe, "model.sparse=true", "train.report=false"]
        line += [f"train.seed={seed}", "--workers", "1" if mode == "alone" else "2", "--run", str(run)]
        line += WORDS.get(recipe, [])
        line += [TABLES.format(mode=mode)] if mode not in ("alone", "two") else []
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        return float(json.loads((run / "result.json").read_text())["metrics"][metric])


def main() -> None:
    """Print each run, then what modes have in common."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=list(METRICS), choices=list(METRICS))
    parser.add_argument("--modes", nargs="+", default=["sync", "async"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    for recipe in args.recipes:
        found: dict[str, list[float]] = {mode: [] for mode in args.modes}
        for seed in args.seeds:
            for mode in args.modes:
                found[mode].append(trained(recipe, mode, seed, METRICS[recipe]))
                print(json.dumps({"recipe": recipe, "seed": seed, mode: round(found[mode][-1], 4)}), flush=True)
        first = np.array(found[args.modes[0]])
        for mode, values in found.items():
            about = {"recipe": recipe, "metric": METRICS[recipe], "mode": mode, "mean": float(np.mean(values))}
            about["deviation"] = float(np.std(values, ddof=1))
            if mode != args.modes[0]:
                apart = np.array(values) - first
                about["difference"] = float(apart.mean())
                about["its error"] = float(apart.std(ddof=1) / np.sqrt(len(apart)))
            print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in about.items()}), flush=True)


if __name__ == "__main__":
    main()
