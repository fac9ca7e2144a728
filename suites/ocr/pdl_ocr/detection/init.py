"""A recipe for people's own pages, as `pdl init ocr.detection --data PATH` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.data.faults import fault
from pdl.hub import obtainable
from pdl.train.task import SPLITS
from pdl_ocr.data.pages import TextPages
from pdl_ocr.data.polygons import short_side, split_points
from pdl_ocr.data.splits import splits_of, written

FEWEST = 10  # pages
SEEN, EPOCHS = 12_000, (20, 200)  # parts of pages in all, and the fewest and most epochs
PRETRAINED = "ocr/ppocr_v4_det"
LIMITS = (960, 1280, 1600, 1920)  # pixels of a page's longer side
LEAST = 10  # pixels of the height of most lines there
LOOKED_AT = 200  # pages


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to find the lines in `data`, of any format of `pdl_ocr.data.TextPages`.

    Pages are looked at as large as it takes for nine lines in ten to be 10 pixels high. The net begins with PP-OCRv4's
    weights where these are here or can be fetched. DataError for data that cannot be used.
    """
    splits = splits_of(TextPages, data)
    train = TextPages(**splits["train"])
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} pages for training; at least {FEWEST} are needed", "give more")
    heights = _measured(train)
    if not len(heights):
        raise fault(data, "none of the pages has a line with a polygon", "give labels of lines")
    limit = next((each for each in LIMITS if _height_at(each, heights) >= LEAST), LIMITS[-1])
    missing = obtainable(PRETRAINED)
    known = missing is None
    low, high = EPOCHS
    epochs = int(np.clip(round((SEEN / 2 if known else SEEN) / len(train)), low, high))
    model = f"_target_: pdl_ocr.PPOCRDetector, pretrained: {PRETRAINED}" if known else "_target_: pdl_ocr.DB"
    why = f"Begins with the weights of {PRETRAINED}." if known else (
        f"{PRETRAINED} is not to be had ({missing:.80}); with it, ocr/ppocr_pages is the better start."
    )  # fmt: skip
    lines = [
        f"# {len(train):,} pages for training; their lines are {np.median(heights[:, 0]):.0f} pixels high (median).",
        f"# {why}",
        "defaults:",
        "  - /ocr/detection",
        "  - /ocr/transforms/pages",
        "  - _self_",
        f"model: {{{model}}}",
        "data:",
        *(f"  {split}: {written(TextPages, splits[split])}" for split in SPLITS if split in splits),
        f"  batch_size: {4 if len(train) < 400 else 8}",
        "  transforms:",
        "    eval:",
        f"      - {{_target_: pdl.data.transforms.ResizeWithin, limit: {limit}, multiple: 32}}",
        "      - {_target_: pdl.data.transforms.Normalize, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}",
        *(["optim: {lr: 3.0e-4}"] if known else []),
        f"train: {{epochs: {epochs}, ema: {0.99 if known else 0.998}}}",
    ]
    return "\n".join(lines) + "\n"


def _measured(train: TextPages) -> np.ndarray:
    """float64 [n, 2]: the height of each line of the pages that are looked at, and the longer side of its page."""
    heights = []
    for index in np.unique(np.linspace(0, len(train) - 1, min(LOOKED_AT, len(train))).astype(int)).tolist():
        side = max(train.size_of(index))
        found = train.annotation(index)
        polygons = split_points(found["points"], found["corners"])
        heights += [
            (short_side(polygon), side) for polygon, no in zip(polygons, found["ignored"], strict=True) if not no
        ]
    return np.array(heights, np.float64).reshape(-1, 2)


def _height_at(limit: int, heights: np.ndarray) -> float:
    """The height that nine lines in ten have at least, on pages scaled to `limit`."""
    return float(np.quantile(heights[:, 0] * np.minimum(1, limit / heights[:, 1]), 0.1))
