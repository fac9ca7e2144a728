"""The handwritten digits that ship with pdl, as amplitudes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pdl.data import ArrayDataset
from pdl.data.optdigits import optdigits
from pdl.data.splits import check_ratios, stratified_split
from pdl.errors import ConfigError
from pdl_quantum.data.table import RATIOS


class Digits(ArrayDataset):
    """Optical recognition of handwritten digits (Alpaydin, Kaynak; UCI, 1998; CC BY 4.0): 1797 images of 8 x 8, gray:
    {"image": uint8 [8, 8, 1], "label": int}, 64 amplitudes of six qubits.

    split     train, val or test (70, 10 and 20 % of each class unless `ratios` says otherwise, drawn with `seed`; the
              same writers are in all), or all
    classes   only these digits, numbered in this order
    """

    def __init__(
        self,
        *,
        split: str = "train",
        classes: Sequence[str] = tuple("0123456789"),
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        parts = check_ratios("Digits", RATIOS if ratios is None else ratios)
        if split not in (*parts, "all"):
            raise ConfigError(f"Digits: split={split!r} is none of {', '.join(parts)}, all")
        names = [str(each) for each in classes]
        if len(set(names)) < len(names) or len(names) < 2 or set(names) - set("0123456789"):
            raise ConfigError(f"Digits: classes={names} must be two or more different ones of 0 to 9")
        images, labels = optdigits()
        rows = np.arange(len(labels)) if split == "all" else stratified_split(labels, parts, split, seed=seed)
        rows = rows[np.isin(labels[rows], [int(name) for name in names])]
        numbered = np.array([names.index(str(label)) for label in labels[rows]], np.int64)
        super().__init__(image=images[rows], label=numbered, classes=names)

