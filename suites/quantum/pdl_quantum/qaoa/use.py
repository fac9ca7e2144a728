"""A trained QAOA circuit in use: what bit strings cost and how likely they are, in a run and in its bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import UsageError
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.runtime.bit_strings import BEST, LIKELY, PARTS, BitString
from pdl.runtime.pipeline import Pipeline
from pdl.train import Recipe
from pdl_quantum.card import card_of
from pdl_quantum.ops import circuit_state
from pdl_quantum.problems import Edges, MaxCut
from pdl_quantum.problems.bits import bits_of, text_of
from pdl_quantum.problems.pictures import cut
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


def reader(num_qubits: int) -> BitString:
    """What reads bit strings."""
    return BitString(PARTS[0], num_qubits)


def deployment(
    task: QAOA, model: Ansatz, recipe: Recipe, *, metrics: Mapping[str, float | None], licence: str
) -> Deployment:
    """A bundle that answers for bit strings."""
    n, count = model.circuit.num_qubits, Dim.symbol("n", 3)
    pre = {part: [{"step": "bit_string", "part": part, "num_qubits": n}] for part in PARTS}
    post = {STRINGS: [{"step": "bit_strings", **task.energy}]}
    steps = Pipeline.read({"pre": pre, "post": post}, task.bits, "the task's pipeline")
    assert steps is not None
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
        prepare=steps.prepare,
        labels=task.bits,
        card=card,
        licence=licence,
        about={**recipe.identity(), "parameters": model.theta.size},
    )


def render(model: Ansatz, names: Sequence[str], prediction: Mapping[str, Any], folder: Path) -> Path:
    """The graph of a trained Max-Cut circuit with the cut of a prediction, as BITS.svg; UsageError for other costs."""
    cost = model.held()[0]
    edges = [
        ([q for q, letter in enumerate(word) if letter != "I"], float(complex(c).real))
        for word, c in cost.terms.items()
    ]
    if not edges or any(len(ends) != 2 for ends, _ in edges):
        raise UsageError("this run's cost is that of no graph, so there is nothing to draw; leave out --save")
    graph = Edges.of([(*ends, weight) for ends, weight in edges], cost.num_qubits, list(names))
    text = str(prediction["bits"] if "bits" in prediction else prediction["strings"][0]["bits"])
    path = folder / f"{text}.svg"
    path.write_text(cut(MaxCut(graph), [int(bit) for bit in text]), encoding="utf-8")
    return path


__all__ = ["Asked", "deployment", "nothing", "reader", "render"]
