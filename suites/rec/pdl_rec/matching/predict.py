"""From users, histories or texts as people write them to recommended items."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.nn import Module
from pdl.ranking import Lists, top_k
from pdl.runtime.fields import known_row
from pdl.runtime.names import csv_line, filled
from pdl.runtime.readers import Reader
from pdl.suites import suggest
from pdl.tensor import no_grad
from pdl.train import Recipe
from pdl_rec.data.interactions import Interactions, interactions_of
from pdl_rec.data.sessions import bind
from pdl_rec.matching.deploy import given, pipeline
from pdl_rec.matching.loader import Histories
from pdl_rec.models.matching import MatchingModel

if TYPE_CHECKING:
    from pdl_rec.matching.task import Matching


def predict(
    task: Matching,
    model: Module,
    inputs: Sequence[Any],
    *,
    recipe: Recipe,
    batch_size: int,
    topk: int,
    repeat: bool | None,
) -> Iterator[dict[str, Any]]:
    """One dict for each input, in order."""
    if topk < 1 or batch_size < 1:
        raise UsageError(f"topk={topk} and batch_size={batch_size} must be at least 1")
    assert isinstance(model, MatchingModel)
    asking = Asking(task, model, recipe, leave_out=not (task.repeat if repeat is None else repeat))
    waiting = iter(inputs)
    model.eval()
    while group := list(islice(waiting, batch_size)):
        yield from _answers(task, model, asking, group, topk)


def _answers(
    task: Matching, model: MatchingModel, asking: Asking, group: Sequence[Any], topk: int
) -> Iterator[dict[str, Any]]:
    read = [asking.read(each) for each in group]
    query = {name: np.stack([one[0][name] for one in read]) for name in model.inputs}
    rows = np.repeat(np.arange(len(read)), [len(one[1]) for one in read])
    excluded = Lists.of_pairs(rows, np.concatenate([one[1] for one in read]), len(read))
    with no_grad():
        scores = task.scores(model, query, excluded)
    values, numbers = top_k(scores, topk)
    items = task.vocabularies["items"]
    for row, one in enumerate(group):
        best = [(int(i), float(s)) for i, s in zip(numbers[row], values[row], strict=True) if np.isfinite(s)]
        answers = [{"item": items.name(i), "score": s} for i, s in best]
        shown = csv_line(one) if isinstance(one, list | tuple) else str(one)
        yield {"input": shown, "items": answers, **read[row][2]}


class Asking:
    """How an input becomes a query.

    An input is the name of a user; or, where the model reads nothing but a history, the names of its items between
    commas (or a list of them); or, where it reads one field, its text; or a mapping (or its JSON, or, for a model that
    reads several things, "column=value,...") of "user", "history" and fields, as far as the model reads them. What is
    given is read by the bundle's own steps; of a user who is given by name the rest comes from the training data.
    """

    def __init__(self, task: Matching, model: MatchingModel, recipe: Recipe, *, leave_out: bool) -> None:
        self.task, self.model, self.recipe, self.leave_out = task, model, recipe, leave_out
        self.names, self.steps = given(model), pipeline(task, model).pre
        self._trained: tuple[Interactions, Histories] | None = None

    def read(self, item: Any) -> tuple[dict[str, np.ndarray], np.ndarray, dict[str, Any]]:
        """(the query's rows, numbers of items that are not to be recommended, what is worth telling)."""
        parts = self._parts(item)
        notes: dict[str, Any] = {}
        user = self._user(parts["user"]) if "user" in parts else 0
        query = {name: self._row(name, parts, user, notes) for name in self.model.inputs}
        seen = np.zeros(0, np.int64)
        if self.leave_out and "history" in query and "history" in parts:
            seen = query["history"][query["history"] > 0]
        elif self.leave_out and user:
            seen = self._seen(user, notes)
        return query, seen, notes

    def _parts(self, item: Any) -> Mapping[str, Any]:
        """The input as a mapping."""
        if isinstance(item, Mapping) or (isinstance(item, str) and self._is_row(item)):
            row = known_row(item, list(dict.fromkeys(["user", *self.names])))
            return {name: value for name, value in row.items() if value is not None}
        return {self.names[0] if len(self.names) == 1 else "user": item}

    def _is_row(self, text: str) -> bool:
        """Whether a text is JSON, or (where no one text is all that the model reads) "column=value,..."."""
        return text.lstrip().startswith("{") or (
            len(self.names) > 1 and "=" in text and text not in self.task.vocabularies["users"]
        )

    def _user(self, name: Any) -> int:
        if isinstance(name, Sequence) and not isinstance(name, str) and len(name) == 1:
            (name,) = name
        names = self.task.vocabularies["users"]
        number = int(names.numbers([str(name)])[0])
        if not number:
            near = suggest(str(name), names)
            raise DataError(f"user {name!r} is not among the {len(names):,} that training had{near}")
        return number

    def _row(self, name: str, parts: Mapping[str, Any], user: int, notes: dict[str, Any]) -> np.ndarray:
        if name == "user":
            if not user:
                raise UsageError("the model knows users by name; give one")
            return np.array(user)
        if name == "example_age":
            return np.zeros(1, np.float32)
        if name in parts or not user:
            (reader, *_) = self.steps[name]
            assert isinstance(reader, Reader)
            return reader.read(parts, notes)
        if name == "history":
            return filled(self._of_user(user)[-self.task.history :], self.task.history)
        width = self.model.user_fields[name][1]
        self._data()
        return filled(self.task.user_words[name][user][:width], width)

    def _data(self) -> tuple[Interactions, Histories]:
        """The training data of the run, opened when it is first needed."""
        if self._trained is None:
            dataset = self.recipe.data.datasets(("train",))["train"]
            bind(dataset, self.task.vocabularies)
            found = interactions_of(dataset)
            self.task.read_fields("train", found)
            self._trained = found, Histories.of(found, self.task.vocabularies["users"].size)
        return self._trained

    def _of_user(self, user: int) -> np.ndarray:
        histories = self._data()[1]
        return histories.items[histories.start[user] : histories.start[user + 1]]

    def _seen(self, user: int, notes: dict[str, Any]) -> np.ndarray:
        """What a user had in training; where the data is gone the answer says that it is not left out."""
        try:
            return self._of_user(user)
        except DataError as error:
            notes["note"] = f"items that the user had before are not left out: {error}"
            return np.zeros(0, np.int64)


def example(task: Matching, loaders: Mapping[str, Any]) -> str:
    """An input to try: of the first query of the test data as much as the model reads."""
    loader = loaders.get("test") or loaders.get("val") or loaders.get("train")
    batch: dict[str, Any] = {} if loader is None else next(iter(loader), {})
    query = batch.get("query", {})
    items, users = task.vocabularies["items"], task.vocabularies.get("users")
    reads = [name for name in query if name != "example_age"]
    if reads == ["history"]:
        return ",".join(items.name(int(i)) for i in query["history"][0][:5] if i)
    if len(reads) == 1 and reads[0] != "user":
        words = [task.vocabularies[reads[0]].name(int(i)) for i in query[reads[0]][0] if i]
        return shlex.quote(" ".join(words))
    return users.name(1) if users else "USER"


__all__ = ["Asking", "example", "predict"]
