"""What drawn text stands on, and the colours of both: papers, pictures behind text, ink that can be read on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from pdl.data.image import EXTENSIONS, read_image
from pdl.data.randomness import SampleRandom
from pdl.errors import DataError
from pdl_ocr.data.lines import file_size, located
from pdl_ocr.data.textures import fractal, stains

CONTRAST = 70  # grey levels between ink and paper, at least
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # of ITU-R BT.601
BEHIND = 0.5  # the share of drawn images behind which a picture is laid, where there are any
OPEN = 64  # pictures that are kept in memory
LARGEST = 1536  # pixels of the longer side of a picture that is kept


def colours(rng: SampleRandom) -> tuple[np.ndarray, np.ndarray]:
    """Paper and ink, float32 [3] each, far enough apart to be read; half of them without colour."""
    while True:
        if rng.chance(0.5):
            both = [np.full(3, rng.uniform(0, 255), np.float32) for _ in range(2)]
        else:
            both = [np.array([rng.uniform(0, 255) for _ in range(3)], np.float32) for _ in range(2)]
        if abs(float(LUMA @ (both[0] - both[1]))) >= CONTRAST:
            return both[0], both[1]


def printed(rng: SampleRandom) -> tuple[np.ndarray, np.ndarray]:
    """Paper and ink of most pages, float32 [3] each: nearly white and nearly black, each with a tint."""
    return tuple(  # type: ignore[return-value]
        np.float32(rng.uniform(*span)) + np.array([rng.uniform(-12, 12) for _ in range(3)], np.float32)
        for span in ((190, 250), (0, 90))
    )


def textured(paper: np.ndarray, height: int, width: int, rng: SampleRandom) -> np.ndarray:
    """float32 [height, width, 3]: paper of a colour float32 [3], plain or with light from a side, grain, clouds and
    stains."""
    light, kept = np.zeros((height, width), np.float32), None
    if rng.chance(0.5):
        across, down = (np.linspace(0, rng.uniform(-45, 45), side, dtype=np.float32) for side in (width, height))
        light += across
        light += down[:, None]
    if rng.chance(0.5):
        grain = fractal(height, width, rng, coarse=rng.uniform(4, 24), fine=2)
        light += cv2.addWeighted(grain, strength := rng.uniform(4, 40), grain, 0, -strength / 2)
    if rng.chance(0.3):
        cloud = fractal(height, width, rng, coarse=rng.uniform(0.2, 1) * max(height, width), fine=16)
        kept = cv2.addWeighted(cloud, -rng.uniform(0.05, 0.35), cloud, 0, 1)
    channels = [light + level if kept is None else kept * (light + level) for level in paper]
    ground = cv2.merge(channels)
    if rng.chance(0.15):
        ground *= 1 - stains(height, width, rng) * np.float32(rng.uniform(0.1, 0.5))
    return np.clip(ground, 0, 255, out=ground)


class Backgrounds:
    """Pictures of a folder (at any depth), of which crops of any size lie behind text. They should show no text: it
    would be in no label.

    path  the folder; a relative one is also looked for below PDL_DATA
    """

    def __init__(self, path: str | Path) -> None:
        folder = located(path)
        self.files = sorted(each for each in folder.rglob("*") if each.suffix.lower() in EXTENSIONS and each.is_file())
        if not self.files:
            raise DataError(
                f"backgrounds={str(path)!r:.200}: no pictures ({', '.join(EXTENSIONS)}) are there; give a folder of "
                "pictures without text"
            )

    def cut(self, height: int, width: int, rng: SampleRandom) -> np.ndarray:
        """float32 [height, width, 3]: a part of one of the pictures, of a fifth of it to all, half of them mirrored."""
        image = _picture(self.files[rng.integers(0, len(self.files))])
        most = min(image.shape[0] / height, image.shape[1] / width)
        share = most * rng.uniform(0.2, 1)
        rows, columns = max(1, round(height * share)), max(1, round(width * share))
        top, left = rng.integers(0, image.shape[0] - rows + 1), rng.integers(0, image.shape[1] - columns + 1)
        part = image[top : top + rows, left : left + columns]
        part = cv2.flip(part, 1) if rng.chance(0.5) else part
        kind = cv2.INTER_AREA if share > 1 else cv2.INTER_LINEAR
        return cv2.resize(part, (width, height), interpolation=kind).astype(np.float32)

    @property
    def names(self) -> list[str]:
        """Names and sizes of the files, for fingerprints."""
        return [f"{path.name} {file_size(path)}" for path in self.files]


@lru_cache(maxsize=OPEN)
def _picture(path: Path) -> np.ndarray:
    image = read_image(path)
    scale = LARGEST / max(image.shape[:2])
    if scale >= 1:
        return image
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


def legible(ground: np.ndarray, inks: Sequence[np.ndarray]) -> np.ndarray:
    """The ground float32 [H, W, 3], from 0 to 255, on which inks float32 [3] can be read: where it comes nearer to one
    than `CONTRAST` grey levels, its own are drawn together and shifted, and its colours made paler where bytes cannot
    hold them. All inks are on the side, darker or brighter, on which there is more room."""
    levels = cv2.transform(ground, LUMA[None])
    low, high = float(levels.min()), float(levels.max())
    tones = [float(LUMA @ ink) for ink in inks]
    spans = ((max(tones) + CONTRAST, 255.0), (0.0, min(tones) - CONTRAST))  # of a brighter ground, and of a darker one
    brighter = low + high >= min(tones) + max(tones)
    first, second = spans if brighter else spans[::-1]
    least, most = first if first[0] < first[1] else second
    if least <= low and high <= most:
        return ground
    share = min(1.0, (most - least) / max(high - low, 1e-6))
    moved = np.clip(levels * share + np.clip(0.0, least - low * share, most - high * share), least, most)
    made = ground * np.float32(share)
    made += (moved - levels * np.float32(share))[:, :, None]
    beyond = cv2.inRange(made, (0.0, 0.0, 0.0), (255.0, 255.0, 255.0)) == 0
    if beyond.any():
        level, tint = moved[beyond], made[beyond] - moved[beyond][:, None]
        above, below = np.maximum(tint.max(axis=1), 1e-3), np.maximum(-tint.min(axis=1), 1e-3)
        paler = np.minimum(1, np.minimum((255 - level) / above, level / below))
        made[beyond] = level[:, None] + tint * paler[:, None]
    return np.asarray(made, np.float32)
