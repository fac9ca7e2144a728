"""A net that learns from another one: the task's own loss, and how far the net's outputs and maps are from the
teacher's for the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pdl import ops
from pdl.errors import ConfigError, UsageError
from pdl.nn import Module
from pdl.tensor import Tensor, no_grad
from pdl.train.compression import Distillation
from pdl.train.task import Loss, Task


class Distilled:
    """`task.step` with the teacher's part: what the trainer calls where a recipe has `compress.distil`.

    teacher   called with what the task gives the net, never learned; its outputs are those of the net. Where the task
              does not call its net, as that of detectors, the teacher makes the same step, and features alone are
              compared

    ConfigError where a module that `features` names is not there.
    """

    def __init__(self, settings: Distillation, teacher: Module, model: Module) -> None:
        self.settings, self.teacher = settings, teacher.eval().requires_grad_(False)
        self.pairs = [
            (_module(model, ours, "the net"), _module(teacher, theirs, "the teacher"))
            for ours, theirs in (settings.features or {}).items()
        ]

    def __call__(self, task: Task, model: Module, batch: Any) -> Loss:
        """The loss of one batch, differentiable, with its parts "task", "teacher" and "features"."""
        settings = self.settings
        with heard([model, *(ours for ours, _ in self.pairs)]) as asked:
            loss = task.step(model, batch)
        calls = asked.pop(id(model), [])
        if not (calls or self.pairs):
            raise UsageError(
                f"compress.distil: {type(task).__name__} asks its net by other ways than calling it, so there are no "
                "outputs to compare with a teacher's; name features, and a run as the teacher"
            )
        value, parts = loss.value, {**loss.parts, "task": loss.value.detach()}
        teachers, features = [], []
        with no_grad(), heard([theirs for _, theirs in self.pairs]) as shown:
            answers = [self.teacher(*(x.detach() if isinstance(x, Tensor) else x for x in args)) for args, _ in calls]
            if not calls:
                task.step(self.teacher, batch)
        for (_, ours), theirs in zip(calls, answers, strict=True):
            teachers.append(divergence(_logits(ours), _logits(theirs).detach(), settings.temperature))
        if teachers:
            parts["teacher"] = _mean(teachers).detach()
            value = (1 - settings.weight) * value + settings.weight * (_mean(teachers) * settings.temperature**2)
        for one, two in self.pairs:
            for (_, ours), (_, theirs) in zip(asked[id(one)], shown[id(two)], strict=True):
                features.append(attention_distance(ours, theirs.detach()))
        if features:
            value = value + settings.feature_weight * _mean(features)
            parts["features"] = _mean(features).detach()
        return replace(loss, value=value, parts=parts)


def divergence(logits: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL(softmax(teacher / T), softmax(logits / T)), the mean over rows: logits, teacher [..., C], C classes."""
    if logits.shape != teacher.shape:
        raise ConfigError(
            f"compress.distil: the teacher's outputs are {teacher.shape}, the net's {logits.shape}; a teacher "
            "answers the same question, about the same classes"
        )
    wanted = ops.softmax(teacher * (1 / temperature))
    apart = ops.log_softmax(teacher * (1 / temperature)) - ops.log_softmax(logits * (1 / temperature))
    return ops.mean(ops.sum(wanted * apart, axis=-1))


def attention_distance(ours: Tensor, theirs: Tensor) -> Tensor:
    """The mean square of the difference of two normed maps: of x [N, ..., C] the sum of squares over channels, divided
    by its norm over places (arXiv 1612.03928, equation 2)."""
    if not isinstance(ours, Tensor) or ours.ndim < 3 or ours.shape[:-1] != theirs.shape[:-1]:
        raise ConfigError(
            f"compress.distil.features: maps of {getattr(ours, 'shape', type(ours).__name__)} and {theirs.shape} are "
            "not of the same places; expected [N, ..., channels] with the same sizes but channels"
        )
    return ops.mean(ops.square(_map(ours) - _map(theirs)))


def _map(x: Tensor) -> Tensor:
    energy = ops.reshape(ops.sum(ops.square(x), axis=-1), (x.shape[0], -1))
    return energy * ops.rsqrt(ops.sum(ops.square(energy), axis=-1, keepdims=True) + 1e-12)


def _mean(values: list[Tensor]) -> Tensor:
    total = values[0]
    for each in values[1:]:
        total = total + each
    return total * (1 / len(values))


def _logits(made: Any) -> Tensor:
    """The first tensor of an answer; of a net with auxiliary classifiers its own."""
    made = getattr(made, "logits", made)
    while isinstance(made, tuple | list) and made:
        made = made[0]
    if not isinstance(made, Tensor):
        raise ConfigError(f"compress.distil: the answers of {type(made).__name__} are no tensor of logits")
    return made


def _module(owner: Module, path: str, whose: str) -> Module:
    try:
        return owner.get_submodule(path)
    except UsageError as error:
        raise ConfigError(f"compress.distil.features: {whose}: {error}") from None


@contextmanager
def heard(modules: list[Module]) -> Iterator[dict[int, list[tuple[tuple[Any, ...], Any]]]]:
    """What modules are called with and answer inside the block, by their id."""
    found: dict[int, list[tuple[tuple[Any, ...], Any]]] = {id(module): [] for module in modules}

    def hear(module: Module, args: tuple[Any, ...], answer: Any) -> None:
        found[id(module)].append((args, answer))

    handles = [module.register_forward_hook(hear) for module in modules]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
