"""The loop on tasks without pictures: steps, accumulation, hooks, early stop, divergence, determinism."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from pdl.kernels.memory import cached_bytes, empty

import pdl
from pdl import Tensor, nn, optim
from pdl.data import DataLoader
from pdl.errors import NumericalError, UsageError
from pdl.ops.sparse import SparseGrad
from pdl.train import EarlyStop, Hook, Loss, Metric, Task, Trainer, TrainSettings
from pdl.train.log import Progress
from pdl.train.loop import better, total_steps
from pdl.train.metrics import MeanSquaredError
from tests.framework.train.toy import BagOfWords, Regression, Sentiment, Words, arrays, net, regression, weights_hash


def trained(settings: TrainSettings, **arguments: Any) -> Trainer:
    with pdl.random.fork_seed(0):
        trainer = regression(settings, **arguments)
        trainer.fit()
    return trainer


def test_regression_is_learned() -> None:
    trainer = trained(TrainSettings(epochs=12))
    assert trainer.state.step == 12 * 12
    assert trainer.state.samples == 12 * 90
    assert trainer.state.metrics["val/rmse"] < 1.6  # predicting the mean gives 2.8
    assert trainer.state.best == min(trainer.state.best, trainer.state.metrics["val/loss"])


class Coarse(Regression):
    """Its metric is whole numbers: many evaluations measure the same."""

    monitor, monitor_mode = "val/rmse", "min"

    def metrics(self) -> dict[str, Metric]:
        metric = MeanSquaredError(root=True)
        exact = metric.compute
        metric.compute = lambda: float(round(exact()))  # type: ignore[method-assign]
        return {"rmse": metric}


def test_of_equal_ones_the_one_with_less_loss_is_best() -> None:
    seen: list[tuple[float, float]] = []

    class Seen(Hook):
        def on_evaluate(self, trainer: Trainer, evaluation: Any) -> None:
            seen.append((evaluation.metrics["val/rmse"], evaluation.metrics["val/loss"]))

    with pdl.random.fork_seed(0):
        trainer = regression(TrainSettings(epochs=12), hooks=[Seen()], task=Coarse())
        trainer.fit()
    best = trainer.state.best_metrics
    assert (best["val/rmse"], best["val/loss"]) == min(seen)
    assert [rmse for rmse, _ in seen].index(best["val/rmse"]) < seen.index(min(seen)), "the first of them was not it"


def test_the_star_of_the_best_stands_at_evaluations_only() -> None:
    said = io.StringIO()
    trainer = trained(TrainSettings(epochs=6, eval_every=3), hooks=[Progress(said)])
    epochs = [line for line in said.getvalue().splitlines() if line.startswith("epoch")]
    assert trainer.state.best_step is not None
    assert "*" in epochs[2]
    assert not any("*" in line for i, line in enumerate(epochs) if i not in (2, 5))


def test_a_stream_of_sentences_is_learned() -> None:
    """No length, no arrays in the samples, no pictures: the same loop."""
    with pdl.random.fork_seed(0):
        model = BagOfWords()
        loaders = {"train": DataLoader(Words(), batch_size=16), "val": DataLoader(Words(), batch_size=32)}
        trainer = Trainer(
            Sentiment(), model, optim.Adam(model, lr=0.05), loaders, TrainSettings(epochs=100, max_steps=60)
        )
        trainer.fit()
    assert trainer.state.step == 60
    assert trainer.state.best is not None
    assert trainer.state.best > 0.9


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_no_bit(workers: int) -> None:
    settings = TrainSettings(epochs=2, ema=0.9)
    assert weights_hash(trained(settings, workers=workers).model) == weights_hash(trained(settings).model)


class Told(Hook):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_message(self, trainer: Trainer, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize(
    "settings", [TrainSettings(epochs=2, ema=0.9, clip_norm=0.1), TrainSettings(epochs=2, accumulate=3)]
)
def test_compiled_training_equals_eager(settings: TrainSettings) -> None:
    heard = Told()
    compiled = trained(settings, hooks=[heard])
    assert not heard.lines
    assert compiled.compiled is not None
    assert compiled.compiled.peak_bytes
    eager = trained(replace(settings, compile=False))
    assert eager.compiled is None
    for a, b in zip(compiled.model.parameters(), eager.model.parameters(), strict=True):
        np.testing.assert_allclose(a.data, b.data, rtol=1e-5, atol=1e-7)


def test_code_that_cannot_be_compiled_is_named_once() -> None:
    heard = Told()
    model = BagOfWords()
    loaders = {"train": DataLoader(Words(), batch_size=16)}
    Trainer(Sentiment(), model, optim.SGD(model), loaders, TrainSettings(max_steps=12, epochs=9), hooks=[heard]).fit()
    assert len(heard.lines) == 1
    assert "toy.py:" in heard.lines[0]
    assert "list" in heard.lines[0]


def test_bf16_training_learns_and_goes_on_where_it_stopped() -> None:
    settings = TrainSettings(epochs=6, precision="bf16", ema=0.9)
    pdl.seed(1)
    whole = regression(settings)
    whole.fit()
    assert {p.dtype for p in whole.model.parameters()} == {pdl.float32}
    assert whole.state.metrics["val/rmse"] < 2.2  # predicting the mean gives 2.8
    pdl.seed(1)
    first = regression(settings)
    first.settings = replace(settings, epochs=2)
    first.fit()
    stopped = first.state_dict()
    second = regression(settings)
    second.load_state_dict(stopped)
    second.fit()
    assert weights_hash(second.model) == weights_hash(whole.model)


def test_two_trainers_in_one_process_do_not_meet() -> None:
    alone = weights_hash(trained(TrainSettings(epochs=2)).model)

    class Interloper(Hook):
        def on_step(self, trainer: Trainer) -> None:
            if trainer.state.step == 3:
                trained(TrainSettings(epochs=1))

    assert weights_hash(trained(TrainSettings(epochs=2), hooks=[Interloper()]).model) == alone


def test_accumulated_gradients_equal_the_big_batch() -> None:
    """15 batches of 6 in threes (the mean weighted by samples), against 5 of 18; without what looks at a whole
    batch."""

    def plain(batch_size: int, accumulate: int) -> list[np.ndarray]:
        with pdl.random.fork_seed(0):
            model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
            loaders = {"train": DataLoader(arrays(), batch_size=batch_size, shuffle=True)}
            Trainer(
                Regression(), model, optim.SGD(model, lr=0.1), loaders, TrainSettings(epochs=2, accumulate=accumulate)
            ).fit()
        return [p.data for p in model.parameters()]

    for one, other in zip(plain(18, 1), plain(6, 3), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)
    for one, other in zip(plain(40, 1), plain(20, 2), strict=True):  # the last ones are shorter: 10 samples
        np.testing.assert_allclose(one, other, atol=2e-6)


class TwoTables(nn.Module):
    """Two lookup tables with a head each; a batch uses one of them, or both."""

    def __init__(self, sparse: bool) -> None:
        self.tables = nn.ModuleDict({name: nn.Embedding(7, 3, sparse=sparse) for name in "ab"})
        self.heads = nn.ModuleDict({name: nn.Linear(3, 1) for name in "ab"})

    def forward(self, ids: dict[str, Tensor]) -> Tensor:
        scores = [self.heads[name](self.tables[name](pdl.as_tensor(ids[name]))).mean() for name in ids]
        return sum(scores[1:], scores[0])


class Lookups(Task):
    def step(self, model: nn.Module, batch: Any) -> Loss:
        return Loss((model(batch) - 1.0) ** 2, 1.0 + len(batch["a"] if "a" in batch else batch["b"]))


ACCUMULATED = [
    [{"a": [1, 2]}, {"b": [3]}], [{"a": [1, 2]}, {"a": [2, 5]}], [{"a": [0]}, {"b": [1]}, {"a": [0]}],
    [{"a": [1], "b": [6]}, {"a": [4]}, {"a": [3, 3, 6]}], [{"b": [1]}, {"b": [1]}, {"a": [2]}, {"b": [4]}],
]  # fmt: skip


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("batches", ACCUMULATED)
def test_compiled_accumulation_keeps_what_earlier_batches_gave(batches: list[Any], sparse: bool) -> None:
    """Whatever parameters a batch's program reaches, as in eager mode, also where its memory is used again."""
    given = [{name: np.array(ids) for name, ids in batch.items()} for batch in batches]
    with pdl.random.fork_seed(0):
        model = TwoTables(sparse)
    grads = []
    for compile in (True, False):
        settings = TrainSettings(accumulate=len(given), compile=compile)
        heard = Told()
        trainer = Trainer(Lookups(), model, optim.SGD(model, lr=0.1), {"train": given}, settings, hooks=[heard])
        trainer.gradients(given)
        assert not heard.lines
        dense = [g.to_dense() if isinstance(g, SparseGrad) else g for g in (p.grad for p in model.parameters())]
        grads.append([None if g is None else g.data.copy() for g in dense])
    assert [g is None for g in grads[0]] == [g is None for g in grads[1]]
    for compiled, eager in zip(*grads, strict=True):
        if eager is not None:
            np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-7)


