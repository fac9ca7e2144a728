"""`ParallelTrainer`: the training loop on every rank of a group, with one batch shared among all (data parallel).

Each rank takes its share of the samples of every batch, and the mean gradient over all samples is what every rank
updates its weights by: these stay equal, so only rank 0 writes anything. What a rank draws at random hangs on seed,
step and rank. Dean et al., 2012; Goyal et al., arXiv 1706.02677; Li et al., arXiv 2006.15704.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pdl import ops, random
from pdl.distributed.averaging import average, average_state
from pdl.distributed.compression import Compressor
from pdl.distributed.group import Group
from pdl.distributed.norms import SyncNorms
from pdl.distributed.reduction import Header, Reduction, told, used_anywhere
from pdl.distributed.sharding import ShardedOptimizer, check_elementwise
from pdl.distributed.stragglers import Stragglers
from pdl.distributed.weights import ShardedEMA, ShardedWeights
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.nn import Embedding, Module
from pdl.program import Program, Receiver, StepProgram, Value
from pdl.program.feeding import Feed
from pdl.tensor import Tensor
from pdl.train.loop import Outcomes, State, Trainer
from pdl.train.metrics import Mean
from pdl.train.settings import Distributed
from pdl.train.shared_evaluation import SharedOutcomes
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
        self.zero, self.local_steps = settings.zero, settings.local_steps
        self.receiver: Receiver | None = None
        if settings.compress is None and self.local_steps == 1:
            self.receiver = _Gradients(self)
        check_together(settings)
        self.feeder = self if self.zero == 3 else None
        super().__init__(*args, **kwargs)
        self.options = settings
        self.reduce([p for p in self.model.parameters() if p.requires_grad and not served(p)])
        self._shards: ShardedOptimizer | None = None
        if self.zero:
            check_elementwise(self.optimizer)
        self.weights = ShardedWeights(self.reduction) if self.zero == 3 else None
        self.together = False  # whether all ranks run the same ops in the step under way
        if self.weights is not None and self.ema is not None:
            self.ema = ShardedEMA(self.ema, self.weights)
        if self.zero > 1 and self.settings.accumulate > 1:
            self.notes.append("train.accumulate: the gradients of several batches are summed whole on each process")
        self.compressor = self._compressor(settings)
        over_all = settings.sync_batch_norm and self.local_steps == 1
        self.norms = SyncNorms(self.model if over_all else Module(), group)
        self.weighted = bool(self.norms.norms)
        self._agreed = False  # that a rank wants to end
        self._met, self._owed = True, False  # after local steps: ranks are equal; a checkpoint is due
        self.stragglers = Stragglers(group.hosts, settings.straggler)
        self.own = 0.0  # seconds of the latest step, from one exchange to the next, without those of waiting
        self._lap = (time.perf_counter(), group.waited)
        share(self.loaders["train"], group)
        check_same(self)
        for value in (*(p for p in self.model.parameters() if not served(p)), *self.model.buffers()):
            group.broadcast(_contiguous(value))

    def reduce(self, learned: list[Tensor]) -> None:
        """From now on the gradients of these parameters are summed over the ranks."""
        settings = self.options
        overlap = not self.group.one_machine if settings.overlap is None else settings.overlap
        self.learned = learned
        self.reduction = Reduction(
            self.group,
            learned,
            wire=settings.wire,
            megabytes=settings.bucket_megabytes,
            overlap=overlap,
            gather=not self.zero,
            sparse=tables_of(self.model, learned, sparse=True) if self.zero > 1 else None,
            tables=tables_of(self.model, learned, sparse=False) if self.zero == 3 else (),
        )

    def fit(self) -> State:
        """As `Trainer` does; batch norms are over all ranks meanwhile."""
        with self.norms.joined():
            return super().fit()

    @property
    def outcomes(self) -> Outcomes:
        """Each rank computes a part of them."""
        return SharedOutcomes(self.group)

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

    def program_for(self, batch: Any) -> StepProgram | None:
        """As that of `Trainer`; the ranks tell each other."""
        program = super().program_for(batch)
        self._meet(program)
        return program

    def _meet(self, program: StepProgram | None) -> None:
        """Find out whether all ranks are about to run the same ops; otherwise each has whole weights."""
        if self.zero > 1:
            orders = self.group.rows(np.array([0 if program is None else program.order]))
            self.together = bool(orders.all() and (orders == orders[0]).all())
            if self.weights is not None and not self.together:
                self.weights.restore()

    def prepare(self, program: Program) -> None:
        """Let a program ask the other ranks for rows of large tables."""
        assert self.weights is not None
        self.weights.prepare(program)

    def feeds(self, program: Program) -> dict[Value, Feed]:
        """The weights of a program, which it gets from all ranks while it runs."""
        assert self.weights is not None
        return self.weights.feeds(program)

    def gradients(self, batches: list[Any]) -> None:
        """The gradient of the mean loss over the samples of all ranks."""
        random.seed([self.settings.seed, self.state.step, self.group.rank])
        if self.weights is not None:
            self.weights.take()
        if self.zero > 1:
            self.shards  # noqa: B018 - before weights are needed
        loss, parts = self.accumulated(batches)
        for _ in range(max(self.norms.counts) - len(batches)):  # of the others
            self._meet(None)
        if self.weights is not None:
            self.weights.release()
        times = self.weighted or len(batches) > 1  # whether gradients are times their weights
        if self.compressor is not None:
            header = self._compressed(loss, times)
        elif self.local_steps > 1:
            header = self._local(loss, times)
        else:
            header = self._reduced(loss, times)
        now = (time.perf_counter(), self.group.waited)
        self.own, self._lap = now[0] - self._lap[0] - (now[1] - self._lap[1]), now
        for line in self.stragglers.see(header.seconds):
            self.emit("on_message", line)
        self.norms.adopt()
        self._agreed = header.stop and self._meets
        if self.tables is not None:
            self.tables.share = (1.0 if times else loss.weight) / (header.weight or 1.0)
        mean = Mean()
        mean.update(self.finite(header.loss / (header.weight or 1.0), "loss"), header.weight)
        self.count(mean, parts)

    # -- ways of gradients ---------------------------------------------------------------------------------------------
    def _reduced(self, loss: Mean, times: bool) -> Header:
        """`grad` becomes the mean over all samples."""
        if not self.reduction.started:  # not taken from inside a compiled step
            used = [p.grad is not None for p in self.learned]
            stop = self.interruption is not None
            self.reduction.begin(loss.weight, loss.compute(), used, stop=stop, seconds=self.own)
            for index, p in enumerate(self.learned):
                if p.grad is not None:
                    self.reduction.take(index, p.grad, weighted=times)
        header = self.reduction.finish()
        for index, p in enumerate(self.learned):
            p.grad = self.reduction.gradient(index)
        if self.zero:
            self.shards.take()
        return header

    def _compressed(self, loss: Mean, times: bool) -> Header:
        """`grad` becomes the mean of the largest numbers."""
        assert self.compressor is not None
        rows = self._told(loss, [p.grad is not None for p in self.learned])
        header = told(rows)
        factor = (1.0 if times else loss.weight) * self.group.size / (header.weight or 1.0)
        self._norm = self.compressor.reduce(factor, used_anywhere(rows), self.state.epoch)
        return header

    def _local(self, loss: Mean, times: bool) -> Header:
        """`grad` becomes the mean over the samples of this rank."""
        header = told(self._told(loss, []))
        if times and loss.weight:
            self.scale_gradients(1.0 / loss.weight)
        self._met = False
        return header

    def _told(self, loss: Mean, used: list[bool]) -> Array:
        """What the ranks say of their batches, for `told`."""
        mean = loss.compute() if loss.weight else 0.0
        stop = self.interruption is not None
        return self.group.rows(np.array([loss.weight, mean * loss.weight, stop, self.own, *used], np.float64))

    def _compressor(self, settings: Distributed) -> Compressor | None:
        if settings.compress is None:
            return None
        named = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        return Compressor(
            self.group,
            list(named),
            list(named.values()),
            self.optimizer,
            keep=settings.compress.keep,
            warmup=settings.compress.warmup_epochs,
            clip=self.settings.clip_norm,
            wire=settings.wire,
        )

    @property
    def _meets(self) -> bool:
        """Whether the ranks are equal after the step under way."""
        return self.local_steps == 1 or (self.state.step + 1) % self.local_steps == 0

    def _meet_again(self) -> None:
        """After steps that each made alone: weights, buffers and the optimiser's state are the means."""
        if not self._met:
            average(self.group, (p._data for p in self.learned))
            average_state(self.group, self.optimizer)
            if self.ema is not None:
                average(self.group, (a for a in self.ema.average.values() if a.dtype.kind in "fc"))
            average_buffers(self.model, self.group)
            self._met = True

    @property
    def shards(self) -> ShardedOptimizer:
        """The optimiser in pieces, from the first step on: then it is known what lies where."""
        if self._shards is None:
            self._shards = ShardedOptimizer(self.optimizer, self.reduction, self.weights)
        return self._shards

    def updated(self) -> Iterable[Tensor]:
        """Parameters, or pieces of them."""
        return super().updated() if self._shards is None else self._shards.updated()

    def clip_scale(self, most: float) -> tuple[float, float]:
        """Of the whole gradient, wherever its pieces are; one of which little travels has been bounded before."""
        if self.compressor is not None:
            return self._norm, 1.0
        return super().clip_scale(most) if self._shards is None else self._shards.clip_scale(most)

    def apply(self, scale: float) -> None:
        """On this rank's pieces; then all get the new weights."""
        if self.compressor is not None:
            self.compressor.update(scale)
        else:
            super().apply(scale)
        if self._shards is not None:
            self._shards.spread()
        if self._meets:
            self._meet_again()

    def agreed(self, flag: bool) -> bool:
        """Whether a rank says so, where all are needed for a checkpoint (`in_common`). Between local steps, that waits
        until the ranks are equal."""
        if self.local_steps > 1:
            self._owed = self._owed or flag
            if not self._met:
                return False
            flag, self._owed = self._owed, False
        agreed = self.group.any(flag) if self.in_common else flag
        if agreed and self.weights is not None:
            self.weights.restore()
        return agreed

    @property
    def in_common(self) -> bool:
        """Whether a checkpoint needs all ranks: one of an optimiser in pieces, of gradients that wait, of tables, or of
        buffers in which each has rows."""
        parts = self.tables is not None or any(buffer.per_sample for buffer in self.model.buffers())
        return self.options.in_common or parts

    def state_dict(self) -> dict[str, Any]:
        """That of one process, and what waits on each rank for "compress"; where the optimiser is in pieces, gradients
        wait, or each rank has rows of buffers, all ranks must ask."""
        if self.weights is not None:
            self.weights.restore()
        join_buffers(self.model, self.group)
        tree = super().state_dict()
        if self.compressor is not None:
            tree["compression"] = self.compressor.state_dict()
        return tree if self._shards is None else {**tree, "optimizer": self._shards.state_dict()}

    def load_state_dict(self, tree: dict[str, Any]) -> None:
        """As `Trainer` does, and what waited for "compress"."""
        super().load_state_dict(tree)
        if self.compressor is not None:
            self.compressor.load_state_dict(tree.get("compression", {}))

    @property
    def leaving(self) -> BaseException | None:
        """What all ranks have agreed on."""
        if self._agreed and self.interruption is None:
            self.interruption = Elsewhere()
        return self.interruption if self._agreed else None

    def finish_epoch(self) -> None:
        """With the running statistics of all ranks."""
        self._meet_again()
        average_buffers(self.model, self.group)
        if self.weights is not None:
            self.weights.restore()
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
            if id(p) in self.index:  # else it is of a table
                used[self.index[id(p)]] = True
        stop = trainer.interruption is not None
        trainer.reduction.begin(
            float(result.weight),
            float(result.value.item()),
            used,
            stop=stop,
            seconds=trainer.own,
            together=trainer.together,
        )

    def take(self, parameter: Tensor, gradient: Tensor) -> None:
        """One gradient."""
        if id(parameter) not in self.index:
            parameter.grad = gradient
            return
        self.trainer.reduction.take(self.index[id(parameter)], gradient, weighted=self.trainer.weighted)


