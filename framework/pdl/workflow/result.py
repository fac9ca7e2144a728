"""What a run came to: `Result`, written as result.json and shown as the table at the end.

The schema of result.json (also in `FIELDS`, which a test holds it to):

    schema              1
    recipe              name of the recipe's file, without .yaml
    task, model         import paths, for example "pdl_cv.Classification", "pdl_cv.LeNet"
    run                 the run folder, absolute
    status              "finished", "stopped early", "fast dev run" or "overfit"
    stopped             why it was stopped before its last epoch; "" where it was not
    seed                train.seed
    epochs, steps       done
    seconds             spent in training (over all interruptions), with evaluation and checkpoints
    samples_per_second  training samples over those seconds
    parameters          numbers in the model that are trained
    weights             which weights the test used: "best" or "last", and of which epoch
    selection           what chose these weights, and whether the test split had a part in it; "" where nothing was
                        trained
    warnings            sentences on what a person should look at (`pdl.workflow.run_warnings`), [] where all is well
    pretrained          what became of the weights it began with: a `pdl.hub.Report` each, [] for a fresh start
    metrics             {"test/accuracy": 0.98, "test/loss": ..., "val/...": ..., "train/loss": ...}; a task may name
                        further ones without a split (`Task.summary_metrics`): {"energy": -1.137, ...}
    baselines           what simple methods reach on the split of the test, {} where the task knows of none:
                        {"popularity": {"test/recall@20": 0.09, ...}, ...}
    bounds              those of them that are no methods but what no model is expected to pass (`Task.bounds`)
    versions            {"pdl": ..., "python": ..., "numpy": ..., and the suites'}
    machine             {"class": "x86_64 avx512, 2 threads", "processor": ..., "threads": ..., "isa": ..., ...}
    next                the command to type next
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pdl.errors import DataError
from pdl.files import read_text
from pdl.train.log import duration
from pdl.train.recipe import Recipe
from pdl.version import __version__

FIELDS: dict[str, type | tuple[type, ...]] = {
    "schema": int, "recipe": str, "task": str, "model": str, "run": str, "status": str, "stopped": str, "seed": int,
    "epochs": int, "steps": int, "seconds": float, "samples_per_second": (float, type(None)), "parameters": int,
    "weights": str, "selection": str, "warnings": list, "pretrained": list, "metrics": dict, "baselines": dict,
    "bounds": list, "versions": dict, "machine": dict, "next": str,
}  # fmt: skip


@dataclass
class Result:
    """The outcome of a run; see the module for the fields."""

    recipe: str
    task: str
    model: str
    run: str
    status: str
    seed: int
    epochs: int
    steps: int
    seconds: float
    samples_per_second: float | None
    parameters: int
    weights: str
    metrics: dict[str, float]
    stopped: str = ""
    next: str = ""
    selection: str = ""
    warnings: list[str] = field(default_factory=list)
    pretrained: list[dict[str, Any]] = field(default_factory=list)
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    bounds: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    schema: int = 1

    def to_dict(self) -> dict[str, Any]:
        """As result.json holds it."""
        return asdict(self)

    def rows(self) -> list[tuple[str, Any]]:
        """The table at the end of training: what was reached, with which weights, in what time, what was written, what
        to type next."""
        written = ((name, Path(self.run) / file) for name, file in (("report", "report.html"), ("bundle", "model.pdl")))
        return [
            *self.measured(),
            *(("warning", each) for each in self.warnings),
            *([("stopped", self.stopped)] if self.stopped else []),
            ("weights", self.weights),
            *(("pretrained", each) for each in self.pretrained_lines()),
            ("time", f"{duration(self.seconds)} ({self.epochs} epoch{'s' * (self.epochs != 1)}, {self.steps} steps)"),
            ("run", _short(self.run)),
            *(
                (name, f"{_short(str(file))} ({file.stat().st_size / 1000:,.0f} kB)")
                for name, file in written
                if file.is_file()
            ),
            ("next", self.next),
        ]

    def measured(self) -> list[tuple[str, Any]]:
        """The metrics for a table: all of the split that was tested, of the others the loss and the first; summary
        metrics, which are compared with exact values, with all digits that mean something."""
        tested = next((name.rpartition("/")[0] for name in self.metrics if "/" in name), "")
        shown, begun = list[tuple[str, Any]](), set[str]()
        for name, value in self.metrics.items():
            split, _, metric = name.rpartition("/")
            if not split:
                shown.append((name, f"{value:.9g}"))
            elif split == tested or metric == "loss" or split not in begun:
                shown.append((name, value))
            begun |= set() if metric == "loss" else {split}
        return shown

    def pretrained_lines(self) -> list[str]:
        """What became of the weights it began with, a line for each source."""
        return [_shown(each) for each in self.pretrained]

    def save(self, path: Path) -> None:
        """Write result.json, whole or not at all; NaN and infinity, which JSON lacks, become null."""
        from pdl.files import write_atomic

        plain = self.to_dict()
        plain["metrics"] = _finite(self.metrics)
        plain["baselines"] = {name: _finite(metrics) for name, metrics in self.baselines.items()}
        write_atomic(path, (json.dumps(plain, indent=2) + "\n").encode())

    @classmethod
    def load(cls, path: Path) -> Result:
        """Read result.json."""
        try:
            return cls(**json.loads(read_text(path)))
        except (ValueError, TypeError) as error:
            raise DataError(f"{path}: not a result that this pdl wrote ({error})") from error


def _finite(metrics: dict[str, float]) -> dict[str, float | None]:
    return {name: None if value is None or value - value != 0 else value for name, value in metrics.items()}


def _shown(report: dict[str, Any]) -> str:
    """What became of pretrained weights, in a line."""
    parts = [f"{report['source']}: {report['loaded']} tensors"]
    parts += [
        f"{word} {', '.join(report[key])}" for word, key in (("adapted", "adapted"), ("fresh", "fresh")) if report[key]
    ]
    return ", ".join(parts)


def _short(folder: str) -> str:
    """A path as one would type it here."""
    try:
        return str(Path(folder).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return folder


def identity(name: str, path: Path, recipe: Recipe) -> dict[str, Any]:
    """The fields of a result that identify run and model."""
    return {
        "recipe": name,
        **recipe.identity(),
        "run": str(path.resolve()),
        "versions": versions(),
        "machine": machine(),
    }


def versions() -> dict[str, str]:
    """Of Python, NumPy, pdl and the installed suites."""
    import numpy

    from pdl import suites

    mine = {"pdl": __version__, "python": platform.python_version(), "numpy": numpy.__version__}
    return mine | {suite.package: suite.version for suite in suites.installed().values()}


def machine() -> dict[str, Any]:
    """The machine that results depend on."""
    from pdl.kernels import runtime
    from pdl.threads import get_num_threads

    threads, isa = get_num_threads(), runtime.isa()
    name = f"{platform.machine()} {isa}, {threads} thread{'s' if threads != 1 else ''}"
    return {
        "class": name,
        "processor": _processor(),
        "threads": threads,
        "isa": isa,
        "system": f"{platform.system()} {platform.release()}",
    }


def _processor() -> str:
    if sys.platform == "linux":
        try:
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
