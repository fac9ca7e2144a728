"""FCIDUMP files of integrals (Knowles & Handy, Computer Physics Communications 54, 75, 1989)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from pdl.errors import DataError
from pdl.files import read_text
from pdl_quantum.chemistry.integrals import Integrals

MOST = 32
"""Orbitals; more make no Hamiltonian that a simulator could take."""
_NUMBER = re.compile(r"\b(NORB|NELEC|MS2|IUHF)\s*=\s*(-?\d+)")
_END = re.compile(r"^\s*(/|&END\b)|/\s*$", re.IGNORECASE)


def read_fcidump(file: Path) -> Integrals:
    """The integrals of a file: a namelist with NORB, NELEC and maybe MS2, then lines `value i j k l` from 1: (ij|kl),
    h_ij where k = l = 0, the constant where all are 0; one of those that symmetry makes equal. Restricted orbitals."""
    try:
        lines = read_text(file, encoding="ascii").splitlines()
    except (UnicodeDecodeError, OSError) as error:
        raise DataError(f"{file}: not an FCIDUMP file ({error})") from None
    end = next((number for number, line in enumerate(lines) if _END.search(line)), None)
    if end is None or "&FCI" not in lines[0].upper():
        raise DataError(f"{file}:1: not an FCIDUMP file: it begins with &FCI and a namelist that ends with / or &END")
    header = {name: int(value) for name, value in _NUMBER.findall(" ".join(lines[: end + 1]).upper())}
    n = header.get("NORB", 0)
    if not 0 < n <= MOST or "NELEC" not in header:
        raise DataError(f"{file}:1: NORB={n} must be from 1 to {MOST}, and NELEC be given")
    if header.get("IUHF"):
        raise DataError(f"{file}:1: IUHF: orbitals that differ by spin are not read; write restricted ones")
    one, two, constant = np.zeros((n, n)), np.zeros((n,) * 4), 0.0
    for number, line in enumerate(lines[end + 1 :], end + 2):
        if not line.strip():
            continue
        value, (i, j, k, l) = _line(line, n, f"{file}:{number}")  # noqa: E741
        if k and l and i and j:
            for a, b in ((i - 1, j - 1), (j - 1, i - 1)):
                for c, d in ((k - 1, l - 1), (l - 1, k - 1)):
                    two[a, b, c, d] = two[c, d, a, b] = value
        elif i and j:
            one[i - 1, j - 1] = one[j - 1, i - 1] = value
        elif not i:
            constant = value  # else an orbital's energy, which is no part of the Hamiltonian
    return Integrals(file.stem, one, two, constant, header["NELEC"], header.get("MS2", 0))


def _line(line: str, n: int, where: str) -> tuple[float, tuple[int, ...]]:
    parts = line.replace("D", "E").replace("d", "e").split()
    try:
        value, places = float(parts[0]), tuple(int(part) for part in parts[1:])
    except (ValueError, IndexError):
        raise DataError(f"{where}: {line.strip()[:60]!r} is no `value i j k l`") from None
    if len(places) != 4 or not all(0 <= place <= n for place in places):
        raise DataError(f"{where}: {line.strip()[:60]!r}: expected four numbers of orbitals, 0 to {n}")
    return value, places
