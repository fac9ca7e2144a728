"""Templates by name, for those who choose one by a word."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pdl.errors import UsageError
from pdl.suites import suggest
from pdl_quantum.chemistry.uccsd import uccsd
from pdl_quantum.circuits import Circuit
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
from pdl_quantum.templates.qaoa import qaoa, w_state
from pdl_quantum.templates.qft import phase_estimation, qft
from pdl_quantum.templates.trotter import trotter

TEMPLATES: dict[str, Callable[..., Circuit]] = {
    each.__name__: each
    for each in (
        basic_entangler, dicke_state, diffuser, excitation_preserving, grover, hardware_efficient, iqp,
        phase_estimation, qaoa, qft, real_amplitudes, strongly_entangling, trotter, uccsd, w_state,
    )
}  # fmt: skip
"""Functions that build a circuit, by their names."""


def template(name: str, /, *arguments: Any, **options: Any) -> Circuit:
    """The circuit of a template by name: `template("real_amplitudes", 4, layers=2)`.

    Errors: UsageError where there is no such template, where it knows no such option, or one that it needs is missing.
    """
    if name not in TEMPLATES:
        raise UsageError(f"there is no template {name!r}{suggest(name, TEMPLATES)}; there are {', '.join(TEMPLATES)}")
    signature = inspect.signature(TEMPLATES[name])
    strange = [key for key in options if key not in signature.parameters]
    if strange:
        raise UsageError(f"template {name} has no option {strange[0]!r}{suggest(strange[0], signature.parameters)}; it "
                         f"takes {', '.join(signature.parameters)}")  # fmt: skip
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        raise UsageError(f"template {name}: {error}; it takes {', '.join(signature.parameters)}") from None
    return TEMPLATES[name](*arguments, **options)
