"""Put the weights of a run into its suite: `python tools/publish_weights.py runs/digits cv/digits_lenet --summary ...`.

Writes suites/<suite>/pdl_<suite>/weights/NAME.pdl (the bundle, its weights stored in half the bytes), keeps recipe and
log in suites/<suite>/training/NAME/, measures the file that ships, and prints its entry for hub.yaml. Of paths of this
machine the recipe keeps the last part: /data/fonts is fonts.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from pdl.runtime.bundle import read
from pdl.workflow import Run, evaluate
from pdl.workflow.exporting import export
from pdl.workflow.packaging import index_entry

ROOT = Path(__file__).parents[1]
LIMIT = 9_000_000  # a wheel stays small


def publish(run: Path, suite: str, name: str, store: str, licence: str, split: str) -> tuple[Path, dict[str, Any]]:
    """The file, and what `pdl eval` says of it on a split."""
    package = ROOT / "suites" / suite / f"pdl_{suite}"
    file = package / "weights" / f"{name}.pdl"
    file.parent.mkdir(exist_ok=True)
    export(run, file, store=store, licence=licence)
    metrics = evaluate(file, split=split).metrics
    with tempfile.TemporaryDirectory() as folder:  # the same weights with a recipe for others
        portable = shutil.copytree(run, Path(folder) / run.name)
        for each in (portable / "config.yaml", portable / "run.json"):
            each.write_text(without_folders(each.read_text(encoding="utf-8")), encoding="utf-8")
        export(portable, file, store=store, licence=licence)
    if file.stat().st_size > LIMIT:
        raise SystemExit(f"{file}: {file.stat().st_size} bytes, more than {LIMIT}")
    keep_log(run, ROOT / "suites" / suite / "training" / name)
    return file, metrics


def without_folders(text: str) -> str:
    """A recipe, or what JSON says of a run, whose absolute paths are their last parts."""
    return re.sub(r"(?m)((?:^|[\s'\"\[,=]))/(?:[^\s'\"\],/]+/)+([^\s'\"\],/]+)", r"\1\2", text)


def keep_log(run: Path, folder: Path) -> None:
    """Recipe, metrics and result of the run, without what concerns the machine it ran on only."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = (run / "config.yaml").read_text(encoding="utf-8")
    (folder / "config.yaml").write_text(without_folders(recipe), encoding="utf-8")
    shutil.copyfile(run / "metrics.jsonl", folder / "metrics.jsonl")
    result = json.loads((run / "result.json").read_text())
    result.pop("run"), result.pop("next"), result["machine"].pop("system")
    (folder / "result.json").write_text(without_folders(json.dumps(result, indent=2)) + "\n", encoding="utf-8")


def entry(run: Path, name: str, file: Path, metrics: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    """What hub.yaml says of it."""
    seed = Run.open(run).config()["train"].get("seed", 0)
    origin = f"trained by the pdl authors with the command below, seed {seed}; the log is in training/{name}"
    made = index_entry(read(file), file.read_bytes(), name, {"task": None, "summary": args.summary, "origin": origin})
    made["metric"] = {
        "name": args.metric,
        "value": round(metrics[args.metric], 4),
        "data": args.data,
        "protocol": args.protocol,
    }
    made["command"] = args.command
    del made["card"]  # the bundle carries its own
    return {name: made}


def main() -> None:
    """Parse, publish, print the entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name", help="suite/name, as it will be asked for")
    parser.add_argument("--summary", required=True, help="one line")
    parser.add_argument("--data", required=True, help="what it was measured on")
    parser.add_argument("--protocol", required=True, help="how")
    parser.add_argument("--command", required=True, help="the training command")
    parser.add_argument("--metric", default="test/accuracy")
    parser.add_argument("--store", default="bf16", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--licence", default="Apache-2.0", help="an SPDX name; that of the data, where it binds")
    args = parser.parse_args()
    suite, _, name = args.name.partition("/")
    file, metrics = publish(args.run, suite, name, args.store, args.licence, args.metric.partition("/")[0])
    print(yaml.safe_dump(entry(args.run, name, file, metrics, args), sort_keys=False, allow_unicode=True, width=110))


if __name__ == "__main__":
    main()
