"""How numbers become states: encodings of classical data."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Literal

import numpy as np

import pdl
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_quantum.circuits import Circuit, Parameter

Qubits = Annotated[int, Range(1, 26)] | None


class Encoding:
    """Base of the encodings. A subclass says how many qubits numbers take and by which circuit or which state.

        encoding = AngleEncoding()
        circuit = encoding.circuit(4)             # its parameter is x
        z = states(circuit, {"x": [0.1, 0.2, 0.3, 0.4]})
    """

    def qubits(self, num_features: int) -> int:
        """Of how many qubits the state of so many numbers is."""
        raise NotImplementedError(f"{type(self).__name__} must define qubits")

    def circuit(self, num_features: int) -> Circuit:
        """What makes the state of |0...0>; its parameter x has an entry for each of `angles`."""
        return Circuit(self.qubits(num_features))

    def angles(self, x: Tensor) -> Tensor | None:
        """Numbers [B, D] -> the values of the circuit's x, [B, m]; None where the circuit has none."""
        return x

    def states(self, x: Tensor) -> Tensor | None:
        """Numbers [B, D] -> real states [B, 2^n] to begin with, or None for |0...0>."""
        return None


class AngleEncoding(Encoding):
    """A number is the angle of a rotation: for each letter a of `axes` exp(-i x_k/2 a), on qubit k, k + D, ...

    num_qubits   by default one for each number; with more the numbers begin again
    """

    def __init__(
        self, *, axes: Literal["x", "y", "z", "xz", "yz", "zy", "xyz", "zyz"] = "y", num_qubits: Qubits = None
    ) -> None:
        self.axes, self.num_qubits = axes, num_qubits

    def qubits(self, num_features: int) -> int:
        if self.num_qubits is not None and self.num_qubits < num_features:
            raise ConfigError(
                f"AngleEncoding: {num_features} numbers on num_qubits={self.num_qubits}; give each a qubit, or use "
                "AmplitudeEncoding, or a Linear in front"
            )
        return self.num_qubits or num_features

    def circuit(self, num_features: int) -> Circuit:
        made = Circuit(self.qubits(num_features))
        x = made.parameter("x", (num_features,))
        for axis in self.axes:
            for q in range(made.num_qubits):
                made.gate(f"r{axis}", x[q % num_features], q)
        return made


class BasisEncoding(Encoding):
    """A bit is a qubit: x in {0, 1}^D becomes |x> (by X rotations of pi x, so up to a phase)."""

    def qubits(self, num_features: int) -> int:
        return num_features

    def circuit(self, num_features: int) -> Circuit:
        return Circuit(num_features).rx(Parameter("x", (num_features,)))

    def angles(self, x: Tensor) -> Tensor:
        return x * np.pi


class AmplitudeEncoding(Encoding):
    """Numbers are amplitudes: sum_k x_k |k> / ||x||, zeros behind the end. The state of numbers that are all zero is
    |0...0>."""

    def qubits(self, num_features: int) -> int:
        return max(1, (num_features - 1).bit_length())

    def angles(self, x: Tensor) -> None:
        return None

    def states(self, x: Tensor) -> Tensor:
        rest = (1 << self.qubits(x.shape[1])) - x.shape[1]
        squares = (x * x).sum(axis=1, keepdims=True)
        empty = (squares <= 0).astype(x.dtype)
        first = np.eye(1, x.shape[1], dtype=x.dtype)
        made = (x + empty * first) / pdl.sqrt(squares + empty)
        return pdl.pad(made, ((0, 0), (0, rest))) if rest else made


class IQPEncoding(Encoding):
    """Instantaneous quantum polynomials (Havlicek et al., arXiv 1804.11326): `repeats` times Hadamards on all qubits,
    then exp(-i/2 sum_k x_k Z_k - i/2 sum_kl x_k x_l Z_k Z_l), the pairs being all, or neighbours in a line."""

    def __init__(self, *, repeats: Annotated[int, Range(1)] = 2, pairs: Literal["all", "line"] = "all") -> None:
        self.repeats, self.pairs = repeats, pairs

    def qubits(self, num_features: int) -> int:
        return num_features

    def _pairs(self, n: int) -> list[tuple[int, int]]:
        return list(combinations(range(n), 2)) if self.pairs == "all" else [(k, k + 1) for k in range(n - 1)]

    def circuit(self, num_features: int) -> Circuit:
        pairs = self._pairs(num_features)
        made = Circuit(num_features)
        x = made.parameter("x", (num_features + len(pairs),))
        for _ in range(self.repeats):
            made.h().rz(x[:num_features])
            for number, (a, b) in enumerate(pairs):
                made.rzz(x[num_features + number], a, b)
        return made

    def angles(self, x: Tensor) -> Tensor:
        pairs = np.array(self._pairs(x.shape[1]), np.int64).reshape(-1, 2)
        if not len(pairs):
            return x
        first, second = (pdl.take(x, pdl.as_tensor(pairs[:, side]), axis=1) for side in (0, 1))
        return pdl.concat([x, first * second], axis=1)
