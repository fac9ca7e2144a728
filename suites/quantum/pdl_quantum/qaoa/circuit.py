"""`QAOACircuit`: the alternating circuit of a cost, as a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from pdl.errors import ConfigError
from pdl.hints import Range
from pdl_quantum.circuits import Circuit, PauliSum
from pdl_quantum.qaoa.schedule import field, grown, ramp
from pdl_quantum.templates import dicke_state, qaoa
from pdl_quantum.variational.ansatz import Ansatz

Positive = Annotated[float, Range(above=0)]


class QAOACircuit(Ansatz):
    """exp(-i beta_p B) exp(-i gamma_p C) ... exp(-i beta_1 B) exp(-i gamma_1 C) on the highest state of B (Farhi,
    Goldstone & Gutmann, arXiv 1411.4028), with 2p parameters.

    layers   p
    mixer    B: "x", the sum of X; "xy", exchanges of neighbours in groups of bits (arXiv 1709.03489), which keep how
             many of a group are 1: rules of that kind are never broken, and their penalties are left out of C
    start    "ramp": an anneal in p steps (arXiv 2101.05742); "interp": one layer is optimised, drawn out to two, these
             are optimised, and so on (arXiv 1812.01041), each in `grow_steps` steps of Adam at `grow_lr`
    gamma, beta  of the ramp, at its ends
    cost     {word of I and Z: coefficient},    kept  {"groups", "ones" in each, "cost" without their penalties},
    rows, terms   from the data

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
        kept: Mapping[str, Any] | None = None,
        rows: Annotated[int, Range(1)] | None = None,
        terms: Annotated[int, Range(1)] | None = None,
    ) -> None:
        if not cost:
            raise ConfigError("model: a QAOA circuit needs a cost; leave it out, and it comes from the data")
        if rows not in (None, 1):
            raise ConfigError(f"model: a QAOA circuit is that of one cost, and there are {rows} problems")
        if mixer == "xy" and not kept:
            raise ConfigError("model.mixer=xy keeps the number of ones in groups of bits; this problem has no rules "
                              "of the kind, use x")  # fmt: skip
        self.layers, self.start, self.mixer = layers, start, mixer
        self.ramp, self.grow_steps, self.grow_lr = (gamma, beta), grow_steps, grow_lr
        self.kept = dict(kept) if mixer == "xy" and kept else None
        self.cost = PauliSum(len(next(iter(cost))), self.kept["cost"] if self.kept else cost)
        super().__init__(
            self.alternating(layers), initial=np.concatenate(ramp(layers, gamma, beta)).tolist(), terms=terms
        )

    def alternating(self, layers: int) -> Circuit:
        """The circuit with so many layers."""
        scaled = self.cost * (1 / field(self.cost))
        if self.kept is None:
            return qaoa(scaled, layers)
        groups, initial = self.kept["groups"], Circuit(scaled.num_qubits)
        for group, ones in zip(groups, self.kept["ones"], strict=True):
            initial.append(dicke_state(len(group), ones), group)
        return qaoa(scaled, layers, mixer="xy", groups=groups, initial=initial)

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
