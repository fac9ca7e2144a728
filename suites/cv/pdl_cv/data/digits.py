"""The handwritten digits that ship with pdl, as images of ten classes."""

from __future__ import annotations

from collections.abc import Mapping

from pdl.data.optdigits import FILE, optdigits
from pdl.hints import Inherited
from pdl_cv.data.base import ImageArrays

RATIOS = {"train": 0.7, "val": 0.1, "test": 0.2}


class Digits(ImageArrays):
    """Optical recognition of handwritten digits (Alpaydin, Kaynak; UCI, 1998; CC BY 4.0): 1797 images of 8 x 8, gray.

    These are the 1797 images of the original's test part, values 0..16 scaled to 0..255 (round(255 v / 16)). They
    have no official split; by default 70 % of each class are train, 10 % val and 20 % test, drawn with `seed`, so the
    same writers are in all splits.

    split   train, val, test (the names in `ratios`), or all
    ratios  shares of all 1797; by default 0.7, 0.1 and 0.2
    All else is as in `ImageArrays`.
    """

    def __init__(self, *, ratios: Mapping[str, float] | None = None, **options: Inherited) -> None:
        super().__init__(
            tuple("0123456789"), lambda _: (*optdigits(), str(FILE)), None,
            ratios=RATIOS if ratios is None else ratios, **options,
        )  # fmt: skip