def test_hooks_are_called_in_order_and_between_gradient_and_update() -> None:
    seen: list[str] = []

    class Watch(Hook):
        def on_start(self, trainer: Trainer) -> None:
            seen.append("start")

        def sync_gradients(self, trainer: Trainer) -> None:
            seen.append("sync")
            assert all(p.grad is not None for p in trainer.model.parameters())
            for p in trainer.model.parameters():
                p.grad = p.grad * 0.0

        def on_step(self, trainer: Trainer) -> None:
            seen.append("step")

        def on_evaluate(self, trainer: Trainer, evaluation: Any) -> None:
            seen.append("evaluate")

        def on_epoch(self, trainer: Trainer) -> None:
            seen.append("epoch")

        def on_end(self, trainer: Trainer) -> None:
            seen.append("end")

        def close(self) -> None:
            seen.append("close")

    before = net()
    state = {name: value.data.copy() for name, value in before.named_parameters()}
    trainer = regression(TrainSettings(epochs=1), hooks=[Watch()], model=before, batch_size=45)
    trainer.fit()
    assert seen == ["start", "sync", "step", "sync", "step", "evaluate", "epoch", "end", "close"]
    assert all(np.array_equal(state[name], p.data) for name, p in before.named_parameters())


def test_evaluation_leaves_no_trace() -> None:
    with pdl.random.fork_seed(0):
        trainer = regression(TrainSettings(ema=0.5))
        trainer.train_epoch()
        before = (weights_hash(trainer.model), pdl.random.get_state(), trainer.loaders["train"].state_dict())
        first, second = trainer.evaluate("val"), trainer.evaluate("val")
        assert first.metrics == second.metrics
        assert before == (weights_hash(trainer.model), pdl.random.get_state(), trainer.loaders["train"].state_dict())
        assert trainer.model.training


