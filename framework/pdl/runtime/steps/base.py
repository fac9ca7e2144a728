"""What all steps of a pipeline have in common.

A step is a class: its `name` is its name in pipeline.json, the arguments of its `__init__` are its keys there, plain
values that it checks. The first step of an input is an `InputStep`, behind it stand any number of `PreStep`s
(`inputs.py`); the outputs of the net go through `PostStep`s, the last of which gives the answer (`outputs.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.suites import suggest
from pdl.vocabulary import Vocabulary


@dataclass(frozen=True)
class Resources:
    """What steps may use besides their arguments.

    labels        names of classes, in the order of their numbers
    vocabularies  by name
    constants     arrays by name
    memory        objects by name that no bundle holds, such as the data that a run was trained on: a run hands them to
                  its own steps
    """

    labels: Sequence[str] = ()
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)

    def check_vocabulary(self, name: str, step: str) -> None:
        """UsageError, for a step of this name, where there is no such vocabulary."""
        if name not in self.vocabularies:
            have = ", ".join(self.vocabularies) or "none"
            raise UsageError(f"{step}: no vocabulary {name!r:.60}; there are: {have}")


class Step:
    """A step of a pipeline."""

    name: ClassVar[str] = ""

    def bind(self, resources: Resources) -> None:
        """Take what the step needs; called once, before it is used. UsageError where something is not there."""


class NamesOf(Step):
    """A step that reads or writes the names of a vocabulary; its argument `vocabulary` says of which."""

    vocabulary: str
    _resources: Resources

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        resources.check_vocabulary(self.vocabulary, self.name)
        self._resources = resources

    @property
    def names(self) -> Vocabulary:
        """The vocabulary, which is parsed at its first use."""
        return self._resources.vocabularies[self.vocabulary]

    def hint(self, name: str) -> str:
        """`; did you mean 'x'?` for a name that is not known; empty where none is near."""
        return suggest(name, self.names)
