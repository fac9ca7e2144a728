"""Exponential moving average of a model's weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from pdl.dtype import Array, bfloat16, float32, is_differentiable, real_of
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.kernels import update as kernels
from pdl.tensor import Tensor

if TYPE_CHECKING:
    from pdl.nn import Module


class EMA:
    """a = d a + (1 - d) w after every `update()`, for all parameters and buffers w of a model; evaluate inside ``with
    ema.swapped():``.

    d = `decay`, and with `warmup` min(decay, (1 + n) / (10 + n)) at update n = 1, 2, ..., so that the first weights,
    which mean little, are forgotten quickly (TensorFlow's ExponentialMovingAverage). Integer buffers are copied.
    Averages are float32 (float64 for float64 weights). What is named in `fixed` does not change and has no average: the
    model's own values stand for it. Polyak & Juditsky, 1992; Tarvainen & Valpola, arXiv 1703.01780.
    """

    in_common: ClassVar[bool] = False
    """Whether the averages are in shares, so that all ranks must come into `swapped` together."""

    def __init__(
        self,
        model: Module,
        decay: Annotated[float, Range(0, below=1)] = 0.999,
        *,
        warmup: bool = True,
        fixed: Collection[str] = (),
    ) -> None:
        if not 0 <= decay < 1:
            raise UsageError(f"EMA: decay {decay} is outside [0, 1)")
        self.model, self.decay, self.warmup, self.updates, self.fixed = model, decay, warmup, 0, frozenset(fixed)
        self.average: dict[str, Array] = {name: _wide(w.data).copy() for name, w in self._weights()}

    def update(self) -> None:
        """Take in the model's present weights."""
        self.updates += 1
        decay = self.decay_now
        batches: dict[Any, tuple[list[Array], list[Array]]] = {}
        for name, w in self._weights():
            average = self.average[name]
            if is_differentiable(average.dtype):
                targets, sources = batches.setdefault(real_of(average.dtype), ([], []))
                targets.append(_reals(average))
                sources.append(_reals(_wide(w.data)))
            else:
                average[...] = w.data
        for targets, sources in batches.values():
            kernels.ema(targets, sources, decay)

    @property
    def decay_now(self) -> float:
        """d of the latest update."""
        n = self.updates
        return min(self.decay, (1 + n) / (10 + n)) if self.warmup else self.decay

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Inside the block the model carries the averages; afterwards its own weights again."""
        own = {name: w.data.copy() for name, w in self._weights()}
        self.copy_to_model()
        try:
            yield
        finally:
            for name, w in self._weights():
                w.data[...] = own[name]

    def copy_to_model(self) -> None:
        """Overwrite the model's weights with the averages."""
        for name, w in self._weights():
            w.data[...] = self.average[name]

    def state_dict(self) -> dict[str, Any]:
        """{"updates": n, "fixed": [name, ...], "average": {name: array}}; the arrays are the averages themselves."""
        return {"updates": self.updates, "fixed": sorted(self.fixed), "average": dict(self.average)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`."""
        given = {name: v.data if isinstance(v, Tensor) else np.asarray(v) for name, v in state["average"].items()}
        wrong = [n for n, a in self.average.items() if n not in given or given[n].shape != a.shape]
        if wrong or len(given) != len(self.average):
            raise UsageError(
                f"EMA: the saved averages are of another model: {len(given)} tensors for {len(self.average)}, "
                f"{len(wrong)} missing or of another shape ({', '.join(wrong[:3])})"
            )
        self.updates = state["updates"]
        for name, average in self.average.items():
            average[...] = given[name]

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in chain(self.model.named_parameters(), self.model.named_buffers()):
            if name not in self.fixed:
                yield name, tensor


def _reals(x: Array) -> Array:
    """Complex numbers as pairs of reals, in the same memory."""
    return x.reshape(-1).view(real_of(x.dtype)) if x.dtype.kind == "c" else x


def _wide(x: Array) -> Array:
    return x.astype(float32) if x.dtype == bfloat16 else x
