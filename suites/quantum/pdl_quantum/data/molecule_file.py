"""Molecules from files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pdl.circuits import PauliSum
from pdl.errors import DataError, UsageError
from pdl_quantum.chemistry.hamiltonian import MolecularHamiltonian

_LETTER = re.compile(r"([XYZ])(\d+)")


def read_molecule(path: str | Path) -> MolecularHamiltonian:
    """The molecule of a file, by its suffix."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{path}: no such file")
    return from_json(file)


def from_json(file: Path) -> MolecularHamiltonian:
    """A sum of Pauli words: {"name", "n_qubits", "n_electrons", "terms": [["Z0Z1", 0.25], ...]}, "I" for the identity;
    "hf_energy" and "fci_energy" where they are known. Jordan-Wigner, spins alternating."""
    try:
        told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        n = int(told["n_qubits"])
        terms = [(_word(text, n), float(value)) for text, value in told["terms"]]
        known = {name: None if told.get(name) is None else float(told[name]) for name in ("hf_energy", "fci_energy")}
        return MolecularHamiltonian(
            str(told.get("name", file.stem)), PauliSum(n, terms), int(told["n_electrons"]),
            hartree_fock=known["hf_energy"], exact=known["fci_energy"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise DataError(f"{file}: no molecule as a sum of Pauli words: {type(error).__name__}: {error}") from None


def _word(text: str, num_qubits: int) -> str:
    letters, end = ["I"] * num_qubits, 0
    for found in _LETTER.finditer("" if text == "I" else text):
        if found.start() != end or int(found[2]) >= num_qubits:
            break
        letters[int(found[2])], end = found[1], found.end()
    if end != (0 if text == "I" else len(text)):
        raise ValueError(f"{text!r} is no product such as X0Z3 on {num_qubits} qubits")
    return "".join(letters)


__all__ = ["from_json", "read_molecule"]
