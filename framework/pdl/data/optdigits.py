"""The handwritten digits that ship with pdl, for data sets of several suites."""

from __future__ import annotations

from importlib import resources

import numpy as np

from pdl.dtype import Array

FILE = resources.files("pdl.data") / "files" / "optdigits.npz"


def optdigits() -> tuple[Array, Array]:
    """The 1797 images of the test part of Optical Recognition of Handwritten Digits (Alpaydin, Kaynak; UCI, 1998; CC BY
    4.0): uint8 [1797, 8, 8, 1], their values 0..16 scaled to 0..255 as round(255 v / 16), and labels int64 [1797].
    """
    with FILE.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        images, labels = data["images"], data["labels"]
    return np.rint(images * (255 / 16)).astype(np.uint8)[..., None], labels.astype(np.int64)
