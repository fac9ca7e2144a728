"""`SubspaceAnsatz`: one circuit on several basis states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

import pdl
from pdl.errors import ConfigError
from pdl.hints import Inferred, Inherited, Range
from pdl_quantum.circuits import Circuit, PauliSum, states
from pdl_quantum.ops import circuit_expectation, pauli_words
from pdl_quantum.variational.ansatz import INFERRED, Ansatz

Array = np.ndarray


class SubspaceAnsatz(Ansatz):
    """U(theta)|b_0>, U(theta)|b_1>, ...: states that are orthogonal whatever theta is (Nakanishi et al., arXiv
    1810.09434).

    references   the basis states b, such as ["00", "10"], different ones: what goes into the circuit, so "0000" gives
                 the Hartree-Fock state where the circuit begins by preparing that
    circuit, initial, scale, rows, terms   as in `Ansatz`, for one problem
    """

    def __init__(
        self,
        circuit: Annotated[Circuit, Inferred(*INFERRED)],
        references: Sequence[str],
        *,
        rows: Annotated[int, Range(1)] | None = None,
        **options: Inherited,
    ) -> None:
        if rows not in (None, 1):
            raise ConfigError(f"model: several states of one problem; data.train has {rows}")
        if not references or len(set(references)) < len(references):
            raise ConfigError(f"references={list(references)} must be different basis states, one at least")
        self.circuits = [_from(circuit, bits) for bits in references]
        super().__init__(circuit, rows=rows, **options)

    @property
    def num_states(self) -> int:
        return len(self.circuits)

    def forward(self, observables: Sequence[PauliSum]) -> pdl.Tensor:
        """Expectations [num_states, K]."""
        return pdl.concat([circuit_expectation(each, observables, self.theta) for each in self.circuits], axis=0)

    def expectations_of(self, words: pdl.Tensor) -> pdl.Tensor:
        return pdl.concat([pauli_words(each, self.theta, words) for each in self.circuits], axis=1)

    def states(self) -> Array:
        return np.concatenate([states(each, self.theta.detach().numpy()) for each in self.circuits])


def _from(circuit: Circuit, bits: str) -> Circuit:
    """The circuit on a basis state."""
    if len(bits) != circuit.num_qubits or set(bits) - {"0", "1"}:
        raise ConfigError(f"references: {bits!r} is no basis state of {circuit.num_qubits} qubits, such as "
                          f"{'0' * circuit.num_qubits!r}")  # fmt: skip
    ones = [qubit for qubit, bit in enumerate(bits) if bit == "1"]
    start = Circuit(circuit.num_qubits)
    for name, parameter in circuit.parameters.items():  # in their order, and whole
        start.parameter(name, parameter.shape)
    return (start.x(*ones) if ones else start).append(circuit)
