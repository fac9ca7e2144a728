"""`PreparedAnsatz`: a circuit behind a given state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from pdl.errors import ConfigError
from pdl.hints import Inferred, Inherited
from pdl_quantum.circuits import Circuit
from pdl_quantum.templates.prepared import prepared_state
from pdl_quantum.variational.ansatz import INFERRED, Ansatz


class PreparedAnsatz(Ansatz):
    """A circuit that acts on the first qubits of a given pure state: on a mixed state, where the others are traced out.

    circuit   on the first qubits, its parameters are learned;    initial, scale  as of `Ansatz`
    state     [real parts, imaginary parts] of the amplitudes,    rows, terms  from the data
    """

    def __init__(
        self,
        circuit: Annotated[Circuit, Inferred(*INFERRED)],
        *,
        state: Sequence[Sequence[float]] | None = None,
        **options: Inherited,
    ) -> None:
        if state is None or len(state) != 2:
            raise ConfigError("model: a PreparedAnsatz needs a state; leave it out, and it comes from the data")
        self.state = [[float(part) for part in parts] for parts in state]
        whole = prepared_state(np.array(state[0], np.float64) + 1j * np.array(state[1], np.float64))
        whole.append(circuit)
        super().__init__(whole, **options)
