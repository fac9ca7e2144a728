"""The handwritten digits that ship with pdl, as images of ten classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pdl.data.image import Mode, check_mode
from pdl.data.optdigits import FILE, optdigits
from pdl.data.splits import check_ratios
from pdl.errors import ConfigError
from pdl_cv.data.base import ImageArrays, PerClass, cut

RATIOS = {"train": 0.7, "val": 0.1, "test": 0.2}


class Digits(ImageArrays):
    """Optical recognition of handwritten digits (Alpaydin, Kaynak; UCI, 1998; CC BY 4.0): 1797 images of 8 x 8, gray.

    These are the 1797 images of the original's test part, values 0..16 scaled to 0..255 (round(255 v / 16)). They
    have no official split; by default 70 % of each class are train, 10 % val and 20 % test, drawn with `seed`, so the
    same writers are in all splits.

    split      train, val, test (the names in `ratios`), or all
    mode       gray ([8, 8, 1]) or rgb ([8, 8, 3])
    classes    only these classes, by name, numbered in this order; by default all
    per_class  only so many images of each class, drawn with `seed`
    """

    def __init__(
        self,
        *,
        split: str = "train",
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
        mode: Mode = "gray",
        classes: Sequence[str] | None = None,
        per_class: PerClass = None,
    ) -> None:
        check_mode("Digits", mode)
        ratios = check_ratios("Digits", RATIOS if ratios is None else ratios)
        if split not in (*ratios, "all"):
            raise ConfigError(f"Digits: split={split!r} is none of {', '.join(ratios)}, all")
        images, labels = cut(*optdigits(), split, ratios, seed)
        super().__init__(
            images,
            labels,
            tuple("0123456789"),
            source=str(FILE),
            mode=mode,
            only=classes,
            per_class=per_class,
            seed=seed,
        )
        self.split = split
