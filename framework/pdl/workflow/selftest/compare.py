"""Predictions of a run against those of its bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdl.errors import listed

TOLERANCE = 1e-4
"""How far numbers may differ, relative to the larger of 1 and the number."""


@dataclass
class Differences:
    """What differs, a line each, and the largest difference of numbers, relative to the larger of 1 and the number."""

    lines: list[str] = field(default_factory=list)
    largest: float = 0.0


def differences(run: Sequence[Mapping[str, Any]], bundle: Sequence[Mapping[str, Any]]) -> Differences:
    """Prediction by prediction: the same keys and words, and numbers within `TOLERANCE`.

    Answers that are ranked (a list of {"label" or "item", "score", ...}) are compared by name, so that two with
    all but equal scores may change places; of the run's keys those that only it gives are left out.
    """
    found = Differences()
    if len(run) != len(bundle):
        found.lines.append(f"{len(bundle)} predictions, the run gives {len(run)}")
    for ours, theirs in zip(run, bundle, strict=False):
        _compare(_settled(ours), _settled(theirs), str(ours.get("input", "?")), found)
    return found


def _settled(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """A prediction whose ranked answers are a table by label, without what repeats the first of them."""
    ranked = {name: value for name, value in prediction.items() if _is_ranked(value)}
    tables = {name: {each[_name(each)]: each for each in value} for name, value in ranked.items()}
    repeated = {key for answers in ranked.values() for key in answers[0]}
    return {name: value for name, value in prediction.items() if name not in repeated} | tables


def _is_ranked(value: Any) -> bool:
    some = isinstance(value, list) and bool(value)
    return some and all(isinstance(each, Mapping) and _name(each) for each in value)


def _name(answer: Mapping[str, Any]) -> str:
    """The key of the main part of an answer; "" where it has none."""
    return next((key for key in ("label", "item") if key in answer), "")


def _compare(ours: Any, theirs: Any, where: str, found: Differences) -> None:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        if set(ours) != set(theirs):
            found.lines.append(f"{where}: has {listed(theirs)}, the run {listed(ours)}")
        for key in ours.keys() & theirs.keys():
            _compare(ours[key], theirs[key], f"{where}: {key}", found)
    elif _is_number(ours) and _is_number(theirs):
        far = abs(float(theirs) - float(ours)) / max(1.0, abs(float(ours)))
        found.largest = max(found.largest, far)
        if not far <= TOLERANCE:
            found.lines.append(f"{where} is {float(theirs):.6g}, the run gives {float(ours):.6g}")
    elif _is_list(ours) and _is_list(theirs) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            _compare(*pair, f"{where}[{number}]", found)
    elif not _equal(ours, theirs):
        found.lines.append(f"{where} is {theirs!r}, the run gives {ours!r}")


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0


def _is_number(value: Any) -> bool:
    return getattr(value, "ndim", 0) == 0 and hasattr(value, "__float__") and not isinstance(value, bool)


def _equal(ours: Any, theirs: Any) -> bool:
    return type(ours) is type(theirs) and not _is_list(ours) and bool(ours == theirs)
