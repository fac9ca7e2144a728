"""Small folders of images as people bring them, made of public data sets: ten problems of 30 to 1,000 images.

    python tools/image_folders.py --data DATA --fashion DIR --out FOLDERS

FOLDERS/NAME/<class>/*.png is what a user has; FOLDERS/NAME-held/<class>/*.png are other images of the same kind, to
measure with. DATA holds bccd.zip, camvid_240x180.zip and cv2/*.zip, as their publishers' images and boxes; DIR the
four files of Fashion-MNIST. tools/first_try.py trains on them.
"""

from __future__ import annotations

import argparse
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from pdl_cv.data import Digits, FashionMNIST

Pool = Iterator[tuple[str, np.ndarray]]
SMALLEST = 20  # pixels of a crop's side


class Source:
    """Files of a zip."""

    def __init__(self, path: Path) -> None:
        self.zip = zipfile.ZipFile(path)
        self.names = [each.filename for each in self.zip.infolist() if not each.is_dir()]

    def image(self, name: str, gray: bool = False) -> np.ndarray:
        """uint8 [H, W, 3] RGB, or [H, W, 1]."""
        raw = np.frombuffer(self.zip.read(name), np.uint8)
        found: Any = cv2.imdecode(raw, cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR)
        return found[..., None] if gray else np.ascontiguousarray(found[..., ::-1])

    def text(self, name: str) -> str:
        """A file of text."""
        return self.zip.read(name).decode()


def boxes(path: Path, images: str, marks: str, margin: float = 0.1) -> Pool:
    """Crops of the objects of Pascal VOC files, a little larger than their boxes."""
    source = Source(path)
    for name in sorted(each for each in source.names if marks in each):
        stem = Path(name).stem
        photo = source.image(next(each for each in source.names if images in each and Path(each).stem == stem))
        for item in re.findall(r"<object>.*?</object>", source.text(name), re.DOTALL):
            kind = re.search(r"<name>(.*?)</name>", item)
            x0, y0, x1, y1 = (int(re.search(rf"<{k}>(\d+)", item)[1]) for k in ("xmin", "ymin", "xmax", "ymax"))  # type: ignore[index]
            w, h = int((x1 - x0) * margin), int((y1 - y0) * margin)
            crop = photo[max(y0 - h, 0) : y1 + h, max(x0 - w, 0) : x1 + w]
            if kind and min(crop.shape[:2]) >= SMALLEST:
                yield kind[1], crop


def by_name(path: Path, pattern: str, gray: bool = False) -> Pool:
    """Images whose class the name says, in group 1 of a pattern."""
    source = Source(path)
    for name in source.names:
        if found := re.search(pattern, name):
            yield found[1], source.image(name, gray)


def patches(path: Path, side: int = 40) -> Pool:
    """Squares of street scenes that one class fills to nine tenths, one of a class and scene."""
    source, kinds = Source(path), {0: "sky", 1: "building", 3: "road", 5: "tree", 8: "car"}
    for name in sorted(each for each in source.names if "annot/" in each):
        marks = source.image(name, gray=True)[..., 0]
        photo = source.image(name.replace("annot", "").replace(".png", ".jpg"))
        rng = np.random.default_rng(len(name) + marks.sum())
        for number, kind in kinds.items():
            for _ in range(60):
                y, x = rng.integers(marks.shape[0] - side), rng.integers(marks.shape[1] - side)
                if (marks[y : y + side, x : x + side] == number).mean() > 0.9:
                    yield kind, photo[y : y + side, x : x + side]
                    break


def samples(dataset: object, names: list[str]) -> Pool:
    """The images of a data set."""
    for i in range(len(dataset)):  # type: ignore[arg-type]
        sample = dataset[i]  # type: ignore[index]
        yield names[sample["label"]].replace("/", " or "), sample["image"]


def problems(data: Path, fashion: Path) -> dict[str, tuple[Pool, int, int, int]]:
    """name -> (images, classes at most, images of each class for the user, and to measure with)."""
    clothes, digits = FashionMNIST(fashion, split="test"), Digits(split="train")
    return {
        "cells": (boxes(data / "bccd.zip", "JPEGImages/", "Annotations/"), 3, 120, 200),
        "pets": (by_name(data / "cv2/pets_mini.zip", r"images/(.*)_\d+\.jpg"), 3, 100, 100),
        "masks": (by_name(data / "cv2/face_mask.zip", r"/(with.*_mask)/"), 2, 15, 300),
        "clothes": (samples(clothes, list(clothes.classes)), 10, 50, 100),
        "digits": (samples(digits, [f"digit {i}" for i in range(10)]), 10, 30, 60),
        "signs": (boxes(data / "cv2/roadsign_voc.zip", "images/", "annotations/"), 4, 50, 40),
        "steel": (by_name(data / "cv2/neu_det.zip", r"images/(.*)_\d+\.jpg", gray=True), 6, 40, 100),
        "streets": (patches(data / "camvid_240x180.zip"), 5, 100, 100),
        "faces": (by_name(data / "cv2/orl_faces.zip", r"orl/(s\d+)/", gray=True), 40, 7, 3),
        "letters": (by_name(data / "cv2/omniglot_small1.zip", r"/([^/]*/character\d+)/", gray=True), 60, 16, 4),
    }


def write(name: str, pool: Pool, classes: int, own: int, held: int, out: Path) -> str:
    """Write one problem; images are taken evenly from all that there are."""
    found: dict[str, list[np.ndarray]] = defaultdict(list)
    for kind, image in pool:
        found[kind.replace("/", " ")].append(image)
    for kind in sorted(found)[:classes]:
        images = found[kind]
        rows = np.arange(min(own + held, len(images))) * len(images) // min(own + held, len(images))
        split = min(own, len(rows) * 2 // 3 if len(rows) < own + held else own)
        for place, part in ((out / name, rows[:split]), (out / f"{name}-held", rows[split:])):
            (place / kind).mkdir(parents=True, exist_ok=True)
            for k, row in enumerate(part.tolist()):
                cv2.imwrite(str(place / kind / f"{k:04}.png"), images[row][..., ::-1])
    count = sum(1 for _ in (out / name).rglob("*.png"))
    return f"{name}: {count} images of {min(classes, len(found))} classes"


def main() -> None:
    """Make those that are not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--data", "--fashion", "--out"):
        parser.add_argument(flag, type=Path, required=True)
    args = parser.parse_args()
    for name, problem in problems(args.data, args.fashion).items():
        if not (args.out / name).exists():
            print(write(name, *problem, args.out), flush=True)


if __name__ == "__main__":
    main()
