"""Molecules from files: sums of Pauli words, or integrals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.files import read_text
from pdl.runtime.arrays import read_arrays
from pdl_quantum.chemistry.hamiltonian import MolecularHamiltonian
from pdl_quantum.chemistry.integrals import Integrals
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data.fcidump import read_fcidump

_LETTER = re.compile(r"([XYZ])(\d+)")
KEYS = ("one_body", "two_body", "constant", "num_electrons")


def read_molecule(path: str | Path, active: tuple[int, int] | None = None) -> MolecularHamiltonian:
    """The molecule of a file: *.json of Pauli words (`from_json`), *.npz of integrals (`from_npz`), FCIDUMP otherwise;
    of integrals with `active` (electrons, orbitals) only these."""
    file = Path(path)
    if not file.is_file():
        raise DataError(f"{path}: no such file")
    if file.suffix == ".json":
        if active is not None:
            raise DataError(f"{path}: holds Pauli words, of which no active space can be cut; give integrals")
        return from_json(file)
    read = from_npz(file) if file.suffix == ".npz" else read_fcidump(file)
    return (read if active is None else read.active(*active)).hamiltonian()


def from_json(file: Path) -> MolecularHamiltonian:
    """{"name", "n_qubits", "n_electrons", "terms": [["Z0Z1", 0.25], ...]}, "I" for the identity; "hf_energy" and
    "fci_energy" where they are known. Jordan-Wigner, spins alternating, as OpenFermion has them."""
    try:
        data: dict[str, Any] = json.loads(read_text(file))
        n = int(data["n_qubits"])
        terms = [(_word(text, n), float(value)) for text, value in data["terms"]]
        known = {name: None if data.get(name) is None else float(data[name]) for name in ("hf_energy", "fci_energy")}
        return MolecularHamiltonian(
            str(data.get("name", file.stem)), PauliSum(n, terms), int(data["n_electrons"]),
            hartree_fock=known["hf_energy"], exact=known["fci_energy"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise DataError(f"{file}: no molecule as a sum of Pauli words: {type(error).__name__}: {error}") from None


def _word(text: str, num_qubits: int) -> str:
    letters, end = ["I"] * num_qubits, 0
    for found in _LETTER.finditer("" if text == "I" else text):
        qubit = int(found[2])
        if found.start() != end or qubit >= num_qubits or letters[qubit] != "I":
            break
        letters[qubit], end = found[1], found.end()
    if end != (0 if text == "I" else len(text)):
        raise ValueError(f"{text!r} is no product such as X0Z3 on {num_qubits} qubits")
    return "".join(letters)


def from_npz(file: Path) -> Integrals:
    """Arrays `one_body` [n, n], `two_body` [n, n, n, n] (chemists' order), `constant`, `num_electrons`; and `spin`,
    the unpaired electrons, where there are some."""
    try:
        held = read_arrays(file)
    except (ValueError, OSError) as error:
        raise DataError(f"{file}: not a file of arrays ({error})") from None
    missing = [name for name in KEYS if name not in held]
    if missing:
        raise DataError(f"{file}: has no {', '.join(missing)}; integrals are {', '.join(KEYS)}, and maybe spin")
    try:
        one, two = (np.asarray(held[name], np.float64) for name in KEYS[:2])
        rest = {"num_electrons": int(held["num_electrons"]), "spin": int(held.get("spin", 0))}
        return Integrals(file.stem, one, two, float(held["constant"]), **rest)
    except (TypeError, ValueError) as error:
        raise DataError(f"{file}: {error}") from None