def served(p: Tensor) -> bool:
    """Whether a parameter is a table whose rows servers have."""
    return getattr(p, "served", None) is not None


def check_together(settings: Distributed) -> None:
    """UsageError for settings of which each changes how gradients travel."""
    chosen = {
        "zero": settings.zero > 0,
        "compress": settings.compress is not None,
        "local_steps": settings.local_steps > 1,
        "tables": settings.tables is not None and settings.local_steps > 1,
    }
    if len(names := [name for name, there in chosen.items() if there]) > 1:
        raise UsageError(f"distributed: {' and '.join(names)} do not go together; choose one of them")


def tables_of(model: Module, learned: Sequence[Tensor], *, sparse: bool) -> set[int]:
    """Which of the parameters are tables of embeddings, sparse ones or the others."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, Embedding) and m.sparse == sparse}
    return {index for index, p in enumerate(learned) if id(p) in tables}


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
    """Put the mean over the ranks into every buffer of real numbers; of those per sample each rank's own rows."""
    join_buffers(model, group)
    for buffer in model.buffers():
        if buffer.dtype.kind == "f" and buffer.size and not buffer.per_sample:
            values = _contiguous(buffer)
            values[...] = group.rows(values).mean(axis=0, dtype=np.float64).astype(values.dtype)


def join_buffers(model: Module, group: Group) -> None:
    """Give buffers per sample the rows of all ranks: place i of a batch is of rank i mod W."""
    for buffer in model.buffers():
        if buffer.per_sample and buffer.size:
            values = _contiguous(buffer)
            for rank, rows in enumerate(group.rows(values)):
                values[rank :: group.size] = rows[rank :: group.size]


def _contiguous(value: Tensor) -> Any:
    if not value._data.flags.c_contiguous or not value._data.flags.writeable:
        value._data = np.array(value._data, order="C")
    return value._data


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


__all__ = ["ParallelTrainer", "average_buffers"]
