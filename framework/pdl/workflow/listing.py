"""`runs`: the runs of a folder, finished or not, chosen and sorted by what they are and what they reached."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from pdl.config.tree import dotted, leaves
from pdl.errors import DataError, UsageError
from pdl.suites import suggest
from pdl.train.log import read_log
from pdl.workflow.metric_names import less_is_better
from pdl.workflow.run import ABOUT, Run, runs_in

FIELDS = ("run", "status", "recipe", "model", "seed", "epochs", "steps", "seconds", "parameters", "started")
_CONDITION = re.compile(r"([^<>=!]+?)\s*(<=|>=|!=|==|=|<|>)\s*(.*)")


@dataclass(frozen=True)
class Entry:
    """A run in a list."""

    folder: Run

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What `FIELDS` name. Of a run that is not finished `status` is "running", "unfinished", or "begun" where there
        is no checkpoint yet."""
        about, result = self.folder.describe(), self._result
        known = {name: result[name] for name in FIELDS if name in result}
        if not result:
            last = self._last
            status = "running" if self.folder.active else "unfinished" if self.folder.resumable else "begun"
            model, seed = self.settings.get("model._target_"), self.settings.get("train.seed", 0)
            known = {"status": status, "model": model, "seed": seed}
            known |= {"epochs": last.get("epoch", 0), "steps": last.get("step", 0), "seconds": last.get("seconds")}
        known |= {"run": str(self.folder.path), "recipe": about["recipe"], "started": about.get("started")}
        return {name: known.get(name) for name in FIELDS}

    @property
    def began(self) -> tuple[str, int]:
        """When it did; more exactly than `started`, where two began in one second."""
        file = self.folder.path / ABOUT
        return str(self.facts["started"]), file.stat().st_mtime_ns if file.is_file() else 0

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Of the result; of a run that is not finished, of its last epoch."""
        found = self._result.get("metrics") or {name: x for name, x in self._last.items() if "/" in name}
        return {name: float(value) for name, value in found.items() if value is not None}

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The recipe by dotted key: {"optim.lr": 0.01}."""
        return {dotted(key): value for key, value in leaves(self.folder.settings())}

    @cached_property
    def _result(self) -> dict[str, Any]:
        if not self.folder.result.is_file():
            return {}
        try:
            return dict(json.loads(self.folder.result.read_text(encoding="utf-8")))
        except ValueError as error:
            raise DataError(f"{self.folder.result}: not a result that pdl wrote ({error})") from error

    @cached_property
    def _last(self) -> dict[str, Any]:
        """The last line of its log that is of an epoch."""
        file = self.folder.path / "metrics.jsonl"
        lines = read_log(file) if file.is_file() else []
        return next((line for line in reversed(lines) if line.get("kind") == "epoch"), {})

    def get(self, key: str) -> Any:
        """A fact, a metric, or a setting; None where the run has none of that name."""
        if key in FIELDS:
            return self.facts[key]
        return self.metrics[key] if key in self.metrics else self.settings.get(key)

    def to_dict(self, keys: Sequence[str] = ()) -> dict[str, Any]:
        """As plain values, with the settings that are asked for."""
        requested = {key: self.get(key) for key in keys if key not in FIELDS and key not in self.metrics}
        return {**self.facts, "metrics": self.metrics, **({"settings": requested} if requested else {})}


def runs(
    folders: str | Path | Sequence[str | Path] = "runs", *, where: Sequence[str] = (), sort: str = ""
) -> list[Entry]:
    """The runs in these folders, at any depth, for which all conditions hold.

    where   conditions on facts (`FIELDS`), metrics or settings: "test/accuracy>0.9", "model=*LeNet", "optim.lr<=0.01",
            "status!=finished". Text is compared with a pattern; a run that lacks the name is left out
    sort    one such name: metrics the best first, all else ascending; "-name" turns it round; by default the run that
            was begun last comes first

    UsageError for a folder without a run, and for a name that none of the runs has.
    """
    entries = [Entry(run) for run in runs_in([folders] if isinstance(folders, str | Path) else folders)]
    for text in where:
        key, holds = _condition(text)
        _require(key, entries, text)
        entries = [entry for entry in entries if holds(entry.get(key))]
    if not sort:
        return sorted(entries, key=lambda entry: entry.began, reverse=True)
    key, turned = sort.removeprefix("-"), sort.startswith("-")
    _require(key, entries, f"sort {sort}")
    having = [entry for entry in entries if entry.get(key) is not None]
    best_first = any(key in entry.metrics for entry in having) and not less_is_better(key)
    having.sort(key=lambda entry: _rank(entry.get(key)), reverse=best_first != turned)
    return having + [entry for entry in entries if entry.get(key) is None]


def name_of(condition: str) -> str:
    """The name in a condition."""
    return _condition(condition)[0]


def _require(key: str, entries: Sequence[Entry], text: str) -> None:
    if entries and all(entry.get(key) is None for entry in entries):
        known = {name for entry in entries for name in (*FIELDS, *entry.metrics, *entry.settings)}
        raise UsageError(f"{text}: none of the runs has {key!r}{suggest(key, known)}")


def _condition(text: str) -> tuple[str, Callable[[Any], bool]]:
    """The name, and whether a value fulfils the condition."""
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no condition; write NAME=VALUE, or with != < <= > >=: 'test/accuracy>0.9'")
    key, sign, wanted = match.groups()
    number = _number(wanted)
    if sign in ("=", "==", "!="):
        return key, lambda value: value is not None and _same(value, wanted, number) == (sign != "!=")
    if number is None:
        raise UsageError(f"{text!r}: {sign} needs a number behind it")
    compare: dict[str, Callable[[float, float], bool]] = {
        "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }  # fmt: skip

    def holds(value: Any) -> bool:
        own = _number(value)
        return own is not None and compare[sign](own, number)

    return key, holds


def _same(value: Any, wanted: str, number: float | None) -> bool:
    own = None if isinstance(value, bool) else _number(value)
    return own == number if own is not None and number is not None else fnmatchcase(str(value).lower(), wanted.lower())


def _number(value: Any) -> float | None:
    try:
        return None if math.isnan(number := float(value)) else number
    except (TypeError, ValueError):
        return None


def _rank(value: Any) -> tuple[bool, float, str]:
    number = _number(value)
    return number is None, number or 0.0, str(value)
