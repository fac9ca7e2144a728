"""What of a model of matching goes into a bundle: users, histories and words by name in, items by name out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import UsageError
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.tensor import Tensor
from pdl.train import Deployer
from pdl_rec.data.interactions import interactions_of
from pdl_rec.data.sessions import bind
from pdl_rec.matching.loader import Histories, Queries
from pdl_rec.matching.users import Run, UserPipeline, example
from pdl_rec.models.matching import MatchingModel

if TYPE_CHECKING:
    from pdl_rec.matching.task import Matching

SAMPLES, ANSWERS = 8, 20
KINDS = {"user": "users", "history": "items"}
COLUMNS = ("user_id", "item_id", "timestamp")
"""Of a table of histories, as `pdl_rec.data.Atomic` names them."""


class ByPosition(Module):
    """The model with its inputs by position: users int64 [N, 1], histories and words int64 [N, T] -> scores. Examples
    have the age 0 (`given`: the names of the others)."""

    def __init__(self, model: MatchingModel) -> None:
        self.model, self.names = model, given(model)

    def forward(self, *arrays: Tensor) -> Tensor:
        query = dict(zip(self.names, arrays, strict=True))
        if "user" in query:
            query["user"] = query["user"][:, 0]
        if "example_age" in self.model.inputs:
            query["example_age"] = pdl.astype(arrays[0][:, :1], pdl.float32) * 0.0
        made: Tensor = self.model(query)
        return made


def given(model: MatchingModel) -> list[str]:
    """The inputs that people give: all but the age of an example."""
    return [name for name in model.inputs if name != "example_age"]


def steps(task: Matching, model: MatchingModel) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Names to numbers before the net, each input by a separate step; scores to names after it."""
    names = given(model)
    top: dict[str, Any] = {"step": "top_names", "vocabulary": "items", "k": ANSWERS, "one": "item", "many": "items"}
    if "history" in names and not task.repeat:
        top["exclude"] = "history"
    return {"pre": {name: [_input(task, model, name, names)] for name in names}, "post": {"scores": [top]}}


def _input(task: Matching, model: MatchingModel, name: str, names: list[str]) -> dict[str, Any]:
    part, length = {"part": name, "parts": names}, _width(task, model, name)
    if name in KINDS:
        about = {"step": "session", "vocabulary": KINDS[name], "max_length": length, "lengths": [length], **part}
        return {**about, "columns": list(COLUMNS)} if names == ["history"] else about
    spelling = {} if task.trigrams is None else {"trigrams": task.trigrams}
    return {"step": "words", "vocabulary": name, "length": length, **part, **spelling}


def _width(task: Matching, model: MatchingModel, name: str) -> int:
    """Numbers of each row of an input. Histories have the length of training: some encoders see what pads them."""
    return 1 if name == "user" else task.history if name == "history" else int(model.user_fields[name][1])


