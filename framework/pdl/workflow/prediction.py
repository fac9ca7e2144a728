"""A run in use: its model, opened once, answers for inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pdl.errors import UsageError
from pdl.runtime.use import Given, OnError, answered, items
from pdl.workflow.run import Run


class Predictor:
    """A run folder ready to predict: nothing but the folder is needed.

    weights   "best" or "last"; by default those the run's own test used
    options   of `Task.predict`, such as topk
    reader    what says what an input is; None where the task takes files, in a way of its own
    """

    def __init__(self, run: str | Path, *, weights: str | None = None, batch_size: int = 32, **options: Any) -> None:
        opened = Run.open(run).opened(weights)
        self.recipe, self.task, self.model = opened.recipe, opened.task, opened.model.eval()
        self.reader = self.task.reader(self.recipe)
        self.batch_size, self.options = batch_size, options

    def answers(
        self, inputs: Sequence[Any], *, save: str | Path | None = None, on_error: OnError = "raise"
    ) -> Iterator[dict[str, Any]]:
        """One dict for each input, in order; see `pdl.workflow.predict` and `pdl.runtime.use.predict`."""
        for each in self._answers(inputs, on_error):
            if save is not None:
                Path(save).mkdir(parents=True, exist_ok=True)
                each["saved"] = str(self.task.render(each, Path(save)))
            yield {name: value for name, value in each.items() if not name.startswith("_")}

    def _answers(self, inputs: Sequence[Any], on_error: OnError) -> Iterator[dict[str, Any]]:
        if self.reader is not None:
            found = answered(items(inputs, self.reader), self, self.batch_size, on_error)
            return (answer for _, _, answer in found)
        given = next((each for each in inputs if isinstance(each, Given)), None)
        if given is not None:
            raise UsageError(f"this model takes files, not a {given.kind}")
        return iter(self._predict(inputs))

    def batch(self, items: list[Any]) -> list[Any]:
        """The answers for items that the reader takes, without their names."""
        return [{name: value for name, value in each.items() if name != "input"} for each in self._predict(items)]

    def _predict(self, inputs: Sequence[Any]) -> Iterator[dict[str, Any]]:
        return self.task.predict(self.model, inputs, recipe=self.recipe, batch_size=self.batch_size, **self.options)


def predict(
    run: str | Path,
    inputs: Sequence[Any],
    *,
    batch_size: int = 32,
    weights: str | None = None,
    save: str | Path | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Use a run on inputs, from its folder alone. What an input may be, and `options` such as `topk`, are the task's.

    With `save` every prediction is drawn into that folder, and says where under "saved".
    """
    return list(Predictor(run, weights=weights, batch_size=batch_size, **options).answers(inputs, save=save))


__all__ = ["Predictor", "predict"]
