"""Splits of molecules: by chance, or so that those of the test have other ring systems than those learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TRAIN, VAL = 0.8, 0.9  # where the shares of all molecules end


def scaffold_of(molecule: Any) -> str:
    """The scaffold of Bemis and Murcko (J. Med. Chem. 39, 2887, 1996) as SMILES, without chirality: the rings and what
    connects them, substituents cut off. "" where there is no ring. `molecule` is RDKit's."""
    from rdkit.Chem.Scaffolds import MurckoScaffold

    return str(MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=False))


def scaffold_split(scaffolds: Sequence[str]) -> np.ndarray:
    """The part of each molecule, int64 [N]: 0 train, 1 val, 2 test; those of one scaffold stay together.

    Scaffolds go, the one with most molecules first, of equally many the one that appears last in the file first, to
    train as long as that stays within 80 % of all molecules, else to val, as long as train and val stay within 90 %,
    else to test: the split of MoleculeNet (Wu et al., arXiv 1703.00564, section 3.2). Nothing is drawn.
    """
    n = len(scaffolds)
    members: dict[str, list[int]] = {}
    for number, scaffold in enumerate(scaffolds):
        members.setdefault(scaffold, []).append(number)
    found, held = np.empty(n, np.int64), [0, 0, 0]
    for rows in sorted(members.values(), key=lambda rows: (len(rows), rows[0]), reverse=True):
        if held[0] + len(rows) <= TRAIN * n:
            part = 0
        else:
            part = 1 if held[0] + held[1] + len(rows) <= VAL * n else 2
        found[rows] = part
        held[part] += len(rows)
    return found


def random_split(n: int, seed: int) -> np.ndarray:
    """The part of each of n molecules by chance, int64 [n]: 80 % train (0), 10 % val (1), the rest test (2)."""
    found = np.full(n, 2, np.int64)
    order = np.random.default_rng(seed).permutation(n)
    found[order[: int(VAL * n)]] = 1
    found[order[: int(TRAIN * n)]] = 0
    return found
