"""`ParallelTrainer`: the training loop on every rank of a group, with one batch shared among all (data parallel).

Each rank takes its share of the samples of every batch, and the mean gradient over all samples is what every rank
updates its weights by: these stay equal, so only rank 0 writes anything. What a rank draws at random hangs on seed,
step and rank. Dean et al., 2012; Goyal et al., arXiv 1706.02677; Li et al., arXiv 2006.15704.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pdl import ops, random
from pdl.distributed.group import Group
from pdl.distributed.norms import SyncNorms
from pdl.distributed.reduction import Reduction
from pdl.distributed.sharding import ShardedOptimizer, check_elementwise
from pdl.errors import UsageError
from pdl.nn import Module
from pdl.program import Receiver
from pdl.tensor import Tensor
from pdl.train.loop import State, Trainer
from pdl.train.metrics import Mean
from pdl.train.settings import Distributed
from pdl.train.task import Loss
from pdl.version import __version__


class Elsewhere(KeyboardInterrupt):
    """Another rank was told to end."""

    def __init__(self) -> None:
        super().__init__("another process of this training was told to end")


class ParallelTrainer(Trainer):
    """A `Trainer` on each rank of `group`; batches, losses and steps are those of all ranks together.

    Hooks that write belong to rank 0 alone; those that may end the training belong to all.
    """

    def __init__(self, group: Group, settings: Distributed, *args: Any, **kwargs: Any) -> None:
        self.group = group
        self.receiver: Receiver = _Gradients(self)
        super().__init__(*args, **kwargs)
        self.learned = [p for p in self.model.parameters() if p.requires_grad]
        overlap = not group.one_machine if settings.overlap is None else settings.overlap
        self.reduction = Reduction(
            group,
            self.learned,
            wire=settings.wire,
            megabytes=settings.bucket_megabytes,
            overlap=overlap,
            gather=not settings.zero,
        )
        self.zero = bool(settings.zero)
        self._shards: ShardedOptimizer | None = None
        if self.zero:
            check_elementwise(self.optimizer)
        self.norms = SyncNorms(self.model if settings.sync_batch_norm else Module(), group)
        self.weighted = bool(self.norms.norms)
        self._agreed = False  # that a rank wants to end
        share(self.loaders["train"], group)
        check_same(self)
        for value in (*self.model.parameters(), *self.model.buffers()):
            group.broadcast(_contiguous(value))

    def fit(self) -> State:
        """As `Trainer` does; batch norms are over all ranks meanwhile."""
        with self.norms.joined():
            return super().fit()

    def step_batches(self) -> Iterator[list[Any]]:
        """The batches of this rank for each step, none where the others have more."""
        own = super().step_batches()
        while any(counts := self.group.rows(np.array([len(batches := next(own, []))]))[:, 0].tolist()):
            self.norms.begin(counts)
            yield batches

    def loss(self, batch: Any) -> Loss:
        """The training loss of one batch. Where norms are over all ranks, its gradient is times its weight: what comes
        from the losses of the others by way of the statistics must be as those weigh."""
        one = super().loss(batch)
        if not self.weighted:
            return one
        weight = one.weight
        if isinstance(weight, Tensor):
            weight = ops.reshape(ops.astype(weight.detach(), one.value.dtype), one.value.shape)
        nothing = one.value - one.value.detach()
        return replace(one, value=one.value + nothing * (weight - 1.0))

    def backward(self, batch: Any, *, alone: bool) -> Loss:
        """As `Trainer` does, together with the other ranks that have a batch."""
        self.norms.next_batch()
        return super().backward(batch, alone=alone)

    def gradients(self, batches: list[Any]) -> None:
        """The gradient of the mean loss over the samples of all ranks."""
        random.seed([self.settings.seed, self.state.step, self.group.rank])
        loss, parts = self.accumulated(batches)
        if not self.reduction.started:  # not taken from inside a compiled step
            used = [p.grad is not None for p in self.learned]
            self.reduction.begin(loss.weight, loss.compute(), used, stop=self.interruption is not None)
            for index, p in enumerate(self.learned):
                if p.grad is not None:
                    self.reduction.take(index, p.grad, weighted=self.weighted or len(batches) > 1)
        header = self.reduction.finish()
        self.norms.adopt()
        for index, p in enumerate(self.learned):
            p.grad = self.reduction.gradient(index)
        if self.zero:
            self.shards.take()
        self._agreed = header.stop
        mean = Mean()
        mean.update(self.finite(header.loss / (header.weight or 1.0), "loss"), header.weight)
        self.count(mean, parts)

    @property
    def shards(self) -> ShardedOptimizer:
        """The optimiser in pieces, from the first step on: then it is known what lies where."""
        if self._shards is None:
            self._shards = ShardedOptimizer(self.optimizer, self.reduction)
        return self._shards

    def updated(self) -> Iterable[Tensor]:
        """Parameters, or pieces of them."""
        return super().updated() if self._shards is None else self._shards.updated()

    def clip_scale(self, most: float) -> tuple[float, float]:
        """Of the whole gradient, wherever its pieces are."""
        return super().clip_scale(most) if self._shards is None else self._shards.clip_scale(most)

    def apply(self, scale: float) -> None:
        """On this rank's pieces; then all get the new weights."""
        super().apply(scale)
        if self._shards is not None:
            self._shards.spread()

    def agreed(self, flag: bool) -> bool:
        """Whether a rank says so: all of them are needed for a checkpoint of an optimiser in pieces."""
        return self.group.any(flag) if self.zero else flag

    def state_dict(self) -> dict[str, Any]:
        """That of one process; where the optimiser is in pieces, all ranks must ask."""
        tree = super().state_dict()
        return tree if self._shards is None else {**tree, "optimizer": self._shards.state_dict()}

    @property
    def leaving(self) -> BaseException | None:
        """What all ranks have agreed on."""
        if self._agreed and self.interruption is None:
            self.interruption = Elsewhere()
        return self.interruption if self._agreed else None

    def finish_epoch(self) -> None:
        """With the running statistics of all ranks."""
        average_buffers(self.model, self.group)
        super().finish_epoch()


