"""A model answers through the steps of its bundle, before there is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.readers import Reader
from pdl.runtime.session import answers
from pdl.runtime.use import answered, items
from pdl.tensor import as_tensor, no_grad

if TYPE_CHECKING:
    from pdl.export.deployment import Deployment


class Answering:
    """What a task would deploy, in use: a run and its bundle then say the same by construction.

    topk   of how many classes or items an answer tells, instead of the pipeline's own number
    """

    def __init__(self, told: Deployment, *, topk: int | None = None) -> None:
        steps = {"pre": told.pre, "post": told.post}
        pipeline = Pipeline.read(steps, told.labels, "this task", told.vocabularies, told.constants)
        if pipeline is None:
            raise UsageError("the task's deployment has no steps for inputs; it cannot answer for single ones")
        if topk is not None:
            pipeline.set(k=topk)
        self.pipeline, self.told = pipeline, told

    @property
    def reader(self) -> Reader | None:
        """What says what an input is; None where it is a picture."""
        return self.pipeline.reader

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """The outputs by name of a batch of inputs."""
        with no_grad():
            made = self.told.module(*(as_tensor(inputs[name]) for name in self.told.inputs))
        outputs = made if isinstance(made, tuple) else (made,)
        return {name: y.numpy() for name, y in zip(self.told.outputs, outputs, strict=True)}

    def batch(self, items: list[Any]) -> list[Any]:
        """The answers for several items, in order."""
        return answers(self.pipeline, items, self.run)

    def predict(self, inputs: Sequence[Any], batch_size: int) -> Iterator[dict[str, Any]]:
        """One dict for each input, as `Task.predict` gives it."""
        return (said for _, _, said in answered(items(inputs, self.reader), self, batch_size, "raise"))


__all__ = ["Answering"]
