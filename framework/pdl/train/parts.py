"""Parts of a task besides training: `Deployer` and `Reporter`, and `SmokeTest`, by which its recipes are cut down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pdl.errors import UsageError
from pdl.nn import Module
from pdl.report import Card, Section
from pdl.runtime.predict import Predictor

if TYPE_CHECKING:
    from pdl.export.systems import Composed
    from pdl.train.loop import Evaluation
    from pdl.train.recipe import Recipe


class Deployer:
    """What a task's models are outside of training: a bundle, a card, an answer. A subclass must define `deployment`.

    One is made for a task and the recipe of its run; a subclass declares `task: ItsTask`.
    """

    task: Any
    recipe: Recipe
    forms: ClassVar[Mapping[str, str]] = {}
    """Other forms in which models can be exported (`pdl export --form`), with what they are; `chosen` is the one to
    export, "" the usual one."""

    def __init__(self, task: Any, recipe: Recipe) -> None:
        self.task, self.recipe, self.chosen = task, recipe, ""

    def choose(self, form: str) -> None:
        """Export in this form; UsageError where there is none of that name."""
        if form and form not in self.forms:
            have = "; ".join(f"{name}: {what}" for name, what in self.forms.items()) or "none"
            raise UsageError(f"--form {form}: models of {type(self.task).__name__} have other forms: {have}")
        self.chosen = form

    def deployment(self, model: Module, dataset: Any = None) -> Predictor:
        """The `pdl.export.Deployment` of a model, without its card.

        dataset   whose first samples the bundle is checked with; without one random ones are used
        """
        raise NotImplementedError(f"{type(self).__name__} must define deployment")

    def composed(self, model: Module, dataset: Any, values: Mapping[str, Sequence[str]]) -> Composed | None:
        """The system of several programs that the chosen form is, with these values of options; None of forms that are
        one (`deployment`)."""
        return None

    def card(self, model: Module) -> Card:
        """What the model card says besides metrics and licence."""
        return Card(type(model).__name__, f"A model of {self.recipe.model.target}.", data=self.learned_from)

    @property
    def learned_from(self) -> str:
        """The data set of the recipe, in a sentence, with the address that the recipe gives."""
        source = self.recipe.data.source
        given = () if source is None else (source.get("name") or source.get("path"), source.get("address"))
        named = ", ".join(str(each) for each in given if each)
        return "" if source is None else f"Learned from {source.target}{f' ({named})' if named else ''}."

    def predictor(self, model: Module) -> Predictor:
        """What a run answers with (`pdl predict RUN`): what its bundle would, unless a run knows more than that."""
        return self.deployment(model)

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """An input for a first `pdl predict RUN INPUT`, as one types it in a shell; a file made for it may be left in
        the run folder."""
        return "INPUT"


class Reporter:
    """Sections of report.html beyond the result, curves and tables that every task has; a subclass declares
    `task: ItsTask`."""

    task: Any

    def __init__(self, task: Any) -> None:
        self.task = task

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        """On the final evaluation; `dataset` is what was evaluated."""
        return []

    def log_sections(self, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
        """On the log (the lines of metrics.jsonl), beyond a chart for each metric."""
        return []


@dataclass(frozen=True)
class SmokeTest:
    """What `pdl selftest` makes of a recipe so that all of it takes seconds.

    train, test   samples of the training data, and of each other split
    epochs        passes over them
    batch_size    at most so many samples in a step
    settings      further settings by dotted key, such as {"model.depth": 2}
    """

    train: int = 192
    test: int = 40
    epochs: int = 8
    batch_size: int = 32
    settings: Mapping[str, Any] = field(default_factory=dict)
