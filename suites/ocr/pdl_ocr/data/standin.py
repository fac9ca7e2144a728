"""A few words and pages that OpenCV draws, for tests on machines without the real data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from pdl.data.randomness import SampleRandom

LETTERS = "abdehknotu"
COUNT = {"train": 192, "val": 32, "test": 32}
PAGES = {"train": 48, "val": 12, "test": 12}


def write_list(folder: Path, split: str) -> Path:
    """A list of PaddleOCR's and its images, of words of two to four letters."""

    def word(rng: SampleRandom) -> tuple[np.ndarray, str]:
        text = "".join(LETTERS[rng.integers(0, len(LETTERS))] for _ in range(rng.integers(2, 5)))
        return drawn(text, rng), text

    return _write(folder, split, 0, COUNT, word)


def write_pages(folder: Path, split: str) -> Path:
    """A list of PaddleOCR's labels of pages and its images, with two to four words each."""

    def page(rng: SampleRandom) -> tuple[np.ndarray, str]:
        image, lines = drawn_page(rng)
        return image, json.dumps(lines)

    return _write(folder, split, 1, PAGES, page)


def _write(
    folder: Path, split: str, seed: int, counts: dict[str, int], draw: Callable[[SampleRandom], tuple[np.ndarray, str]]
) -> Path:
    """A split's list with what is said of each image that is drawn, and the images."""
    file, images = folder / f"{split}.txt", folder / split
    if file.exists():
        return file
    images.mkdir(parents=True, exist_ok=True)
    rows = []
    for index in range(counts[split]):
        image, said = draw(SampleRandom(seed, sorted(counts).index(split), index))
        name = f"{split}/{index:03}.png"
        cv2.imwrite(str(folder / name), image)
        rows.append(f"{name}\t{said}")
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def drawn_page(rng: SampleRandom) -> tuple[np.ndarray, list[dict[str, object]]]:
    """uint8 [160, 192, 3]: words one below the other on light paper, and the labels of their lines."""
    image = np.full((160, 192, 3), rng.integers(190, 256), np.uint8)
    lines: list[dict[str, object]] = []
    for row in range(rng.integers(2, 5)):
        text = "".join(LETTERS[rng.integers(0, len(LETTERS))] for _ in range(rng.integers(3, 7)))
        word = drawn(text, rng)[:, :184]
        left, top = rng.integers(0, 192 - word.shape[1] + 1), 4 + 38 * row
        bottom, right = top + word.shape[0], left + word.shape[1]
        image[top:bottom, left:right] = np.minimum(image[top:bottom, left:right], word)
        box = [[left + 3, top + 4], [right - 4, top + 4], [right - 4, bottom - 4], [left + 3, bottom - 4]]
        lines.append({"transcription": text, "points": box})
    return image, lines


def drawn(text: str, rng: SampleRandom) -> np.ndarray:
    """uint8 [32, W, 3]: dark letters on light paper."""
    image = np.full((32, 18 * len(text) + 10, 3), rng.integers(190, 256), np.uint8)
    ink = rng.integers(0, 90)
    cv2.putText(image, text, (5, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (ink, ink, ink), 2, cv2.LINE_AA)
    return image
