"""A few words, pages and receipts that are made up, for tests on machines without the real data."""

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
SHOPS = ("ALPHA", "BETA", "GAMMA", "DELTA", "OMEGA")
STREETS = ("HIGH STREET", "MILL LANE", "STATION ROAD", "PARK AVENUE")


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


def write_receipts(folder: Path, split: str) -> Path:
    """Receipts in SROIE's folders: boxes of their lines, and what they say of company, date and total."""
    base = folder / f"receipts_{split}"
    if base.exists():
        return base
    for name in ("img", "box", "key"):
        (base / name).mkdir(parents=True)
    for index in range(PAGES[split]):
        rng = SampleRandom(2, sorted(PAGES).index(split), index)
        lines, fields = receipt(rng)
        rows = [f"{x},{y},{x + 9 * len(t)},{y},{x + 9 * len(t)},{y + 16},{x},{y + 16},{t}" for t, x, y in lines]
        cv2.imwrite(str(base / f"img/{index:03}.png"), np.full((32, 32), 255, np.uint8))
        (base / f"box/{index:03}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
        (base / f"key/{index:03}.json").write_text(json.dumps(fields), encoding="utf-8")
    return base


def receipt(rng: SampleRandom) -> tuple[list[tuple[str, int, int]], dict[str, str]]:
    """Lines (text, left, top) and the fields of a receipt."""

    def one_of(names: tuple[str, ...]) -> str:
        return names[rng.integers(0, len(names))]

    company, date = f"{one_of(SHOPS)} {one_of(SHOPS)} LTD", f"{rng.integers(10, 29)}/0{rng.integers(1, 10)}/2024"
    prices = [rng.integers(100, 3000) for _ in range(rng.integers(1, 4))]
    total = f"{sum(prices) / 100:.2f}"
    lines = [(company, 60, 10), (f"{rng.integers(1, 90)} {one_of(STREETS)}", 70, 30), (f"DATE: {date}", 10, 60)]
    for row, price in enumerate(prices):
        lines += [(f"ITEM {row}", 10, 90 + 20 * row), (f"{price / 100:.2f}", 200, 90 + 20 * row)]
    lines += [("TOTAL", 10, 170), (total, 200, 170), ("CASH", 10, 190), (f"{sum(prices) / 100 + 5:.2f}", 200, 190)]
    return lines, {"company": company, "date": date, "total": total}
