"""What is measured of pictures that were made of others: how far they are from the true ones."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.train import Metric
from pdl.train.metrics import Several, Shown
from pdl_cv.generation.judge import Judge, Pixels
from pdl_cv.generation.metrics import Called, Frechet
from pdl_cv.steps.pictures import grid

SHOWN = 12  # pairs that the report draws
C1, C2 = 0.01**2, 0.03**2  # of images from 0 to 1
SIGMA, WINDOW = 1.5, 11


class L1(Metric):
    """The mean absolute difference, of numbers from 0 to 1."""

    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, images: Array, wanted: Array, made: Array) -> None:
        self.sum += float(np.abs(wanted.astype(np.int16) - made).sum()) / 255
        self.count += wanted.size

    def compute(self) -> float:
        return self.sum / self.count if self.count else float("nan")


class MeanOver(Metric):
    """The mean over pictures of a function of the true one and the one that was made."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def update(self, images: Array, wanted: Array, made: Array) -> None:
        self.values += [self.of(a, b) for a, b in zip(wanted, made, strict=True)]

    def compute(self) -> float:
        return float(np.mean(self.values)) if self.values else float("nan")

    def of(self, wanted: Array, made: Array) -> float:
        """The number of one pair, uint8 [H, W, C]."""
        raise NotImplementedError(f"{type(self).__name__} must define of")


class Psnr(MeanOver):
    """10 log10(255^2 / mean squared difference), in dB; 100 of equal pictures."""

    def of(self, wanted: Array, made: Array) -> float:
        error = float(np.square(wanted.astype(np.float32) - made).mean())
        return 100.0 if error == 0 else min(100.0, 10 * float(np.log10(255**2 / error)))


class Ssim(MeanOver):
    """The structural similarity, mean over places and channels: (2 m n + C1)(2 cov + C2) / ((m^2 + n^2 + C1)(s^2 + t^2
    + C2)) of means and variances in Gaussian windows of 11 pixels (Wang et al., IEEE TIP 2004)."""

    def of(self, wanted: Array, made: Array) -> float:
        import cv2

        def mean(x: Array) -> Array:
            found: Array = cv2.GaussianBlur(x, (WINDOW, WINDOW), SIGMA, borderType=cv2.BORDER_REFLECT)
            return found

        a, b = (x.astype(np.float32) / np.float32(255) for x in (wanted, made))
        m, n = mean(a), mean(b)
        own, other, both = mean(a * a) - m * m, mean(b * b) - n * n, mean(a * b) - m * n
        return float(((2 * m * n + C1) * (2 * both + C2) / ((m * m + n * n + C1) * (own + other + C2))).mean())


class Looks(Several):
    """What somebody sees in true pictures and in the ones that were made: the Frechet distance of their features, and
    from one who knows classes (`called`) the share that gets the class of the true one."""

    def __init__(self, eye: Judge | Pixels) -> None:
        self.eye, self.distance, self.called = eye, Frechet(), Called()

    def update(self, images: Array, wanted: Array, made: Array) -> None:
        (real, asked), (drawn, called) = self.eye(wanted), self.eye(made)
        self.distance.update(real, drawn)
        self.called.update(real, drawn, asked, called)

    def compute(self) -> float:
        return self.distance.compute()

    def numbers(self) -> dict[str, float]:
        called = {"called": self.called.compute()} if self.eye.calls else {}
        return {"frechet": self.compute(), **called}


class Pairs(Metric):
    """The first images, what was made of them, and what is true: uint8 [H, W, C], three in a row of a grid."""

    def __init__(self) -> None:
        self.rows: list[list[Array]] = []

    def update(self, images: Array, wanted: Array, made: Array) -> None:
        for row in zip(images, made, wanted, strict=True):
            if len(self.rows) < SHOWN:
                channels = max(each.shape[-1] for each in row)
                self.rows.append([np.broadcast_to(each, (*each.shape[:2], channels)) for each in row])

    def compute(self) -> Array:
        return grid(self.rows)


def pair_metrics(eye: Judge | Pixels) -> dict[str, Metric]:
    """Distances, what is seen, and the pictures."""
    return {"l1": L1(), "psnr": Psnr(), "ssim": Ssim(), **Shown.all(Looks(eye)), "pairs": Pairs()}
