"""Batch norm over the samples of all processes is that of one process with all samples."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pdl import nn
from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.tensor import Tensor

from .conftest import Ranks

RNG = np.random.default_rng(3)
PARTS = (slice(0, 1), slice(1, 5), slice(5, 7))


class Threads:
    """Threads in the place of processes."""

    def __init__(self, size: int) -> None:
        self.barrier, self.sent, self.mine = threading.Barrier(size, timeout=20), {}, threading.local()

    def rows(self, mine: Array) -> Array:
        self.sent[self.mine.rank] = mine
        self.barrier.wait()
        rows = np.stack([self.sent[rank] for rank in sorted(self.sent)])
        self.barrier.wait()
        return rows


def normed(norm: nn.Module, x: Array, residual: Array | None, activation: str | None, g: Array) -> list[Array]:
    """y, dx, dresidual, then the gradients of scale and shift."""
    norm.to("float64")
    inputs = [None if v is None else Tensor(v, requires_grad=True) for v in (x, residual)]
    y = norm(inputs[0], activation=activation, residual=inputs[1])
    y.backward(Tensor(g))
    return [y.data, *[v.grad.data for v in inputs if v is not None], norm.weight.grad.data, norm.bias.grad.data]


@pytest.mark.parametrize(("activation", "residual"), [(None, False), ("silu", False), ("relu", True), ("silu", True)])
def test_values_and_gradients_over_three_uneven_shares(activation: str | None, residual: bool) -> None:
    x, g, r = RNG.normal(2, 3, (7, 4, 5, 6)), *RNG.normal(size=(2, 7, 4, 5, 6))
    alone = nn.BatchNorm2d(6)
    expected = normed(alone, x, r if residual else None, activation, g)
    across, found = Threads(3), {}

    def run(rank: int) -> None:
        across.mine.rank, part, norm = rank, PARTS[rank], nn.BatchNorm2d(6)
        norm.across = across
        made = normed(norm, x[part].copy(), r[part].copy() if residual else None, activation, g[part].copy())
        found[rank] = made, norm.running_mean.data, norm.running_var.data

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2]
    *shared, scale, shift = zip(*(found[rank][0] for rank in range(3)), strict=True)
    made = [*(np.concatenate(each) for each in shared), sum(scale), sum(shift)]
    for got, want in zip(made, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)
    for _, mean, var in found.values():
        np.testing.assert_allclose(mean, alone.running_mean.data, atol=1e-14)
        np.testing.assert_allclose(var, alone.running_var.data, atol=1e-14)


def test_one_value_in_all_has_no_variance() -> None:
    norm, across = nn.BatchNorm1d(2), Threads(1)
    norm.across, across.mine.rank = across, 0
    with pytest.raises(ShapeError, match="all processes together have one value"):
        norm(Tensor(np.ones((1, 2), np.float32)))


TRAINING = """
    import numpy as np
    import pdl
    from pdl import nn, optim
    from pdl.data import ArrayDataset, DataLoader
    from pdl.distributed.group import RankError, world
    from pdl.distributed.norms import SyncNorms
    from pdl.nn.blocks import ConvNorm, chain
    from pdl.train import Loss, Task, Trainer, TrainSettings
    from pdl.train.parallel import ParallelTrainer
    from pdl.train.settings import Distributed

    group = world()
    group.timeout = 60.0
    rng = np.random.default_rng(0)
    N = 23
    images = rng.normal(1.0, 2.0, (N, 6, 5, 3)).astype(np.float32)
    labels = rng.integers(0, 4, N)
    images += labels[:, None, None, None]
    known = rng.integers(1, 6, N).astype(np.float32)  # the weights of ranks do not follow from their samples

    class Net(nn.Module):
        '''Norms of all kinds: with an activation and a residual, in a chain of convolutions, of rows; one is unused.'''

        def __init__(self):
            self.stem = ConvNorm(3, 8)
            self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
            self.short, self.beside = nn.Conv2d(8, 8, 1, bias=False), nn.BatchNorm2d(8)
            self.chain = nn.ModuleList([ConvNorm(8, 16, 1), ConvNorm(16, 16, groups=16), ConvNorm(16, 8, 1)])
            self.last, self.head, self.unused = nn.BatchNorm1d(8), nn.Linear(8, 4), nn.BatchNorm1d(8)

        def forward(self, x):
            x = self.stem(x)
            x = pdl.relu(self.norm(self.conv(x)) + self.beside(self.short(x)))
            x = chain(self.chain, x, residual=x)
            return self.head(self.last(x.mean(axis=(1, 2))))

    class Weighted(Task):
        def step(self, model, batch):
            weight = pdl.as_tensor(batch["known"])
            y = model(pdl.as_tensor(batch["x"]))
            each = pdl.cross_entropy(y, pdl.as_tensor(batch["label"]), reduction="none")
            return Loss((each * weight).sum() / weight.sum(), weight.sum())

        def metrics(self):
            return {}

    def trained(parallel, size, *, compile, accumulate=1, freeze=None, mixed=False, sync=True):
        pdl.seed(5)
        model = Net()
        loader = DataLoader(ArrayDataset(x=images, label=labels, known=known), batch_size=size, shuffle=True, seed=1)
        settings = TrainSettings(epochs=2, compile=compile, accumulate=accumulate, freeze=freeze)
        optimizer = optim.SGD([p for p in model.parameters()], lr=0.05, momentum=0.9)
        args = Weighted(), model, optimizer, {"train": loader}, settings
        if parallel:
            trainer = ParallelTrainer(group, Distributed(sync_batch_norm=sync, overlap=bool(accumulate % 2)), *args)
        else:
            trainer = Trainer(*args)
        if mixed and group.rank == 1:
            trainer.compiled = None
        trainer.fit()
        if trainer.compiled is not None:
            assert trainer.compiled.failures == 0, trainer.compiled.stopped
        assert all(norm.across is None for norm in model.modules() if hasattr(norm, "across"))
        values = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        return {name: value.data.astype(np.float64) for name, value in values.items()}, trainer.state.train_loss

    def distance(a, b):
        return max(np.abs(a[0][name] - b[0][name]).max() for name in a[0])

    # the last batch has 5 samples (2, 2 and 1 on three ranks), 2 (the third has none), or 3
    variants = [
        (9, dict(compile=True)), (9, dict(compile=False)), (9, dict(compile=True, mixed=True)),
        (21, dict(compile=True)), (10, dict(compile=False, accumulate=2)), (21, dict(compile=True, accumulate=2)),
        (9, dict(compile=True, freeze="stem")),
    ]
    for size, how in variants if group.size == 3 else variants[:2]:
        alone = {name: value for name, value in how.items() if name != "mixed"}
        expected, found = trained(False, size, **alone), trained(True, size, **how)
        assert distance(expected, found) < 1e-5, (size, how, distance(expected, found))
        assert abs(expected[1] - found[1]) < 1e-5
        for name, value in sorted(found[0].items()):
            assert (group.rows(value) == value).all(), (name, "differs between ranks")
        if "freeze" in how:
            assert (found[0]["stem.1.running_mean"] == 0).all()
    if group.size == 3:
        raise SystemExit
    assert distance(trained(False, 8, compile=True), trained(True, 8, compile=True, sync=False)) > 1e-3

    pair = nn.ModuleList([nn.BatchNorm1d(4), nn.BatchNorm1d(4)])
    norms = SyncNorms(pair, group)
    norms.next_batch()
    try:
        with norms.joined():
            pair[group.rank](pdl.ones((2, 4)))
        raise SystemExit("ranks that ran different norms were not told")
    except RankError as error:
        assert "meets batch norms [0, 1]" in str(error), error
"""


@pytest.mark.parametrize("size", [2, 3])
def test_training_is_that_of_one_process(ranks: Ranks, size: int) -> None:
    ranks(size, TRAINING)
