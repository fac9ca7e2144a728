"""A few words that OpenCV draws, for tests on machines without the real data."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from pdl.data.randomness import SampleRandom

LETTERS = "abdehknotu"
COUNT = {"train": 192, "val": 32, "test": 32}


def write_list(folder: Path, split: str) -> Path:
    """A list of PaddleOCR's and its images, of words of two to four letters."""
    file, images = folder / f"{split}.txt", folder / split
    if file.exists():
        return file
    images.mkdir(parents=True, exist_ok=True)
    rows = []
    for index in range(COUNT[split]):
        rng = SampleRandom(0, sorted(COUNT).index(split), index)
        text = "".join(LETTERS[rng.integers(0, len(LETTERS))] for _ in range(rng.integers(2, 5)))
        name = f"{split}/{index:03}.png"
        cv2.imwrite(str(folder / name), drawn(text, rng))
        rows.append(f"{name}\t{text}")
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def drawn(text: str, rng: SampleRandom) -> np.ndarray:
    """uint8 [32, W, 3]: dark letters on light paper."""
    image = np.full((32, 18 * len(text) + 10, 3), rng.integers(190, 256), np.uint8)
    ink = rng.integers(0, 90)
    cv2.putText(image, text, (5, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (ink, ink, ink), 2, cv2.LINE_AA)
    return image
