"""Settings with several values, in hydra's grammar: `train.seed=0,1,2`, `model.depth=range(2,6)`,
`model.dropout=interval(0,0.5)`; and `optim.lr=log(1e-4,1e-1)`, short for hydra's `tag(log,interval(1e-4,1e-1))`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from pdl.config.compose import parse
from pdl.errors import ConfigError

_LOG = re.compile(r"^([^=]+=(?:int\()?)log\(([^()]*)\)(\)?)$")


@dataclass(frozen=True)
class Interval:
    """All numbers from `low` to `high`, evenly, or where it is `log` their logarithms; whole ones where it is written
    as int(interval(1,5))."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether it stands for whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclass(frozen=True)
class Grid:
    """Overrides that are the same for all, and the values of each key that has several, as text, or an `Interval`."""

    fixed: list[str] = field(default_factory=list)
    axes: dict[str, list[str]] = field(default_factory=dict)
    intervals: dict[str, Interval] = field(default_factory=dict)

    def points(self) -> list[dict[str, str]]:
        """Every combination of the axes, the last one changing fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]


def grid(overrides: Sequence[str]) -> Grid:
    """ConfigError for text that cannot be read, for a key that is given twice, and for an interval that is none."""
    found = Grid()
    for text in overrides:
        override = parse(_LOG.sub(r"\1tag(log,interval(\2))\3", text.replace(" ", "")) if "log(" in text else text)
        if not override.is_sweep_override():
            found.fixed.append(text)
            continue
        key = str(override.get_key_element())
        if key in found.axes or key in found.intervals:
            raise ConfigError(f"command line: {text}: {key} is given twice; write all its values in one list")
        if override.is_discrete_sweep():
            found.axes[key] = list(dict.fromkeys(map(str, override.sweep_string_iterator())))
        else:
            value: Any = override.value()
            found.intervals[key] = _interval(text, value.start, value.end, "log" in value.tags)
    return found


def _interval(text: str, low: float, high: float, log: bool) -> Interval:
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"command line: {text}: an interval goes from a number to a larger one; here {low} to {high}")
    if log and low <= 0:
        raise ConfigError(
            f"command line: {text}: logarithms are of numbers above 0; begin above, as in log(1e-4,{high})"
        )
    return Interval(low, high, log)
