"""How many samples of detection one core prepares in a second: Mosaic and the other transforms at a net's input size.

    python tools/bench/detection_data.py [--data DIR] [--size 320] [--images 100] [--json FILE]

Without --data the images are drawn: JPEGs of 640 x 480 in memory, 8 boxes each. "kept": all images stay decoded
(`data.cache`); "decoded": each is decoded whenever it is read, smaller where that is enough; "whole": at full size.
Rates are samples per second of CPU time of the one thread that builds batches of 8, the best of three epochs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from pdl.data import DataLoader, Dataset, Sample
from pdl.data import transforms as T
from pdl.data.image import decode_image
from pdl.data.transforms.annotations import scaled

EPOCHS = 3
HEIGHT, WIDTH, OBJECTS = 480, 640, 8


class Photos(Dataset):
    """Drawn images with the slopes and the noise of photographs."""

    def __init__(self, count: int) -> None:
        self.files = [self._file(np.random.default_rng(i)) for i in range(count)]
        self.annotations = [self._annotation(np.random.default_rng(i)) for i in range(count)]

    def _file(self, rng: np.random.Generator) -> bytes:
        coarse = rng.integers(0, 256, (HEIGHT // 12, WIDTH // 12, 3), dtype=np.uint8)
        smooth = cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
        image = np.clip(smooth + rng.normal(0, 3, smooth.shape), 0, 255).astype(np.uint8)
        return bytes(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90])[1])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        return {"image": decode_image(self.files[index]), **self.annotations[index]}

    def _annotation(self, rng: np.random.Generator) -> Sample:
        low = rng.uniform(0, 1, (OBJECTS, 2)) * [WIDTH - 140, HEIGHT - 140]
        boxes = np.concatenate([low, low + rng.uniform(10, 140, (OBJECTS, 2))], 1)
        return {"boxes": boxes.astype(np.float32), "labels": rng.integers(0, 20, OBJECTS)}

    def size_of(self, index: int) -> tuple[int, int]:
        """(height, width)."""
        return HEIGHT, WIDTH

    def reduced(self, index: int, factor: int) -> Sample:
        """At 1/factor of its size."""
        image = decode_image(self.files[index], reduce=factor)
        return {"image": image, **scaled(self.annotations[index], (HEIGHT, WIDTH), image.shape)}


class Whole(Dataset):
    """The same, without smaller versions."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        return self.dataset[index]


def chains(size: int) -> dict[str, list[Any]]:
    """Transforms by name, each as a recipe has them."""
    mosaic = T.Mosaic(size, degrees=10, shear=2)
    colour, flip, end = T.ColorJitter(0.4, 0.4, 0.7, 0.015), T.RandomHorizontalFlip(), T.Normalize(0.5, 0.5)
    return {
        "letterbox": [T.Letterbox(size), flip, end],
        "mosaic": [mosaic, end],
        "mosaic, mixup": [mosaic, T.MixUpDetection(), end],
        "mosaic, mixup, colour": [mosaic, T.MixUpDetection(p=0.15), colour, flip, end],
        "ssd": [T.RandomZoomOut(), T.RandomIoUCrop(), T.Resize(size), colour, flip, end],
    }


def rate(dataset: Any, transforms: list[Any], cache: int) -> float:
    """Samples a second of CPU time."""
    loader = DataLoader(dataset, batch_size=8, transforms=transforms, cache=cache, collate=len)  # type: ignore[arg-type]
    best = float("inf")
    for _ in range(EPOCHS):
        start = time.process_time()
        count = sum(1 for _ in loader)
        best = min(best, time.process_time() - start)
    assert count
    return len(dataset) / best


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    dataset: Any = Photos(options.images)
    if options.data is not None:
        from pdl_cv.data import DetectionFolder

        dataset = DetectionFolder(options.data)
    ways = {"kept": (dataset, 4096), "decoded": (dataset, 0), "whole": (Whole(dataset), 0)}
    found = {name: {way: rate(data, transforms, cache) for way, (data, cache) in ways.items()}
             for name, transforms in chains(options.size).items()}  # fmt: skip
    print(f"{'samples/s of one core':24}" + "".join(f"{way:>9}" for way in ways))
    for name, row in found.items():
        print(f"{name:24}" + "".join(f"{value:9.0f}" for value in row.values()))
    if options.json is not None:
        options.json.write_text(json.dumps({"size": options.size, "samples": len(dataset), "rates": found}, indent=1))


if __name__ == "__main__":
    main()
