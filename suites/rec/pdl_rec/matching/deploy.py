"""What of a model of matching goes into a bundle: users or histories by name in, items by name out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import UsageError
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.tensor import Tensor
from pdl.train import Deployment
from pdl_rec.models.matching import MatchingModel

if TYPE_CHECKING:
    from pdl_rec.matching.task import Matching

SAMPLES, ANSWERS = 8, 20
KINDS = {"user": "users", "history": "items"}


class ByPosition(Module):
    """The model with its one input by position: users int64 [N, 1], or histories int64 [N, T] -> scores."""

    def __init__(self, model: MatchingModel) -> None:
        self.model, self.name = model, model.inputs[0]

    def forward(self, given: Tensor) -> Tensor:
        made: Tensor = self.model({self.name: given[:, 0] if self.name == "user" else given})
        return made


def deployment(
    task: Matching,
    model: Module,
    cfg: Any,
    *,
    dataset: Any = None,
    metrics: Mapping[str, float | None] | None = None,
    licence: str = "",
) -> Deployment:
    """Scores of all items for users, or for histories of any length; the best by name afterwards. UsageError for a
    model that reads fields: no step makes their numbers of what people write."""
    assert isinstance(model, MatchingModel)
    if len(model.inputs) != 1 or model.inputs[0] not in KINDS:
        reads = ", ".join(model.inputs)
        raise UsageError(f"{type(model).__name__} reads {reads}; a bundle of matching takes a user or a history alone")
    (name,) = model.inputs
    length = 1 if name == "user" else task.history
    top: dict[str, Any] = {"step": "top_items", "vocabulary": "items", "k": ANSWERS}
    if name == "history" and not task.repeat:
        top["exclude"] = name
    columns = Spec((Dim.symbol("n", 3), 1 if name == "user" else Dim.symbol("t", 4)), int64)
    return Deployment(
        module=ByPosition(model),
        inputs={name: columns},
        outputs=("scores",),
        pre={name: [{"step": "session", "vocabulary": KINDS[name], "max_length": length}]},
        post={"scores": [top]},
        samples=_samples(task, name, dataset),
        prepare=lambda names: {name: _prepared(task, name, names, length)},
        vocabularies={kind: task.vocabularies[kind] for kind in sorted({"items", KINDS[name]})},
        card=_card(task, model, cfg, metrics or {}, licence),
        licence=licence,
        about={
            "task": cfg["task"]["_target_"],
            "model": cfg["model"]["_target_"],
            "parameters": sum(p.size for p in model.parameters()),
        },
        options={"repeat": True} if name == "user" else {},  # a bundle does not hold who had what
    )


def _samples(task: Matching, name: str, dataset: Any) -> list[list[str]]:
    """A few users of the vocabulary, or histories of the data; made up where there is none."""
    names = task.vocabularies[KINDS[name]]
    if name == "user":
        return [[each] for each in names.names[:SAMPLES]]
    rows: Any = [np.random.default_rng(0).integers(1, names.size, n) for n in (1, 2, 3, 5, 8)]
    users = getattr(dataset, "users", None)
    if users is not None and len(users):
        some = users[np.arange(SAMPLES) * len(users) // SAMPLES]
        rows = [row for row in dataset.histories.newest(some, task.history) if row.any()] or rows
    return [[names.name(int(i)) for i in row if i] for row in rows]


def _prepared(task: Matching, name: str, names: list[str], length: int) -> np.ndarray:
    """What the bundle's reader makes of names: known ones, the newest `length`, zeros behind to a power of two."""
    numbers = task.vocabularies[KINDS[name]].numbers(names)
    known = numbers[numbers > 0][-length:]
    return np.pad(known, (0, min(length, 1 << (len(known) - 1).bit_length()) - len(known)))


def _card(task: Matching, model: MatchingModel, cfg: Any, metrics: Mapping[str, float | None], licence: str) -> str:
    """The model card, in markdown."""
    (name,) = model.inputs
    names = task.vocabularies[KINDS[name]].names
    source = cfg["data"].get("train") or {}
    measured = {key: value for key, value in metrics.items() if key.startswith(("test/", "val/"))}
    rows = [f"| {key} | {'-' if value is None else f'{value:.4f}'} |" for key, value in measured.items()]
    table = "\n".join(["| metric | value |", "|---|---|", *rows])
    asked = names[0] if name == "user" else ",".join(names[:2])
    seen = (
        "Items that a user had in training are among the answers: a bundle does not hold who had what."
        if name == "user"
        else "Items of the history are not recommended again."
    )
    parts = [
        f"# {type(model).__name__}, {len(task.vocabularies['items']):,} items",
        f"Which items fit a {name} ({cfg['model']['_target_']}). {seen}",
        "## Data",
        f"Trained on {source.get('_target_', 'data that the recipe names')} {source.get('name', '')}; config.yaml in "
        "this bundle holds the whole recipe.",
        "## Metrics",
        f"{task.protocol()}\n\n{table}" if rows else "Not measured.",
        "## Licence",
        licence or "Not stated: ask whoever gave you this file.",
        "## Use",
        f'    session = pdl.runtime.load("model.pdl")\n    session("{asked}")["items"]',
    ]
    return "\n\n".join(parts) + "\n"


def by_port(session: Any, query: Mapping[str, np.ndarray]) -> list[Tensor]:
    """A query as the inputs of a bundle, in their order."""
    given = {name: value[:, None] if name == "user" else value for name, value in query.items()}
    return [pdl.as_tensor(given[port.name]) for port in session.inputs]


__all__ = ["ByPosition", "by_port", "deployment"]
