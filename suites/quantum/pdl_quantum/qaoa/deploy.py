"""What of a trained QAOA circuit goes into a bundle: what bit strings cost, and how likely they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl_quantum.ops import circuit_state
from pdl_quantum.problems.bits import bits_of, text_of
from pdl_quantum.steps.bit_strings import BEST, LIKELY, PARTS
from pdl_quantum.variational.ansatz import Ansatz
from pdl_quantum.variational.deploy import VariationalDeployer

if TYPE_CHECKING:
    from pdl_quantum.qaoa.task import QAOA

STRINGS, ENERGY = "strings", "energy"
LARGEST, RESOLUTION = 256, 1e10
"""How many of the likeliest bit strings a bundle tells, and how finely it ranks their probabilities."""


class QAOADeployer(VariationalDeployer):
    """A bundle that answers for bit strings."""

    task: QAOA

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        assert isinstance(model, Ansatz)
        n, count, edges = model.circuit.num_qubits, Dim.symbol("n", 3), edges_of(model)
        known = {"edges": edges} if edges else {}
        some = np.random.default_rng(0).integers(0, 1 << n, 4)
        return Deployment(
            module=BitStringQuery(model),
            inputs={PARTS[0]: Spec((count, n), int64), PARTS[1]: Spec((count,), int64)},
            outputs=(STRINGS, ENERGY),
            pre={part: [{"step": "bit_string", "part": part, "num_qubits": n}] for part in PARTS},
            post={STRINGS: [{"step": "bit_strings", **self.task.energy, **known}]},
            samples=[text_of(row) for row in bits_of(some, n)] + [LIKELY, BEST],
            labels=self.task.bits,
            about={**self.recipe.identity(), "parameters": model.theta.size},
        )

    def card(self, model: Module) -> Card:
        assert isinstance(model, Ansatz)
        circuit = model.circuit
        return Card(
            title=self.task.title(),
            summary=f"A circuit of {circuit.num_qubits} qubits, {len(circuit)} gates and {circuit.num_parameters} "
            f"parameters, trained for {', '.join(self.task.names)}: its samples are answers. It gives the energy and "
            f'the probability of bit strings, the likeliest ones ("{LIKELY}"), and these by energy ("{BEST}").',
            protocol=f"Energies and probabilities are exact; the best sample is that of {self.task.shots} draws.",
            use=f'    session = pdl.runtime.load("model.pdl")\n    session("{BEST}")\n\n'
            f"or `pdl predict model.pdl {BEST} --topk 5`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        return BEST


class BitStringQuery(Module):
    """What a bundle answers: bits int64 [N, n] and a selector for each, int64 [N] (0: these bits, 1: the likeliest
    ones, 2: these by energy) to rows [N, L, n + 2] of bits, probability (-1: no row) and energy; and the energy of the
    state, [N]."""

    def __init__(self, model: Ansatz) -> None:
        self.model, self.hamiltonians = model, model.held()
        self.largest = min(LARGEST, 1 << model.circuit.num_qubits)

    def forward(self, bits: pdl.Tensor, selector: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        model, n, rows = self.model, self.model.circuit.num_qubits, self.largest
        state = circuit_state(model.circuit, model.theta)[0]
        probabilities = (state * state).sum(axis=0)
        shifts = pdl.as_tensor(1 << np.arange(n - 1, -1, -1, dtype=np.int64))
        rounded = pdl.round(probabilities * RESOLUTION)  # so that equal ones are ordered by their bits
        _, index = pdl.topk(rounded, rows)
        likely = pdl.take(probabilities, index, axis=0)
        strings = pdl.remainder(pdl.floor_divide(index.reshape((-1, 1)), shifts), 2)
        energies = self.energies(strings)
        table = pdl.concat([strings.astype(pdl.float64), likely.reshape((-1, 1)), energies.reshape((-1, 1))], axis=1)
        best = pdl.take(table, pdl.argsort(energies), axis=0)

        own = pdl.take(probabilities, (bits * shifts).sum(axis=1), axis=0)
        mine = pdl.stack([own, self.energies(bits)], axis=1)
        one = pdl.concat([bits.astype(pdl.float64), mine], axis=1).reshape((-1, 1, n + 2))
        top = pdl.as_tensor(np.arange(rows).reshape(1, rows, 1) == 0)
        first = pdl.where(top, one, pdl.as_tensor(np.full((1, 1, n + 2), -1.0)))  # the rows behind it are none

        which = selector.reshape((-1, 1, 1))
        found = pdl.where(which == 0, first, pdl.where(which == 1, table, best))
        return found, own * 0.0 + model.energies(self.hamiltonians)

    def energies(self, bits: pdl.Tensor) -> pdl.Tensor:
        """Of bit strings int [N, n], float64 [N]."""
        words = pdl.where(self.model.words == 3, 1.0, 0.0).astype(pdl.float64)  # 3 is Z
        odd = pdl.remainder(bits.astype(pdl.float64) @ words.T, 2.0)
        return (1.0 - 2.0 * odd) @ self.model.coefficients[0]


def any_query(num_qubits: int) -> tuple[pdl.Tensor, pdl.Tensor]:
    """A query, for the energy that comes with every answer."""
    return pdl.as_tensor(np.zeros((1, num_qubits), np.int64)), pdl.as_tensor(np.zeros(1, np.int64))


def edges_of(model: Ansatz) -> list[list[float]]:
    """[a, b, weight] of the edges of the graph whose cut the cost is; none where it is that of no graph."""
    terms = model.held()[0].terms
    edges = [[*_ends(word), float(complex(weight).real)] for word, weight in terms.items()]
    return edges if all(len(edge) == 3 for edge in edges) else []


def _ends(word: str) -> list[int]:
    return [qubit for qubit, letter in enumerate(word) if letter != "I"]
