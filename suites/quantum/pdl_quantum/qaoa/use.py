"""A trained QAOA circuit in use: what bit strings cost and how likely they are, in a run and in its bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.train import Recipe
from pdl_quantum.card import card_of
from pdl_quantum.ops import circuit_state
from pdl_quantum.problems.bits import bits_of, text_of
from pdl_quantum.steps.bit_strings import BEST, LIKELY, PARTS
from pdl_quantum.variational.ansatz import Ansatz

if TYPE_CHECKING:
    from pdl_quantum.qaoa.task import QAOA

STRINGS, ENERGY = "strings", "energy"
LARGEST, RESOLUTION = 256, 1e10
"""How many of the likeliest bit strings a bundle tells, and how finely it ranks their probabilities."""


class Asked(Module):
    """What a bundle answers: bits int64 [N, n] and what is asked of each, int64 [N] (0: these bits, 1: the likeliest
    ones, 2: these by energy) to rows [N, L, n + 2] of bits, probability (-1: no row) and energy; and the energy of the
    state, [N]."""

    def __init__(self, model: Ansatz) -> None:
        self.model, self.hamiltonians = model, model.held()
        self.largest = min(LARGEST, 1 << model.circuit.num_qubits)

    def forward(self, bits: pdl.Tensor, asked: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        model, n, rows = self.model, self.model.circuit.num_qubits, self.largest
        state = circuit_state(model.circuit, model.theta)[0]
        chances = (state * state).sum(axis=0)
        shifts = pdl.as_tensor(1 << np.arange(n - 1, -1, -1, dtype=np.int64))
        _, index = pdl.topk(pdl.round(chances * RESOLUTION), rows)  # equal ones by their bits, whatever the last digit
        likely = pdl.take(chances, index, axis=0)
        strings = pdl.remainder(pdl.floor_divide(index.reshape((-1, 1)), shifts), 2)
        energies = self.energies(strings)
        table = pdl.concat([strings.astype(pdl.float64), likely.reshape((-1, 1)), energies.reshape((-1, 1))], axis=1)
        best = pdl.take(table, pdl.argsort(energies), axis=0)

        own = pdl.take(chances, (bits * shifts).sum(axis=1), axis=0)
        mine = pdl.stack([own, self.energies(bits)], axis=1)
        one = pdl.concat([bits.astype(pdl.float64), mine], axis=1).reshape((-1, 1, n + 2))
        top = pdl.as_tensor(np.arange(rows).reshape(1, rows, 1) == 0)
        first = pdl.where(top, one, pdl.as_tensor(np.full((1, 1, n + 2), -1.0)))  # the rows behind it are none

        which = asked.reshape((-1, 1, 1))
        found = pdl.where(which == 0, first, pdl.where(which == 1, table, best))
        return found, own * 0.0 + model.energies(self.hamiltonians)

    def energies(self, bits: pdl.Tensor) -> pdl.Tensor:
        """Of bit strings int [N, n], float64 [N]."""
        words = pdl.where(self.model.words == 3, 1.0, 0.0).astype(pdl.float64)  # 3 is Z
        odd = pdl.remainder(bits.astype(pdl.float64) @ words.T, 2.0)
        return (1.0 - 2.0 * odd) @ self.model.coefficients[0]


def nothing(num_qubits: int) -> tuple[pdl.Tensor, pdl.Tensor]:
    """A question whose answer is not looked at."""
    return pdl.as_tensor(np.zeros((1, num_qubits), np.int64)), pdl.as_tensor(np.zeros(1, np.int64))


def deployment(
    task: QAOA, model: Ansatz, recipe: Recipe, *, metrics: Mapping[str, float | None], licence: str
) -> Deployment:
    """A bundle that answers for bit strings."""
    n, count = model.circuit.num_qubits, Dim.symbol("n", 3)
    pre = {part: [{"step": "bit_string", "part": part, "num_qubits": n}] for part in PARTS}
    edges = edges_of(model)
    post = {STRINGS: [{"step": "bit_strings", **task.energy, **({"edges": edges} if edges else {})}]}
    what = ", ".join(task.names)
    card = card_of(
        task.title(recipe),
        f"A circuit of {n} qubits, {len(model.circuit)} gates and {model.circuit.num_parameters} parameters, trained "
        f"for {what}: its samples are answers. It tells the energy and the probability of bit strings, the likeliest "
        f'ones ("{LIKELY}"), and these by energy ("{BEST}").',
        recipe,
        metrics,
        protocol=f"Energies and probabilities are exact; the best sample is that of {task.shots} draws.",
        use=f'    session = pdl.runtime.load("model.pdl")\n    session("{BEST}")\n\n'
        f"or `pdl predict model.pdl {BEST} --topk 5`.",
        licence=licence,
    )
    some = np.random.default_rng(0).integers(0, 1 << n, 4)
    return Deployment(
        module=Asked(model),
        inputs={PARTS[0]: Spec((count, n), int64), PARTS[1]: Spec((count,), int64)},
        outputs=(STRINGS, ENERGY),
        pre=pre,
        post=post,
        samples=[text_of(row) for row in bits_of(some, n)] + [LIKELY, BEST],
        labels=task.bits,
        card=card,
        licence=licence,
        about={**recipe.identity(), "parameters": model.theta.size},
    )


def edges_of(model: Ansatz) -> list[list[float]]:
    """[a, b, weight] of the edges of the graph whose cut the cost is; none where it is that of no graph."""
    terms = model.held()[0].terms
    edges = [[*_ends(word), float(complex(weight).real)] for word, weight in terms.items()]
    return edges if all(len(edge) == 3 for edge in edges) else []


def _ends(word: str) -> list[int]:
    return [qubit for qubit, letter in enumerate(word) if letter != "I"]


__all__ = ["Asked", "deployment", "edges_of", "nothing"]
