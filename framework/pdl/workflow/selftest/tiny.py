"""A recipe cut down to seconds: a few samples of its own data, or of a stand-in where its data is not on this
machine."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdl import hub, suites
from pdl.config import Config, build, from_dict, load
from pdl.config.tree import MISSING, Key, dotted, leaves, split
from pdl.data import DataFault, IterableDataset, StandIn
from pdl.errors import ConfigError, DataError, PdlError
from pdl.train.recipe import Recipe, check, faults
from pdl.train.task import SPLITS, SmokeTest, Task

TARGET = "_target_"
OWN = "own data"
EPOCH = 1_000_000  # steps, more than an epoch has: each ends with a checkpoint


class Skipped(PdlError):
    """This recipe cannot be tried on this machine; the message says what is absent. Not a pass, and no failure."""


@dataclass(frozen=True)
class Cut:
    """A recipe cut down: the config to train, what data it has (`OWN`, or what stands in), why not its own, and which
    weights it does not begin with."""

    config: Config
    data: str
    why: str = ""
    fresh: tuple[str, ...] = ()


def cut_down(recipe: str | Path, overrides: Sequence[str], folder: Path) -> Cut:
    """The recipe on little data; stand-ins are written below `folder`.

    Where pretrained weights are not on this machine, it begins with fresh ones. Raises ConfigError for a recipe with
    faults, DataError for data that is there and damaged, UsageError for weights that no hub lists, Skipped where
    data is absent.
    """
    whole = load(recipe, overrides)
    why = _absent(whole)
    stands = _stand_ins(whole, folder, why) if why else {}
    _check_but(whole, stands)
    absent = _absent_weights(whole)
    known = Recipe(from_dict(_standing(whole, stands)))
    task: Task = known.task.build()
    made = check(from_dict(_smaller(whole, task.smoke_test(known), stands, absent)))
    made.path = whole.path
    fresh = tuple(f"{dotted(key)}: {whole.get(dotted(key))} is not on this machine; fresh weights" for key in absent)
    return Cut(made, "; ".join(dict.fromkeys(stand.what for stand in stands.values())) or OWN, why, fresh)


def _splits(config: Config) -> list[str]:
    return [name for name in SPLITS if config.get(f"data.{name}") is not None]


def _absent(config: Config) -> str:
    """Why the recipe's own data cannot be used here; empty where it can."""
    gaps = [dotted(("data", *key)) for key, value in leaves(config.get("data") or {}) if value == MISSING]
    if gaps:
        return f"{gaps[0]} is for its user to give"
    check(config)
    try:
        for name in _splits(config):
            build(config["data"][name])
    except DataFault as error:
        if (
            error.fault.path is not None and Path(error.fault.path).exists()
        ):  # it is here, and damaged: that is no reason to look away
            raise
        return str(error)
    return ""


def _stand_ins(config: Config, folder: Path, why: str) -> dict[str, StandIn]:
    """Split -> what takes its place."""
    found = {}
    for name in _splits(config):
        node = config["data"][name]
        part = suites.locate(suites.moved(node[TARGET]) or node[TARGET])
        place = folder / node[TARGET].rpartition(".")[2]
        place.mkdir(parents=True, exist_ok=True)
        given = {key: value for key, value in node.items() if value != MISSING}
        stand = part.stand_in(place, given) if hasattr(part, "stand_in") else None
        if stand is None:
            raise Skipped(f"its data is not here, and {node[TARGET]} has no stand-in: {why}")
        found[name] = stand
    return found


def _check_but(config: Config, stands: Mapping[str, StandIn]) -> None:
    """`check`, but for the settings that a stand-in gives."""
    given = {("data", name, key) for name, stand in stands.items() for key in stand.settings}
    found = [fault for fault in faults(config) if fault.path[:3] not in given]
    if found:
        raise ConfigError([config.line(fault) for fault in found])


def _absent_weights(config: Config) -> list[Key]:
    """Where the recipe names pretrained weights that are not on this machine."""
    found = []
    for key, value in leaves(config.tree):
        if key[-1] == "pretrained" and isinstance(value, str) and not Path(value).exists():
            try:
                hub.resolve(value)
            except DataError:
                found.append(key)
    return found


def _standing(config: Config, stands: Mapping[str, StandIn]) -> dict[str, Any]:
    """The recipe's tree with stand-ins for its data."""
    tree = config.plain()
    for name, stand in stands.items():
        tree["data"][name] = {**tree["data"][name], **stand.settings}
    return tree


def _smaller(config: Config, tiny: SmokeTest, stands: Mapping[str, StandIn], absent: Sequence[Key]) -> dict[str, Any]:
    """The recipe's tree with few samples, small batches, few epochs and no weights that are absent."""
    tree = _standing(config, stands)
    data = tree["data"]
    for name in _splits(config):
        data[name] = _few(data[name], tiny.train if name == "train" else tiny.test)
    _smaller_batches(tree, tiny)
    short = {"epochs": tiny.epochs, "max_steps": None, "early_stop": None, "eval_every": 1, "export": False}
    often = {"checkpoint_every": EPOCH}  # the best weights are on the disk, however short epochs are
    tree["train"] = {**(tree.get("train") or {}), **short, **often}
    for name, value in tiny.settings.items():
        _set(tree, split(name), value)
    for key in absent:
        _set(tree, key, None)
    return tree


def _smaller_batches(tree: dict[str, Any], tiny: SmokeTest) -> None:
    """Fewer samples in a step; the learning rate falls with the square root (Krizhevsky, arXiv 1404.5997), so that a
    recipe for large batches stays stable.
    """
    data, own = tree["data"], tree["data"].get("batch_size") or tiny.batch_size
    data["batch_size"], data["eval_batch_size"] = min(own, tiny.batch_size), tiny.test
    if "lr" in tree["optim"]:
        tree["optim"]["lr"] *= math.sqrt(data["batch_size"] / own)


def _few(node: dict[str, Any], n: int) -> dict[str, Any]:
    """The first samples of a data set; a stream is left whole."""
    part = suites.locate(suites.moved(node[TARGET]) or node[TARGET])
    if inspect.isclass(part) and issubclass(part, IterableDataset):
        return node
    return {TARGET: "pdl.data.Few", "dataset": node, "n": n}


def _set(tree: Any, key: tuple[str | int, ...], value: Any) -> None:
    *above, last = key
    for name in above:
        tree = tree[name]
    tree[last] = value
