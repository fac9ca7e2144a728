"""Weights that become zeros while a net is trained, the smallest first, and stay so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.nn import Module
from pdl.nn.embedding import Embedding
from pdl.train.compression import Sparse
from pdl.train.hooks import Hook

PRUNINGS = 100  # until the share is reached


def sparse_weights(model: Module) -> dict[str, Any]:
    """The weights of linear layers and convolutions by name, but for windows of single channels: those that may be
    sparse."""
    found = {}
    for owner, module in model.named_modules():
        weight = None if isinstance(module, Embedding) else dict(module.named_parameters()).get("weight")
        if weight is not None and weight.ndim >= 2 and (weight.ndim == 2 or weight.shape[-2] > 1):
            found[f"{owner}.weight" if owner else "weight"] = weight
    return found


def scores(weights: Sequence[Array], settings: Sparse) -> list[Array]:
    """What each block of each array matters, [rows, blocks of a row]: the mean square m of its numbers; "global", so
    that those of several layers can be compared, over the sum of all m of its layer that are no less (LAMP, Lee et
    al., arXiv 2010.07611)."""
    found = []
    for weight in weights:
        rows = weight.reshape(-1, weight.shape[-1])
        begins = np.arange(0, rows.shape[1], settings.block)
        sums = np.add.reduceat(np.square(rows, dtype=np.float64), begins, axis=1)
        squares = sums / np.diff([*begins, rows.shape[1]])
        if settings.ratios == "global":
            order = np.argsort(-squares, axis=None, kind="stable")
            ordered = squares.reshape(-1)[order]
            above = np.empty_like(ordered)
            above[order] = ordered / np.maximum(np.cumsum(ordered), np.finfo(np.float64).tiny)
            squares = above.reshape(squares.shape)
        found.append(squares)
    return found


def pruned(weights: Sequence[Array], share: float, settings: Sparse) -> None:
    """Make that share of all numbers zeros, in place: whole blocks, those that matter least."""
    worth = scores(weights, settings)
    if settings.ratios == "uniform":
        groups = [[n] for n in range(len(weights))]
    else:
        groups = [[*range(len(weights))]]
    for group in groups:
        joined = np.concatenate([worth[n].reshape(-1) for n in group])
        gone = np.zeros(joined.size, np.bool_)
        gone[np.argsort(joined, kind="stable")[: round(share * joined.size)]] = True
        for n, part in zip(group, np.split(gone, np.cumsum([worth[n].size for n in group])[:-1]), strict=True):
            rows = weights[n].reshape(-1, weights[n].shape[-1])
            off = np.repeat(part.reshape(worth[n].shape), settings.block, axis=1)[:, : rows.shape[1]]
            rows[off] = 0


class Sparsity(Hook):
    """Prunes after steps, ever more until the share of the settings is reached, s (1 - (1 - t / u)^3) at the part t of
    all steps (Zhu and Gupta, arXiv 1710.01878), and keeps what is zero at zero, in averages of weights, too.

    Which weights are zeros is all that it remembers. No net counts as the best before it is as sparse as it shall be.
    UsageError where the net has no such weights, or only the data know how many steps there are.
    """

    def __init__(self, settings: Sparse, model: Module) -> None:
        self.settings, self.weights = settings, sparse_weights(model)
        self._zero: dict[str, Array] = {}
        if not self.weights:
            raise UsageError(f"compress.sparse: {type(model).__name__} has no linear layer or convolution to prune")

    def _share(self, done: float) -> float:
        """That of all steps that are `done`."""
        until = self.settings.until
        left = 0.0 if done >= until else 1 - done / until
        return self.settings.share * (1 - left**3)

    def on_start(self, trainer: Any) -> None:
        if trainer.lengths()["total_steps"] is None:
            raise UsageError("compress.sparse: a stream does not say how many steps there are; set train.max_steps")

    def sync_gradients(self, trainer: Any) -> None:
        self._zero = {name: weight._data == 0 for name, weight in self.weights.items()}

    def on_step(self, trainer: Any) -> None:
        for name, zero in self._zero.items():
            np.copyto(self.weights[name]._data, 0, where=zero)
        total, step = trainer.lengths()["total_steps"], trainer.state.step
        every = max(1, int(self.settings.until * total / PRUNINGS))
        full = step >= self.settings.until * total
        if step % every == 0 or full:
            share = self._share(1.0 if full else step / total)
            if self.zeros < share:
                pruned([weight._data for weight in self.weights.values()], share, self.settings)
        if trainer.ema is not None:
            for name, weight in self.weights.items():
                if name in trainer.ema.average:
                    np.copyto(trainer.ema.average[name], 0, where=weight._data == 0)

    def on_evaluate(self, trainer: Any, evaluation: Any) -> None:
        if trainer.state.step < self.settings.until * trainer.lengths()["total_steps"]:
            trainer.state.best, trainer.state.best_step, trainer.state.best_metrics = None, None, {}

    def on_end(self, trainer: Any) -> None:
        count = sum(weight.size for weight in self.weights.values())
        trainer.emit("on_message", f"sparse: {self.zeros:.1%} of {count:,} weights in {len(self.weights)} layers are 0")

    @property
    def zeros(self) -> float:
        """The share of zeros."""
        there = sum(np.count_nonzero(weight._data) for weight in self.weights.values())
        return 1 - there / sum(weight.size for weight in self.weights.values())


__all__ = ["Sparsity", "pruned", "scores", "sparse_weights"]
