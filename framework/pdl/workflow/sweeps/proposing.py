"""Settings that Optuna proposes: a function of what is known, so that whoever knows the same goes on the same way."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np

from pdl.config.sweeps import Interval
from pdl.errors import PackageError

#: the values of each key as text, or an interval
Space = Mapping[str, "Sequence[str] | Interval"]
State = Literal["finished", "stopped", "diverged", "failed", "running"]


@dataclass(frozen=True)
class Past:
    """A trial that was proposed before: its settings, and the monitored metric: at the end, and by epoch where it was
    stopped."""

    settings: dict[str, str]
    state: State
    value: float = float("nan")
    values: Mapping[int, float] = field(default_factory=dict)


def require_optuna() -> Any:
    """Optuna, which says errors alone. PackageError where it is not installed."""
    try:
        optuna = import_module("optuna")
    except ModuleNotFoundError as error:
        raise PackageError('--trials needs Optuna: pip install "pdl-core[search]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def propose(space: Space, past: Sequence[Past], *, seed: int, less: bool) -> dict[str, str]:
    """The next setting by the tree-structured Parzen estimator (Bergstra et al., NeurIPS 2011), whose random numbers
    are a function of `seed` and the number of trials before.

    What is under way counts as bad there, so that trials at once are not all alike; so does what diverged. Trials of
    other keys, or outside of the space, are left out.
    """
    optuna = require_optuna()
    kinds = {key: _distribution(optuna.distributions, values) for key, values in space.items()}
    number = int(np.random.SeedSequence([seed, len(past)]).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `constant_liar` was an experiment before version 5
        sampler = optuna.samplers.TPESampler(seed=number, constant_liar=True)
    study = optuna.create_study(direction="minimize" if less else "maximize", sampler=sampler)
    for each in past:
        values = {key: _read(each.settings[key], part) for key, part in space.items() if key in each.settings}
        if values.keys() == space.keys() and all(_inside(values[key], part) for key, part in space.items()):
            study.add_trial(_frozen(optuna.trial, each, values, kinds))
    found = study.ask(kinds).params
    return {key: _text(found[key], part) for key, part in space.items()}


def _distribution(kinds: Any, values: Sequence[str] | Interval) -> Any:
    if not isinstance(values, Interval):
        return kinds.CategoricalDistribution(list(values))
    made = kinds.IntDistribution if values.whole else kinds.FloatDistribution
    return made(values.low, values.high, log=values.log)


def _frozen(trials: Any, past: Past, values: dict[str, Any], kinds: dict[str, Any]) -> Any:
    states = trials.TrialState
    how: dict[str, Any] = {
        "finished": {"state": states.COMPLETE, "value": past.value},
        "stopped": {"state": states.PRUNED, "intermediate_values": {n: x for n, x in past.values.items() if x == x}},
        "diverged": {"state": states.PRUNED},
        "failed": {"state": states.FAIL},
        "running": {"state": states.RUNNING},
    }[past.state]
    return trials.create_trial(params=values, distributions=kinds, **how)


def _read(text: str, values: Sequence[str] | Interval) -> Any:
    if not isinstance(values, Interval):
        return text
    return int(text) if values.whole else float(text)


def _inside(value: Any, values: Sequence[str] | Interval) -> bool:
    return values.low <= value <= values.high if isinstance(values, Interval) else value in values


def _text(value: Any, values: Sequence[str] | Interval) -> str:
    """Four significant places, which are inside the interval, too."""
    if not isinstance(values, Interval) or values.whole:
        return str(value)
    short = f"{value:.4g}"
    return short if values.low <= float(short) <= values.high else repr(float(value))
