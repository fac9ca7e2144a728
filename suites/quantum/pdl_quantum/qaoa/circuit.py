"""`QAOACircuit`: the alternating circuit of a cost, as a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np

from pdl.circuits import Circuit, PauliSum
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_quantum.qaoa.schedule import field, grown, ramp
from pdl_quantum.templates import qaoa
from pdl_quantum.variational.ansatz import Ansatz

Positive = Annotated[float, Range(above=0)]


class QAOACircuit(Ansatz):
    """exp(-i beta_p B) exp(-i gamma_p C) ... exp(-i beta_1 B) exp(-i gamma_1 C) on the highest state of B (Farhi,
    Goldstone & Gutmann, arXiv 1411.4028), with 2p parameters.

    layers   p;    mixer  B: "x", the sum of X; "xy", exchanges within groups of bits of which one stays 1
    start    "ramp": an anneal in p steps (arXiv 2101.05742); "interp": one layer is optimised, drawn out to two, these
             are optimised, and so on (arXiv 1812.01041), each in `grow_steps` steps of Adam at `grow_lr`
    gamma, beta  of the ramp, at its ends
    cost     {word of I and Z: coefficient},    groups  of "xy",    rows, terms  told by the data

    C is the cost over the root mean square of the fields that its bits feel, so that angles mean the same for all.
    """

    def __init__(
        self,
        layers: Annotated[int, Range(1)],
        *,
        mixer: Literal["x", "xy"] = "x",
        start: Literal["ramp", "interp"] = "ramp",
        gamma: Positive = 1.2,
        beta: Positive = 0.75,
        grow_steps: Annotated[int, Range(1)] = 50,
        grow_lr: Positive = 0.1,
        cost: Mapping[str, float] | None = None,
        groups: Sequence[Sequence[int]] | None = None,
        rows: Annotated[int, Range(1)] | None = None,
        terms: Annotated[int, Range(1)] | None = None,
    ) -> None:
        if not cost:
            raise ConfigError("model: a QAOA circuit needs a cost; leave it out and let the data tell it")
        if rows not in (None, 1):
            raise ConfigError(f"model: a QAOA circuit is that of one cost, and there are {rows} problems")
        if mixer == "xy" and not groups:
            raise ConfigError("model.mixer=xy keeps one bit of each group at 1; this problem has no such groups, use x")
        self.layers, self.start, self.mixer = layers, start, mixer
        self.ramp, self.grow_steps, self.grow_lr = (gamma, beta), grow_steps, grow_lr
        self.cost = PauliSum(len(next(iter(cost))), cost)
        self.groups = [list(group) for group in groups] if mixer == "xy" and groups else None
        super().__init__(
            self.alternating(layers), initial=np.concatenate(ramp(layers, gamma, beta)).tolist(), terms=terms
        )

    def alternating(self, layers: int) -> Circuit:
        """The circuit with so many layers."""
        scaled = self.cost * (1 / field(self.cost))
        return qaoa(scaled, layers, mixer=self.mixer, groups=self.groups)

    def grow(self) -> None:
        """Begin where fewer layers end, if `start` says so."""
        if self.start == "interp" and self.layers > 1:
            first = ramp(1, *self.ramp)
            found = grown(self.alternating, self.cost, self.layers, first, steps=self.grow_steps, lr=self.grow_lr)
            self.theta._data[...] = np.concatenate(found)

    @property
    def angles(self) -> tuple[np.ndarray, np.ndarray]:
        """(gamma [p], beta [p]) as they are now."""
        gamma, beta = np.split(self.theta.detach().numpy()[0], 2)
        return gamma, beta


__all__ = ["QAOACircuit"]
