"""What `pdl init` and `pdl train` reach untouched on small folders of images, beside a small grid around the recipe.

    python tools/first_try.py FOLDERS --out first_try.json            # of tools/image_folders.py; what is done is kept
    python tools/first_try.py FOLDERS --out first_try.json --grid     # and three times the rate, a third, more epochs
    python tools/first_try.py FOLDERS --out first_try.json --only pets,cells

All are measured on FOLDERS/NAME-held, which no training sees. "chosen" is the setting of the grid with the best
val/accuracy, "best" the best on the held images themselves, which nobody could choose.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from pdl.config import load
from pdl.train import Recipe
from pdl.workflow import train
from pdl.workflow.evaluation import evaluate
from pdl.workflow.new_recipe import init

Figures = dict[str, dict[str, float]]


def grid(recipe: Recipe) -> dict[str, list[str]]:
    """Overrides by name: the recipe itself, other rates, more epochs."""
    lr, epochs = float(recipe.config.get("optim.lr")), int(recipe.config.get("train.epochs"))  # type: ignore[arg-type]
    return {
        "init": [],
        "lr x 3": [f"optim.lr={lr * 3:.3g}"],
        "lr / 3": [f"optim.lr={lr / 3:.3g}"],
        "epochs x 2": [f"train.epochs={epochs * 2}"],
    }


def measured(folder: Path, recipe: Path, overrides: list[str]) -> dict[str, float]:
    """Accuracies of one training on val and on the held images, and its seconds with baselines, report and bundle."""
    with tempfile.TemporaryDirectory() as place:
        begun, cpu = time.monotonic(), time.process_time()
        result = train(Recipe(load(recipe, overrides)), run=Path(place) / "run", progress=False)
        spent = {"seconds": time.monotonic() - begun, "cpu": time.process_time() - cpu}
        held = [f"data.test.root={folder}-held", "data.test.split=null", "data.test.ratios=null"]
        test = evaluate(Path(place) / "run", overrides=held).metrics["test/accuracy"]
    return {"val": result.metrics["val/accuracy"], "held": test, **spent, "epochs": result.epochs}


def row(name: str, folder: Path, found: Figures) -> str:
    """A line of the table."""
    images = sum(1 for _ in folder.rglob("*.png"))
    classes = sum(1 for each in folder.iterdir() if each.is_dir())
    chosen = max(found, key=lambda key: found[key]["val"])
    own, best = found["init"], max(each["held"] for each in found.values())
    cells: list[Any] = [name, images, classes, f"{own['held']:.3f}", f"{found[chosen]['held']:.3f}", chosen]
    cells += [f"{best:.3f}", f"{own['seconds']:.0f} s", f"{own['cpu']:.0f} s"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Train what is not done, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--grid", action="store_true")
    args = parser.parse_args()
    done: dict[str, Figures] = json.loads(args.out.read_text()) if args.out.is_file() else {}
    names = sorted(each.name for each in args.folders.iterdir() if not each.name.endswith("-held"))
    for name in [each for each in names if not args.only or each in args.only.split(",")]:
        found = done.setdefault(name, {})
        with tempfile.TemporaryDirectory() as place:
            recipe = init("cv.classification", data=args.folders / name, out=Path(place) / "recipe.yaml")
            for setting, overrides in grid(Recipe(load(recipe))).items():
                if setting not in found and (args.grid or setting == "init"):
                    found[setting] = measured(args.folders / name, recipe, overrides)
                    args.out.write_text(json.dumps(done, indent=1))
                    print(name, setting, found[setting], flush=True)
    print("| set | images | classes | init | chosen | by | best | time | CPU |\n|---|---|---|---|---|---|---|---|---|")
    for name, found in done.items():
        print(row(name, args.folders / name, found))


if __name__ == "__main__":
    main()
