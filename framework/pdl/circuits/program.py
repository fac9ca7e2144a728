"""A compiled circuit: the stream of its program, and how parameters become its values and derivatives."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

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

    def evaluate(self, parameters: Array) -> Array:
        """[B, P] -> [B, K]."""
        offsets, which, column, value = self._sparse
        made = np.tile(offsets, (len(parameters), 1))
        if len(which):
            products = parameters[:, column] * value
            if len(np.unique(which)) == len(which):
                made[:, which] += products
            else:
                np.add.at(made.T, which, products.T)
        return made

    def pull(self, gradient: Array, columns: int) -> Array:
        """[B, K] -> [B, P]."""
        _, which, column, value = self._sparse
        made = np.zeros((len(gradient), columns))
        if len(which):
            np.add.at(made.T, column, (gradient[:, which] * value).T)
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
    pulls     [G, 2]: gradient place and form
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
    pulls: Array
    runs: tuple[Runs, ...]

    def bind(self, parameters: Array) -> Array:
        """Parameters float64 [B, P] -> values float64 [B, slots]."""
        angles = self.forms.evaluate(parameters)
        values = np.zeros((len(parameters), self.slots))
        values[:, self.fixed[0]] = self.fixed[1]
        common = angles[:, self.scalar[1]].sum(1)
        for table, factor in ((self.units, 1.0), (self.halves, 0.5)):
            turned = angles[:, table[:, 1]] * factor
            _put(values, table[:, 0], turned)
        for run in self.runs:
            phi, gamma, beta, alpha = self._fused(angles, run)
            common = common + phi.sum(1)
            _put(values, run.slots[:, 0], gamma)
            _put(values, run.slots[:, 1], beta / 2)
            _put(values, run.slots[:, 2], alpha)
        if self.scalar[0] >= 0:
            values[:, self.scalar[0]], values[:, self.scalar[0] + 1] = np.cos(common), np.sin(common)
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

    def pull(self, sums: Array, parameters: Array, overlap: Array | None = None) -> Array:
        """Derivatives by parameter [B, P] from those that the engine gathered, [B, gradients].

        overlap   Im <l|z> [B] of a loss with dL = 2 Re <l|dz> that is no expectation: what common phases add. It is 0
                  where l is an observable times z.
        """
        back = np.zeros((len(sums), len(self.forms.forms)))
        if overlap is not None:
            np.add.at(back.T, self.scalar[1], -2 * overlap)
            for run in self.runs:  # P(x) = e^(ix/2) exp(-i x/2 Z), and the engine gathered what Z does
                np.add.at(back.T, run.forms[:, ::2].ravel(), -overlap)
        if len(self.pulls):
            np.add.at(back.T, self.pulls[:, 1], sums[:, self.pulls[:, 0]].T)
        angles = self.forms.evaluate(parameters) if self.runs else None
        for run in self.runs:
            assert angles is not None
            self._pull_run(back, sums, angles, run)
        return self.forms.pull(back, self.columns)

    def _pull_run(self, back: Array, sums: Array, angles: Array, run: Runs) -> None:
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
            np.add.at(back.T, forms[:, k], vector[..., axis].T)
            c, s = np.cos(a[..., k]), np.sin(a[..., k])
            i, j = ((0, 1), (2, 0))[k % 2]  # the plane that it turns: about z from x to y, about y from z to x
            p, q = vector[..., i], vector[..., j]
            vector[..., i], vector[..., j] = c * p + s * q, -s * p + c * q


def _put(values: Array, slots: Array, angles: Array) -> None:
    values[:, slots], values[:, slots + 1] = np.cos(angles), np.sin(angles)


__all__ = ["Compiled", "Form", "Forms", "Runs", "zyz"]