class MatchingDeployer(Deployer):
    """Scores of all items for users, or for histories, words or both; the best by name afterwards."""

    task: Matching

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        assert isinstance(model, MatchingModel)
        names = given(model)
        if "user" in names and len(names) > 1:
            reads = f"{type(model).__name__} reads {', '.join(names)}"
            raise UsageError(f"{reads}; a bundle takes a user alone, or no user")
        return self._deployment(model, dataset)

    def predictor(self, model: Module) -> Run:
        """A run knows its users: what they had is left out, and a model of histories or fields takes users, too."""
        assert isinstance(model, MatchingModel)
        bundled = self._deployment(model)
        assert bundled.pipeline is not None
        return Run(UserPipeline(bundled.pipeline, self.task, self.recipe), bundled.run)

    def _deployment(self, model: MatchingModel, dataset: Any = None) -> Deployment:
        task, names, n = self.task, given(model), Dim.symbol("n", 3)
        around, kinds = steps(task, model), sorted({"items", *(KINDS.get(name, name) for name in names)})
        return Deployment(
            module=ByPosition(model),
            inputs={name: Spec((n, _width(task, model, name)), int64) for name in names},
            outputs=("scores",),
            pre=around["pre"],
            post=around["post"],
            samples=samples(task, model, dataset),
            vocabularies={kind: task.vocabularies[kind] for kind in kinds},
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        assert isinstance(model, MatchingModel)
        task, names = self.task, given(model)
        fits = f"Which items fit a given {' with '.join(names)} ({self.recipe.model.target}). {_seen(task, names)}"
        return Card(
            title=f"{type(model).__name__}, {len(task.vocabularies['items']):,} items",
            summary=fits.rstrip(),
            protocol=task.protocol(),
            use=f'    session = pdl.runtime.load("model.pdl")\n    session({_example(task, names)!r})["items"]',
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """Of the first query of the test data as much as the model reads."""
        return example(self.task, loaders)


# -- samples -----------------------------------------------------------------------------------------------------------
def samples(task: Matching, model: MatchingModel, dataset: Any) -> list[Any]:
    """A few users of the vocabulary; or what is known of some users of the data, made up where there is none."""
    names = given(model)
    if names == ["user"]:
        return [[each] for each in task.vocabularies["users"].names[:SAMPLES]]
    found = _made_up(task, names) if dataset is None else _of_data(task, names, dataset)
    return [_alone(*row.items()) if len(names) == 1 else row for row in found]


def _alone(one: tuple[str, list[str]]) -> Any:
    """A history as it is; a text as one."""
    return one[1] if one[0] == "history" else " ".join(one[1])


def _of_data(task: Matching, names: list[str], dataset: Any) -> list[dict[str, list[str]]]:
    source = dataset.dataset if isinstance(dataset, Queries) else dataset
    bind(source, task.vocabularies)
    data = interactions_of(source)
    known = data if data.known is None else data.known
    size = 1 + int(max(data.users.max(initial=0), known.users.max(initial=0)))
    tables = {name: data.user_fields[name] for name in names if name not in KINDS}
    if "history" in names:
        tables["history"] = Histories.of(known, size).newest(np.arange(size), task.history)
    users = np.unique(data.users[data.users > 0])
    rows = [{name: _names(task, name, tables[name][user]) for name in names} for user in users]
    whole = [row for row in rows if len(names) > 1 or all(row.values())]
    return [whole[at * len(whole) // SAMPLES] for at in range(min(SAMPLES, len(whole)))]


def _made_up(task: Matching, names: list[str]) -> list[dict[str, list[str]]]:
    rng = np.random.default_rng(0)
    sizes = {name: len(task.vocabularies[KINDS.get(name, name)]) + 1 for name in names}
    counts = {name: (1, 2, 3, 5, 8) if name == "history" else (1,) * 5 for name in names}
    return [
        {name: _names(task, name, rng.integers(1, sizes[name], counts[name][row])) for name in names}
        for row in range(5)
    ]


def _names(task: Matching, name: str, numbers: np.ndarray) -> list[str]:
    known = task.vocabularies[KINDS.get(name, name)]
    return [known.decode(int(number)) for number in numbers if number]


# -- words -------------------------------------------------------------------------------------------------------------
def _seen(task: Matching, names: list[str]) -> str:
    """What becomes of items that one had before."""
    if names == ["user"]:
        return "Items that a user had in training are among the answers: a bundle does not hold who had what."
    return "Items of the history are not recommended again." if "history" in names and not task.repeat else ""


def _example(task: Matching, names: list[str]) -> Any:
    """An input to try."""
    if names == ["user"]:
        return task.vocabularies["users"].names[0]
    row = {name: ("," if name == "history" else " ").join(words) for name, words in _made_up(task, names)[1].items()}
    return next(iter(row.values())) if len(names) == 1 else row


def by_port(session: Any, query: Mapping[str, np.ndarray]) -> list[Tensor]:
    """A query as the inputs of a bundle, in their order."""
    found = {name: value[:, None] if name == "user" else value for name, value in query.items()}
    return [pdl.as_tensor(found[port.name]) for port in session.inputs]
