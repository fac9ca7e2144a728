"""A run knows the users that it was trained on: what they had is not recommended to them again, and of a user who is
given by name the rest of what the model reads comes from the training data."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.runtime.fields import known_row
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Sample
from pdl.suites import suggest
from pdl.train import Recipe
from pdl_rec.data.interactions import Interactions, interactions_of
from pdl_rec.data.sessions import bind
from pdl_rec.matching.loader import Histories

if TYPE_CHECKING:
    from pdl_rec.matching.task import Matching


@dataclass(frozen=True)
class Run:
    """What a run answers by: the pipeline of its bundle with its users, and the model."""

    pipeline: UserPipeline
    run: Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


class UserPipeline(Pipeline):
    """The pipeline of the bundle, for inputs that may name a user.

    An input is the name of a user; or, where the model reads nothing but a history, the names of its items between
    commas (or a list of them); or, where it reads one field, its text; or a mapping (or its JSON, or, for a model that
    reads several things, "column=value,...") of "user", "history" and fields, as far as the model reads them. What is
    given is read by the bundle's own steps.
    """

    def __init__(self, pipeline: Pipeline, task: Matching, recipe: Recipe) -> None:
        self.inputs, self.pre, self.post = pipeline.inputs, pipeline.pre, pipeline.post
        self.task, self.recipe = task, recipe

    def parse(self, item: Any) -> Sample:
        """The inputs of the net, and the items that the user had before."""
        row = self._row(item)
        if "user" in self.inputs and "user" not in row:
            raise UsageError("the model knows users by name; give one")
        user = self._user(row["user"]) if "user" in row else 0
        read = {name: row[name] for name in self.inputs if name in row}
        read |= {name: self._own(name, user) for name in self.inputs if user and name not in row}
        sample = super().parse(read)
        if user and not self.task.repeat and "history" not in row:
            self._exclude(user, sample)
        return sample

    def _row(self, item: Any) -> Mapping[str, Any]:
        """The input as a mapping."""
        names = list(self.inputs)
        if isinstance(item, Mapping) or (isinstance(item, str) and self._is_row(item, names)):
            row = known_row(item, list(dict.fromkeys(["user", *names])))
            return {name: value for name, value in row.items() if value is not None}
        return {names[0] if len(names) == 1 else "user": item}

    def _is_row(self, text: str, names: Sequence[str]) -> bool:
        """Whether a text is JSON, or (where no one text is all that the model reads) "column=value,..."."""
        several = len(names) > 1 and "=" in text and text not in self.task.vocabularies["users"]
        return several or text.lstrip().startswith("{")

    def _user(self, name: Any) -> int:
        if isinstance(name, Sequence) and not isinstance(name, str) and len(name) == 1:
            (name,) = name
        names = self.task.vocabularies["users"]
        number = int(names.encode([str(name)])[0])
        if not number:
            near = suggest(str(name), names)
            raise DataError(f"user {name!r} is not among the {len(names):,} that training had{near}")
        return number

    def _own(self, name: str, user: int) -> list[str]:
        """What the training data says of a user, by names."""
        if name == "user":
            return [self.task.vocabularies["users"].decode(user)]
        numbers = self._history(user) if name == "history" else self._trained[0].user_fields[name][user]
        known = self.task.vocabularies["items" if name == "history" else name]
        return [known.decode(int(number)) for number in numbers if number]

    def _exclude(self, user: int, sample: Sample) -> None:
        """What a user had in training; where the data is gone the answer says that it is not left out."""
        try:
            sample.excluded = self._history(user)
        except DataError as error:
            sample.notes["note"] = f"items that the user had before are not left out: {error}"

    def _history(self, user: int) -> np.ndarray:
        histories = self._trained[1]
        return histories.items[histories.start[user] : histories.start[user + 1]]

    @cached_property
    def _trained(self) -> tuple[Interactions, Histories]:
        """The training data of the run, opened when it is first needed."""
        dataset = self.recipe.data.datasets(("train",))["train"]
        bind(dataset, self.task.vocabularies)
        found = interactions_of(dataset)
        self.task.read_fields("train", found)
        return found, Histories.of(found, len(self.task.vocabularies["users"]) + 1)


def example(task: Matching, loaders: Mapping[str, Any]) -> str:
    """An input to try: of the first query of the test data as much as the model reads."""
    loader = loaders.get("test") or loaders.get("val") or loaders.get("train")
    batch: dict[str, Any] = {} if loader is None else next(iter(loader), {})
    query = batch.get("query", {})
    items, users = task.vocabularies["items"], task.vocabularies.get("users")
    reads = [name for name in query if name != "example_age"]
    if reads == ["history"]:
        return ",".join(items.decode(int(i)) for i in query["history"][0][:5] if i)
    if len(reads) == 1 and reads[0] != "user":
        words = [task.vocabularies[reads[0]].decode(int(i)) for i in query[reads[0]][0] if i]
        return shlex.quote(" ".join(words))
    return users.decode(1) if users else "USER"
