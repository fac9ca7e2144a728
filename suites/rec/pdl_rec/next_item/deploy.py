"""What of a model of sessions goes into a bundle."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.runtime.tables import csv_line
from pdl.train import Deployer, Recipe
from pdl_rec.data.sessions import SessionData, Sessions, bind, sessions_of, unwrap
from pdl_rec.steps.session_file import COLUMNS

if TYPE_CHECKING:
    from pdl_rec.next_item.task import NextItem

SAMPLES, ANSWERS = 8, 20


class NextItemDeployer(Deployer):
    """Scores of all items for sessions [N, T] of any length; the best by name afterwards."""

    task: NextItem

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, around = self.task, self.steps()
        return Deployment(
            module=model,
            inputs={"items": Spec((Dim.symbol("n", 3), Dim.symbol("t", 4)), int64)},
            outputs=("scores",),
            pre=around["pre"],
            post=around["post"],
            samples=samples(task, dataset),
            prepare=lambda names: {"items": prepared(task, names)},
            vocabularies={"items": task.vocabularies["items"]},
            about={**self.recipe.identity(), "parameters": _count(model)},
        )

    def steps(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Sessions to numbers before the net, scores to names behind it."""
        task = self.task
        session = {"step": "session", "vocabulary": "items", "max_length": task.max_length}
        top: dict[str, Any] = {"step": "top_names", "vocabulary": "items", "k": ANSWERS, "one": "item", "many": "items"}
        if not task.self_recommendation:
            top["exclude"] = "items"
        return {"pre": {"items": [{**session, "columns": columns(self.recipe)}]}, "post": {"scores": [top]}}

    def card(self, model: Module) -> Card:
        items = self.task.vocabularies["items"]
        example = ",".join(items.names[:2])
        return Card(
            title=f"{type(model).__name__}, {len(items):,} items",
            summary=f"Which item comes next in a session ({self.recipe.model.target}, {_count(model):,} parameters).",
            protocol=f"Means over targets; {self.task.protocol()}.",
            use=f'    session = pdl.runtime.load("model.pdl")\n    session("{example}")["items"]\n\n'
            f"or `pdl predict model.pdl --session '{example}'`; `pdl predict model.pdl sessions.csv --out answers.csv` "
            "for many.",
            data=f"{self.learned_from} Items that training did not have are unknown.",
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first items of a session of the test data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        held = sessions_of(loaders[split].dataset) if split == "train" else loaders[split].dataset.sessions
        known = held.items[held.items > 0][:2]
        return f"--session {shlex.quote(csv_line([self.task.vocabularies['items'].decode(int(i)) for i in known]))}"


def columns(recipe: Recipe) -> list[str]:
    """The columns of session, item and time as the recipe's data has them."""
    *_, source = recipe.data.splits.values()
    known = inspect.signature(source.cls).parameters
    defaults = {name: known[name].default for name in COLUMNS if name in known}
    found = [source.get(name, defaults.get(name)) for name in COLUMNS]
    return [own if isinstance(own, str) else name for own, name in zip(found, COLUMNS, strict=True)]


def samples(task: NextItem, dataset: Any) -> list[list[str]]:
    """A few sessions of the data, spread over it, by the names of their items; made up where there is none."""
    items = task.vocabularies["items"]
    held = _sessions(task, dataset)
    if held is None:
        rng = np.random.default_rng(0)
        rows = [rng.integers(1, len(items) + 1, length) for length in (1, 2, 3, 5, 8, task.max_length + 3)]
    else:
        count = min(SAMPLES, len(held))
        rows = [held.session(int(row)) for row in np.arange(count) * len(held) // max(count, 1)]
    return [[items.decode(int(number)) for number in row if number] for row in rows if row.any()]


def _sessions(task: NextItem, dataset: Any) -> Sessions | None:
    """The sessions behind a data set, or behind what a loader made of one."""
    if isinstance(dataset, Sessions):
        return dataset
    if isinstance(unwrap(dataset)[0], SessionData):
        bind(dataset, task.vocabularies)
        return sessions_of(dataset)
    held = getattr(dataset, "sessions", None)
    return held if isinstance(held, Sessions) else None


def prepared(task: NextItem, names: Sequence[str]) -> np.ndarray:
    """A session as evaluation reads it, int64 [T]: known items, the newest `max_length` of them, zeros behind to the
    next power of two or `max_length`."""
    numbers = task.vocabularies["items"].encode(names)
    known = numbers[numbers > 0][-task.max_length :]
    return np.pad(known, (0, min(task.max_length, 1 << (len(known) - 1).bit_length()) - len(known)))


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())
