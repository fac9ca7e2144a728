"""Digits that move: clips whose class is told by the order of their frames alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from pdl.dtype import Array
from pdl.hints import Range
from pdl_cv.data.clips import ClipArrays
from pdl_cv.data.digits import Digits

CLASSES = ("right", "left", "down", "up")
COUNTS = {"train": 1200, "val": 200, "test": 800}
GRID, NOISE = 3, 6.0  # places a side


class MovingDigits(ClipArrays):
    """Made clips of a real handwritten digit (`Digits`) that visits the nine places of a grid, one a frame: uint8
    [9, side, side, 1]. The class is the way in which it moves: right or left, row by row, down or up, column by column,
    each from any place on and over the end to the beginning. So a clip of any class has the same nine frames in another
    order: of a bag of frames, as of a single one, nothing can be learned about the class. The digit, its size, the
    place of the grid and where a clip begins are drawn with `seed`; pixels have noise. The digit pictures of train, val
    and test are others.

    split  train, val or test
    count  of clips, as many of each class; by default 1200, 200 and 800
    side   pixels
    """

    def __init__(
        self,
        *,
        split: Literal["train", "val", "test"] = "train",
        count: Annotated[int, Range(4)] | None = None,
        side: Annotated[int, Range(16)] = 24,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.split = split
        pictures = Digits(split=split).images[..., 0]
        number = COUNTS[split] if count is None else count
        labels = np.arange(number) % len(CLASSES)
        rng = np.random.default_rng([seed, list(COUNTS).index(split)])
        clips = np.stack([_moving(pictures[rng.integers(len(pictures))], int(label), side, rng) for label in labels])
        super().__init__(clips[..., None], labels, CLASSES)


def _moving(picture: Array, way: int, side: int, rng: np.random.Generator) -> Array:
    """uint8 [9, side, side]: a digit on its way, the number of a class."""
    import cv2

    size = int(rng.integers(side * 5 // 16, side * 7 // 16 + 1))
    digit = cv2.resize(picture, (size, size), interpolation=cv2.INTER_LINEAR).astype(np.float32) * (215 / 255)
    place = (np.arange(GRID * GRID) + rng.integers(GRID * GRID)) % (GRID * GRID)
    place = place[::-1] if CLASSES[way] in ("left", "up") else place
    cells = np.stack([place // GRID, place % GRID], axis=1)
    cells = cells[:, ::-1] if CLASSES[way] in ("down", "up") else cells
    corners = np.rint(cells * side / 4 + rng.uniform(0, side / 2 - size, 2)).astype(int)
    frames = rng.normal(24, NOISE, (len(cells), side, side)).astype(np.float32)
    for frame, (top, left) in zip(frames, corners.tolist(), strict=True):
        frame[top : top + size, left : left + size] += digit
    return np.clip(np.rint(frames), 0, 255).astype(np.uint8)


def write_folders(folder: Path, names: Sequence[str], *, splits: bool, count: int = 24) -> None:
    """A folder for each of at most four classes, with clips of several kinds: MJPEG videos, folders of PNG frames and
    arrays; below train, val and test with `splits`."""
    import cv2

    for split in COUNTS:
        data = MovingDigits(split=split, count=count, side=48)  # type: ignore[arg-type]
        for number in range(len(data)):
            clip, label = data.clips[number, ..., 0], int(data.labels[number])
            if label >= len(names):
                continue
            place = folder / (split if splits else "") / names[label] / f"{split}-{number}"
            place.parent.mkdir(parents=True, exist_ok=True)
            if number % 8 < 4:
                writer = cv2.VideoWriter(f"{place}.avi", cv2.VideoWriter.fourcc(*"MJPG"), 8, (48, 48))
                for frame in clip:
                    writer.write(cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR))
                writer.release()
            elif number % 16 < 8:
                place.mkdir(exist_ok=True)
                for k, frame in enumerate(clip):
                    (place / f"{k:03d}.png").write_bytes(cv2.imencode(".png", frame)[1].tobytes())
            else:
                np.save(f"{place}.npy", clip)
