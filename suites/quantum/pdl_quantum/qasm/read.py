"""OpenQASM of either version as circuits."""

from __future__ import annotations

import re
from pathlib import Path

from pdl.errors import DataError
from pdl.files import read_text
from pdl.hints import part
from pdl_quantum.circuits import Circuit
from pdl_quantum.qasm import read2, read3

MOST_TEXT = 16_000_000
_HEAD = re.compile(r"\s*(?:(?://[^\n]*|/\*.*?\*/)\s*)*OPENQASM\s+(\d+)(?:\.\d+)?\s*;", re.DOTALL)


def loads(text: str) -> Circuit:
    """The circuit of an OpenQASM program; the version is the one that it says, without one 3.

    q[k] of the first register is qubit k, later registers follow; likewise classical bits. Gate definitions are written
    out, but for those that are a gate of pdl by name and matrix. OpenQASM 3 is parsed by the package `openqasm3`; its
    inputs of angle or float become parameters, its loops with constant bounds are unrolled.

    Qubit 0 is the most significant of a state's index, of a bit string and of a Pauli word: |q0 q1 ...>. That is the
    reverse of Qiskit, which writes q[n-1] ... q[0]: to compare counts, states or observables of the same program with
    it, turn the strings round, and reverse the axes of the state.

    Errors: DataError with the line for what is no program, or what a circuit cannot hold (loops that depend on
    measurements, subroutines, classical arithmetic, timing); PackageError for version 3 without `openqasm3`.
    """
    if len(text) > MOST_TEXT:
        raise DataError(f"an OpenQASM program of {len(text):,} characters; up to {MOST_TEXT:,} are read")
    found = _HEAD.match(text)
    version = int(found[1]) if found else 3
    if version == 2:
        return read2.read(text)
    if version == 3:
        return read3.read(text)
    raise DataError(f"OpenQASM {version}: versions 2 and 3 are read")


@part
def load(path: str | Path) -> Circuit:
    """The circuit of an OpenQASM file, as `loads` reads it; DataError, with the file's name, where it cannot be."""
    try:
        text = read_text(path, 4 * MOST_TEXT)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    try:
        return loads(text)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