def test_evaluation_gives_free_memory_back() -> None:
    trainer = regression(TrainSettings())
    size = 1 << 22
    empty((size,), np.dtype(np.uint8))
    assert cached_bytes() >= size
    trainer.evaluate("val")
    assert cached_bytes() < size


def test_early_stop_counts_evaluations() -> None:
    settings = TrainSettings(epochs=50)
    trainer = regression(settings, hooks=[EarlyStop(3)])
    trainer.optimizer.param_groups[0]["initial_lr"] = 0.0  # nothing is learned, but for the running means
    trainer.scheduler = None
    trainer.optimizer.param_groups[0]["lr"] = 0.0
    trainer.fit()
    assert trainer.state.stopped
    assert trainer.state.epoch < 50


def test_limits_of_clipping() -> None:
    """Plain SGD at lr 0.1 moves the weights by at most 0.1 x the limit."""
    moves: list[float] = []

    class Move(Hook):
        def sync_gradients(self, trainer: Trainer) -> None:
            self.before = [p.data.astype(np.float64) for p in trainer.model.parameters()]

        def on_step(self, trainer: Trainer) -> None:
            after = [p.data.astype(np.float64) for p in trainer.model.parameters()]
            moves.append(sum(float(((b - a) ** 2).sum()) for a, b in zip(self.before, after, strict=True)) ** 0.5)
            assert trainer.last.grad_norm is not None
            assert trainer.last.grad_norm > 0.01

    trainer = regression(TrainSettings(epochs=1, clip_norm=0.01), hooks=[Move()])
    trainer.optimizer = optim.SGD(trainer.model, lr=0.1)
    trainer.fit()
    assert 0 < max(moves) <= 0.1 * 0.01 * 1.001


def test_divergence_says_step_rate_and_remedy() -> None:
    trainer = regression(TrainSettings(epochs=5))
    trainer.scheduler, trainer.optimizer.param_groups[0]["lr"] = None, 1e20
    with (
        np.errstate(all="ignore"),
        pytest.raises(
            NumericalError, match=r"diverged: the loss is (nan|inf) at step \d+ .*lr 1e\+20.*optim.lr=1e\+19"
        ),
    ):
        trainer.fit()


def test_nan_check_names_the_op() -> None:
    trainer = regression(TrainSettings(epochs=5, nan_check=True))
    trainer.scheduler, trainer.optimizer.param_groups[0]["lr"] = None, 1e20
    with np.errstate(all="ignore"), pytest.raises(NumericalError, match=r"from finite inputs, called at"):
        trainer.fit()


def test_less_of_a_loss_is_better_whatever_the_task_monitors() -> None:
    task = Sentiment()
    assert task.monitored(TrainSettings()) == ("val/accuracy", "max")
    assert task.monitored(TrainSettings(monitor="val/loss")) == ("val/loss", "min")
    assert task.monitored(TrainSettings(monitor="val/loss", monitor_mode="max")) == ("val/loss", "max")
    assert task.monitored(TrainSettings(monitor="val/f1")) == ("val/f1", "max")


def test_unknown_monitor_is_named() -> None:
    with pytest.raises(UsageError, match=r"no metric 'val/f1'; the task measures val/loss, val/rmse"):
        trained(TrainSettings(epochs=1, monitor="val/f1"))


def test_a_loader_without_a_position_is_skipped_over() -> None:
    batches = [{"x": b["x"], "y": b["y"]} for b in DataLoader(arrays(), batch_size=10)]
    trainer = regression(TrainSettings(epochs=1))
    trainer.loaders["train"] = batches
    trainer.state.batch = 7
    assert [b["x"][0, 0] for b in islice(trainer.training_batches(), 5)] == [b["x"][0, 0] for b in batches[7:]]


def test_lengths() -> None:
    loader = DataLoader(arrays(), batch_size=8)
    settings = TrainSettings(epochs=3, accumulate=5)
    assert total_steps(loader, settings) == 9
    assert total_steps(loader, settings, limit=4) == 3
    assert total_steps(loader, replace(settings, max_steps=7)) == 7
    assert total_steps(DataLoader(Words(), batch_size=8), settings) is None


def test_better() -> None:
    assert better(1.0, None, "max")
    assert better(1.0, 2.0, "min")
    assert not better(1.0, 1.0, "max")
    assert not better(float("nan"), None, "max")