class _Gradients:
    """Hands the gradients of compiled steps to the reduction."""

    def __init__(self, trainer: ParallelTrainer) -> None:
        self.trainer = trainer
        self.index: dict[int, int] = {}

    def begin(self, result: Any, parameters: list[Tensor]) -> None:
        """The header of a step."""
        trainer = self.trainer
        if not self.index:
            self.index = {id(p): i for i, p in enumerate(trainer.learned)}
        used = [False] * len(trainer.learned)
        for p in parameters:
            used[self.index[id(p)]] = True
        trainer.reduction.begin(
            float(result.weight), float(result.value.item()), used, stop=trainer.interruption is not None
        )

    def take(self, parameter: Tensor, gradient: Tensor) -> None:
        """One gradient."""
        self.trainer.reduction.take(self.index[id(parameter)], gradient, weighted=self.trainer.weighted)


def share(loader: Any, group: Group) -> None:
    """Let a loader give this rank its share of every batch."""
    if not hasattr(loader, "share"):
        raise UsageError(
            f"distributed: the batches of {type(loader).__name__} cannot be shared among processes (it has no method "
            "`share(rank, world)`); train this recipe with one process"
        )
    loader.share(group.rank, group.size)


def check_same(trainer: ParallelTrainer) -> None:
    """RankError where ranks do not train the same model on the same data."""
    names = [f"{name} {p.dtype.name} {p.shape}" for name, p in trainer.model.named_parameters()]
    loader = trainer.loaders["train"]
    trainer.group.check_same(
        {
            "version of pdl": __version__,
            "version of NumPy": np.__version__,
            "samples": str(_samples(loader)),
            "settings": repr(trainer.settings),
            "model": f"{len(names)} parameters, {_digest(names)}",
        }
    )


def _samples(loader: Any) -> Any:
    return loader.state_dict().get("samples") if hasattr(loader, "state_dict") else None


def average_buffers(model: Module, group: Group) -> None:
    """Put the mean over the ranks into every buffer of real numbers."""
    for buffer in model.buffers():
        if buffer.dtype.kind == "f" and buffer.size:
            values = _contiguous(buffer)
            values[...] = group.rows(values).mean(axis=0, dtype=np.float64).astype(values.dtype)


def _contiguous(value: Tensor) -> Any:
    if not value._data.flags.c_contiguous or not value._data.flags.writeable:
        value._data = np.array(value._data, order="C")
    return value._data


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


__all__ = ["ParallelTrainer", "average_buffers"]
