"""What of a trained circuit goes into a bundle: expectations of observables in its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.train import Deployer
from pdl_quantum.steps.pauli_words import PARTS
from pdl_quantum.variational.ansatz import Ansatz

if TYPE_CHECKING:
    from pdl_quantum.variational.task import Variational

ENERGY, OUTPUT, ANSWER = "energy", "expectations", "expectation"
SAMPLES = 6


class VariationalDeployer(Deployer):
    """A bundle that answers with expectations of observables in the trained state."""

    task: Variational

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        assert isinstance(model, Ansatz)
        circuit, count = model.circuit, Dim.symbol("n", 3)
        around = steps(circuit.num_qubits)
        return Deployment(
            module=ObservableQuery(model),
            inputs={PARTS[0]: Spec((count, circuit.num_qubits), int64), PARTS[1]: Spec((count,), int64)},
            outputs=(OUTPUT,),
            pre=around["pre"],
            post=around["post"],
            samples=observables(model),
            labels=labels(self.task.state_names() or self.task.names, model.num_states),
            about={**self.recipe.identity(), "parameters": model.theta.size},
        )

    def card(self, model: Module) -> Card:
        assert isinstance(model, Ansatz)
        circuit, names = model.circuit, self.task.state_names() or self.task.names
        states = listed(names)
        return Card(
            title=self.task.title(),
            summary=f"The state of a circuit of {circuit.num_qubits} qubits, {len(circuit)} gates and "
            f"{circuit.num_parameters} parameters, trained for {states or 'a problem of its own'}. It answers for "
            f'products of Pauli matrices ("Z0 Z1") and for "{ENERGY}" with their expectation, computed without '
            "sampling error.",
            protocol="Energies are expectations of the Hamiltonian; energy_error is the largest distance from exact.",
            use=f'    session = pdl.runtime.load("model.pdl")\n    session("{ENERGY}")\n\n'
            f"or `pdl predict model.pdl {ENERGY} 'Z0 Z1'`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        return ENERGY


class ObservableQuery(Module):
    """What a bundle answers: a word int64 [N, n], or where `named` int64 [N] is 1 the Hamiltonian of each state, to
    expectations [N, states]."""

    def __init__(self, model: Ansatz) -> None:
        self.model = model.settled()
        self.hamiltonians = model.held()

    def forward(self, word: pdl.Tensor, named: pdl.Tensor) -> pdl.Tensor:
        found, energies = self.model.expectations_of(word), self.model.energies(self.hamiltonians)
        return pdl.where(pdl.equal(named, 1).reshape((-1, 1)), energies.reshape((1, -1)), found)


def energy_query(num_qubits: int) -> tuple[pdl.Tensor, pdl.Tensor]:
    """The query for the energy, as `ObservableQuery` takes it."""
    return pdl.as_tensor(np.zeros((1, num_qubits), np.int64)), pdl.as_tensor(np.ones(1, np.int64))


def steps(num_qubits: int) -> dict[str, Any]:
    """The pipeline, as plain values: an observable to its numbers, expectations to a table."""
    pre = {part: [{"step": "pauli_word", "part": part, "num_qubits": num_qubits, "names": [ENERGY]}] for part in PARTS}
    return {"pre": pre, "post": {OUTPUT: [{"step": "values"}]}}


def labels(names: Sequence[str], count: int) -> list[str]:
    """Names of the numbers of an answer: one for each state, where there are several."""
    return [ANSWER] if count == 1 else list(names) or [str(number) for number in range(count)]


def observables(model: Ansatz) -> list[str]:
    """The energy, and some words of the Hamiltonian."""
    words = [word for word in model.held()[0].terms if set(word) != {"I"}][: SAMPLES - 1]
    return [ENERGY, *(written(word) for word in words)]


def written(word: str) -> str:
    """A word by letters and qubits: "ZIZ" is "Z0 Z2"."""
    return " ".join(f"{letter}{qubit}" for qubit, letter in enumerate(word) if letter != "I")
