"""A compiled circuit: the stream of its program, and how parameters become its values and derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass
class Form:
    """offset + sum of coefficient * parameter, parameters by column."""

    offset: float = 0.0
    terms: dict[int, float] = field(default_factory=dict)

    def plus(self, angle: Form, factor: float = 1.0) -> Form:
        """This and a multiple of another."""
        terms = dict(self.terms)
        for column, value in angle.terms.items():
            terms[column] = terms.get(column, 0.0) + factor * value
        return Form(self.offset + factor * angle.offset, terms)

    def __bool__(self) -> bool:
        return bool(self.terms) or self.offset != 0.0


class Sums:
    """Sums of those columns of an array that have the same target: by rounds of one column for each target where few
    share one, else by runs of neighbours."""

    def __init__(self, target: Array) -> None:
        order = np.argsort(target, kind="stable")
        to, starts, counts = np.unique(target[order], return_index=True, return_counts=True)
        self.rounds: list[tuple[Array, Any]] = []
        self.runs = (order, starts, _slice_of(to)) if counts.max(initial=0) > 4 else None
        for k in range(0 if self.runs else int(counts.max(initial=0))):
            self.rounds.append((order[starts[counts > k] + k], _slice_of(to[counts > k])))

    def add(self, made: Array, terms: Array) -> None:
        """made [B, ...] grows by the sums of terms [B, T]."""
        if self.runs is not None:
            order, starts, to = self.runs
            made[:, to] += np.add.reduceat(terms.take(order, axis=1), starts, axis=1)
        for take, to in self.rounds:
            made[:, to] += terms.take(take, axis=1)


class Forms:
    """All forms of a program, evaluated at once."""

    def __init__(self) -> None:
        self.forms: list[Form] = []

    def add(self, form: Form) -> int:
        """Its number among all."""
        self.forms.append(form)
        return len(self.forms) - 1

    @cached_property
    def _sparse(self) -> tuple[Array, Array, Array, Array]:
        """(offsets [K], then of every term: its form, column and coefficient)."""
        entries = [(k, c, v) for k, form in enumerate(self.forms) for c, v in form.terms.items()]
        which, column, value = (np.array(part) for part in zip(*entries, strict=True)) if entries else ([], [], [])
        return (
            np.array([form.offset for form in self.forms]),
            np.asarray(which, np.int64), np.asarray(column, np.int64), np.asarray(value, np.float64),
        )  # fmt: skip

    @cached_property
    def _sums(self) -> tuple[Sums, Sums]:
        """Of the terms of each form, and of each column."""
        return Sums(self._sparse[1]), Sums(self._sparse[2])

    def evaluate(self, parameters: Array) -> Array:
        """[B, P] -> [B, K]."""
        offsets, _, column, value = self._sparse
        made = np.tile(offsets, (len(parameters), 1))
        self._sums[0].add(made, parameters.take(column, axis=1) * value)
        return made

    def vjp(self, gradient: Array, columns: int) -> Array:
        """[B, K] -> [B, P]."""
        _, which, _, value = self._sparse
        made = np.zeros((len(gradient), columns))
        self._sums[1].add(made, gradient.take(which, axis=1) * value)
        return made


def zyz(matrix: Array) -> tuple[Array, Array, Array, Array]:
    """(phi, gamma, beta, alpha): matrix [..., 2, 2] = e^(i phi) P(alpha) RY(beta) P(gamma), P(x) = diag(1, e^ix)."""
    corner = matrix[..., 0, 0]
    phi = np.angle(corner)
    alpha = np.angle(matrix[..., 1, 0]) - phi
    sine, cosine = np.abs(matrix[..., 1, 0]), np.abs(corner)
    gamma = np.where(sine > cosine, np.angle(-matrix[..., 0, 1]) - phi, np.angle(matrix[..., 1, 1]) - phi - alpha)
    return phi, gamma, 2 * np.arctan2(sine, cosine), alpha


@dataclass(frozen=True, eq=False)
class Runs:
    """One-qubit runs of `count` rotations about y between phases, fused: P Y P Y ... P.

    forms     [R, 2 count + 1], the form of each; alternating phases and rotations, in the order of time
    slots     [R, 3]: of the phase before, the rotation, the phase behind;    gradients  [R] of x, y, z, or -1
    """

    forms: Array
    slots: Array
    gradients: Array


@dataclass(frozen=True, eq=False)
class Compiled:
    """A circuit's program.

    stream    int64;    n  qubits;    columns  parameters;    gradients  places of derivatives
    units     [U, 2]: slot and form of cos and sin of a form;    halves  the same of half a form
    fixed     (slots, values) of what does not change
    scalar    slot of the common factor, or -1, and the forms that it is the sum of
    gradient_forms     [G, 2]: gradient place and form; no form is in it twice, nor in a run
    """

    stream: Array
    n: int
    columns: int
    slots: int
    gradients: int
    forms: Forms
    units: Array
    halves: Array
    fixed: tuple[Array, Array]
    scalar: tuple[int, Array]
    gradient_forms: Array
    runs: tuple[Runs, ...]

    @cached_property
    def _gradient_forms(self) -> tuple[Array, Any]:
        """Gradients and the forms that they are of, in the order of these."""
        order = np.argsort(self.gradient_forms[:, 1])
        return self.gradient_forms[order, 0], _slice_of(self.gradient_forms[order, 1])

    @cached_property
    def _turned(self) -> tuple[Array, Array, Any]:
        """(forms, factors, places in pairs of slots) of all whose cos and sin the engine reads as they are."""
        forms = np.concatenate([self.units[:, 1], self.halves[:, 1]])
        factors = np.repeat([1.0, 0.5], [len(self.units), len(self.halves)])
        pairs = np.concatenate([self.units[:, 0], self.halves[:, 0]]) // 2
        order = np.argsort(pairs)
        return forms[order], factors[order], _slice_of(pairs[order])

    def bind(self, parameters: Array) -> Array:
        """Parameters float64 [B, P] -> values float64 [B, slots]."""
        angles = self.forms.evaluate(parameters)
        values = np.zeros((len(parameters), self.slots))
        values[:, self.fixed[0]] = self.fixed[1]
        forms, factors, pairs = self._turned
        _put(values, pairs, angles.take(forms, axis=1) * factors)
        common = angles[:, self.scalar[1]].sum(1)
        for run in self.runs:
            phi, gamma, beta, alpha = self._fused(angles, run)
            common = common + phi.sum(1)
            for k, turned in enumerate((gamma, beta / 2, alpha)):
                _put(values, run.slots[:, k] // 2, turned)
        if self.scalar[0] >= 0:
            _put(values, slice(self.scalar[0] // 2, self.scalar[0] // 2 + 1), common[:, None])
        return values

    @staticmethod
    def _fused(angles: Array, run: Runs) -> tuple[Array, Array, Array, Array]:
        a = angles[:, run.forms]  # [B, R, 2 count + 1]
        u = np.zeros((*a.shape[:2], 2, 2), complex)
        u[..., 0, 0], u[..., 1, 1] = 1, np.exp(1j * a[..., 0])
        for k in range(1, a.shape[2], 2):
            c, s = np.cos(a[..., k] / 2)[..., None], np.sin(a[..., k] / 2)[..., None]
            top, bottom = u[..., 0, :], u[..., 1, :]
            phase = np.exp(1j * a[..., k + 1])[..., None]
            u = np.stack([c * top - s * bottom, (s * top + c * bottom) * phase], axis=-2)
        return zyz(u)

    def vjp(self, sums: Array, parameters: Array, overlap: Array | None = None) -> Array:
        """Derivatives by parameter [B, P] from those that the engine gathered, [B, gradients].

        overlap   Im <l|z> [B] of a loss with dL = 2 Re <l|dz> that is no expectation: what common phases add. It is 0
                  where l is an observable times z.
        """
        back = np.zeros((len(sums), len(self.forms.forms)))
        if overlap is not None:
            np.add.at(back.T, self.scalar[1], -2 * overlap)
            for run in self.runs:  # P(x) = e^(ix/2) exp(-i x/2 Z), and the engine gathered what Z does
                np.add.at(back.T, run.forms[:, ::2].ravel(), -overlap)
        gradients, forms = self._gradient_forms
        back[:, forms] = sums.take(gradients, axis=1)
        angles = self.forms.evaluate(parameters) if self.runs else None
        for run in self.runs:
            assert angles is not None
            self._run_vjp(back, sums, angles, run)
        return self.forms.vjp(back, self.columns)

    def _run_vjp(self, back: Array, sums: Array, angles: Array, run: Runs) -> None:
        """d/dangle of exp(-i angle/2 sigma) inside a run is Im <l| n.sigma |z> behind its fused rotation, n being the
        axis of sigma turned by what follows in the run, but for the phase behind that rotation."""
        wanted = run.gradients >= 0
        forms, at = run.forms[wanted], run.gradients[wanted]
        if not len(forms):
            return
        _, _, _, alpha = self._fused(angles, run)
        a = angles[:, forms]
        y, x, z = sums[:, at], sums[:, at + 1], sums[:, at + 2]
        turn = -alpha[:, wanted]
        vector = np.stack([x * np.cos(turn) + y * np.sin(turn), -x * np.sin(turn) + y * np.cos(turn), z], -1)  # R^T v
        for k in range(forms.shape[1] - 1, -1, -1):
            axis = 2 if k % 2 == 0 else 1
            back[:, forms[:, k]] = vector[..., axis]
            c, s = np.cos(a[..., k]), np.sin(a[..., k])
            i, j = ((0, 1), (2, 0))[k % 2]  # the plane that it turns: about z from x to y, about y from z to x
            p, q = vector[..., i], vector[..., j]
            vector[..., i], vector[..., j] = c * p + s * q, -s * p + c * q


def _slice_of(places: Array) -> Any:
    """Ascending places as a slice, where they are neighbours."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


def _put(values: Array, pairs: Any, angles: Array) -> None:
    """cos and sin of angles [B, K] into these pairs of slots. Those that all rows share, as a net's weights, are taken
    once: of many small states they take longer than the states."""
    held = values.reshape(len(values), values.shape[1] // 2, 2)
    shared = (angles == angles[0]).all(0) if len(angles) > 1 else np.zeros(0, bool)
    if shared.any():
        held[:, pairs] = np.stack([np.cos(angles[0]), np.sin(angles[0])], -1)
        own = np.flatnonzero(~shared)
        pairs, angles = np.arange(held.shape[1])[pairs][own], angles.take(own, axis=1)
    if isinstance(pairs, slice):
        np.cos(angles, out=held[:, pairs, 0])
        np.sin(angles, out=held[:, pairs, 1])
    elif len(pairs):
        held[:, pairs] = np.stack([np.cos(angles), np.sin(angles)], -1)
