"""Weights that become zeros while a net is trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.train import Hook, Trainer, TrainSettings
from pdl.train.compression import Sparse
from pdl.train.sparsity import Sparsity, pruned, scores, sparse_weights

from .toy import regression, weights_hash


def arrays(seed: int = 0) -> list[np.ndarray]:
    draws = np.random.default_rng(seed)
    shapes = [(5, 40), (3, 3, 4, 20), (7, 16)]
    return [(draws.standard_normal(s) * 10.0**n).astype(np.float32) for n, s in enumerate(shapes)]


@pytest.mark.parametrize("block", [1, 16])
def test_scores_of_blocks(block: int) -> None:
    weights = arrays()
    for w, plain, lamp in zip(weights, scores(weights, Sparse(block=block, ratios="uniform")),
                              scores(weights, Sparse(block=block, ratios="global")), strict=True):  # fmt: skip
        rows = w.reshape(-1, w.shape[-1]).astype(np.float64)
        wanted = np.array([[np.mean(r[j : j + block] ** 2) for j in range(0, len(r), block)] for r in rows])
        np.testing.assert_allclose(plain, wanted)
        np.testing.assert_allclose(lamp, [[m / wanted[wanted >= m].sum() for m in row] for row in wanted])


@pytest.mark.parametrize("block", [1, 16])
def test_the_least_go_first(block: int) -> None:
    for ratios in ("uniform", "global"):
        settings = Sparse(block=block, ratios=ratios)
        once, twice = arrays(), arrays()
        pruned(once, 0.6, settings)
        pruned(twice, 0.3, settings)
        before = [w == 0 for w in twice]
        pruned(twice, 0.6, settings)
        assert all((w == 0)[zero].all() for w, zero in zip(twice, before, strict=True))  # what went stays away
        blocks = [np.add.reduceat(w.reshape(-1, w.shape[-1]) != 0, range(0, w.shape[-1], block), 1) for w in once]
        assert all(set(np.unique(b)) <= {0, 4, 8, block} for b in blocks)  # whole ones; 40 and 20 end with a part
        shares = [np.mean(b == 0) for b in blocks]
        if ratios == "uniform":
            np.testing.assert_allclose(shares, 0.6, atol=0.05)
            kept = np.abs(once[0][once[0] != 0]).min() if block == 1 else None
            assert kept is None or kept >= np.sort(np.abs(arrays()[0]), axis=None)[round(0.6 * 200) - 1]
        else:
            assert sum((b == 0).sum() for b in blocks) == round(0.6 * sum(b.size for b in blocks))
            assert max(shares) < 1  # layers of any scale keep something


def test_which_weights() -> None:
    net = nn.Sequential(
        nn.Embedding(9, 4), nn.Conv2d(4, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8), nn.Linear(8, 3)
    )
    assert list(sparse_weights(net)) == ["1.weight", "4.weight"]
    with pytest.raises(UsageError, match="no linear layer"):
        Sparsity(Sparse(), nn.Sequential(nn.Embedding(9, 4)))


class Zeros(Hook):
    """The share of zeros after each step."""

    def __init__(self, of: Sparsity) -> None:
        self.of, self.seen = of, list[float]()

    def on_step(self, trainer: Any) -> None:
        self.seen.append(self.of.zeros)


def made(settings: Sparse, **of: Any) -> tuple[Trainer, Zeros]:
    pdl.seed(1)
    trainer = regression(TrainSettings(ema=0.9, **of))
    hook = Sparsity(settings, trainer.model)
    trainer.hooks = [hook, Zeros(hook)]
    return trainer, trainer.hooks[1]  # type: ignore[return-value]


def test_zeros_grow_and_stay() -> None:
    settings = Sparse(block=1, share=0.8, until=0.5)
    trainer, zeros = made(settings, epochs=6)
    trainer.fit()
    steps = trainer.state.step
    assert zeros.seen == sorted(zeros.seen)
    assert zeros.seen[steps // 4 - 1] == pytest.approx(0.8 * (1 - 0.5**3), abs=0.02)
    assert zeros.seen[steps // 2 - 1] == zeros.seen[-1] == pytest.approx(0.8, abs=0.02)
    assert trainer.state.best_step is not None
    assert trainer.state.best_step >= steps / 2  # nets before were better and not as sparse
    assert trainer.ema is not None
    for name, weight in sparse_weights(trainer.model).items():
        assert (trainer.ema.average[name][weight.data == 0] == 0).all()


def test_who_goes_on_gets_the_same() -> None:
    settings = Sparse(block=1, share=0.7, until=0.9)
    whole, _ = made(settings, epochs=6)
    whole.fit()
    first, _ = made(settings, epochs=6)
    total = first.lengths()
    first.lengths = lambda: total  # type: ignore[method-assign]
    first.settings = replace(first.settings, epochs=2)
    first.fit()
    stopped = first.state_dict()
    second, _ = made(settings, epochs=6)
    second.load_state_dict(stopped)
    second.fit()
    assert weights_hash(second.model) == weights_hash(whole.model)
