"""Circuits by recipe: each function builds one, with parameters whose shapes it states. A config names them as
`{_target_: pdl_quantum.templates.real_amplitudes, num_qubits: 4, layers: 2}`."""

from pdl_quantum.chemistry.uccsd import uccsd
from pdl_quantum.templates.dicke import dicke_state
from pdl_quantum.templates.entangling import (
    basic_entangler,
    excitation_preserving,
    hardware_efficient,
    real_amplitudes,
    strongly_entangling,
)
from pdl_quantum.templates.grover import diffuser, grover
from pdl_quantum.templates.iqp import iqp
from pdl_quantum.templates.patterns import pairs
from pdl_quantum.templates.prepared import prepared_state
from pdl_quantum.templates.qaoa import qaoa, w_state
from pdl_quantum.templates.qft import phase_estimation, qft
from pdl_quantum.templates.registry import TEMPLATES, template
from pdl_quantum.templates.trotter import trotter
