"""Recipes as `pdl init ocr.detection` writes them: for people's own pages, or of drawn pages for a script."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import UsageError
from pdl.hub import obtainable
from pdl.runtime.steps import Flag
from pdl.train.task import SPLITS
from pdl_ocr.data.drawable import counted, drawable
from pdl_ocr.data.pages import TextPages
from pdl_ocr.data.polygons import short_side, split_points
from pdl_ocr.data.splits import splits_of, written
from pdl_ocr.data.synthetic_pages import LENGTHS
from pdl_ocr.scripts import SCRIPTS

FEWEST = 10  # pages
SEEN, EPOCHS = 12_000, (20, 200)  # parts of pages in all, and the fewest and most epochs
PRETRAINED = "ocr/ppocr_v4_det"
LIMITS = (960, 1280, 1600, 1920)  # pixels of a page's longer side
LEAST = 10  # pixels of the height of most lines there
LOOKED_AT = 200  # pages


DRAWN, DRAWN_EPOCHS, USUAL = 2400, 5, "latin"  # drawn pages for training, epochs, and the script where none is named

Fonts = Annotated[
    str | None, Flag("--fonts", "DIR", "In place of --data: learn from drawn pages; the folder of fonts to draw with.")
]
Script = Annotated[
    str | None, Flag("--script", "NAME", f"With --fonts: which letters, of {', '.join(SCRIPTS)}; by default {USUAL}.")
]
Texts = Annotated[
    str | None, Flag("--texts", "FILE", "With --fonts: text whose words are drawn; without, random characters.")
]


def write_recipe(data: Path | None = None, *, fonts: Fonts = None, script: Script = None, texts: Texts = None) -> str:
    """The text of a recipe that learns to find the lines in `data`, of any format of `pdl_ocr.data.TextPages`; or, for
    a folder of `fonts`, on pages that are drawn with those that have the letters of a script, of words of `texts`.

    Pages are looked at as large as it takes for nine lines in ten to be 10 pixels high. The net begins with PP-OCRv4's
    weights where these are here or can be fetched; on drawn pages it learns from random ones. DataError for data that
    cannot be used.
    """
    if fonts is not None and data is not None:
        raise UsageError(
            "--data and --fonts are two recipes: learn from drawn pages first (--fonts DIR --out drawn.yaml), then go "
            "on with your own (--data PATH, and pdl train with the same model and model.pretrained=RUN)"
        )
    if fonts is not None:
        return _of_fonts(fonts, script or USUAL, texts)
    if script is not None or texts is not None:
        raise UsageError(f"{'--texts' if script is None else '--script'} belongs to --fonts DIR, which draws pages")
    if data is None:
        raise UsageError(
            "what is to be learned? --data PATH names your own pages; --fonts DIR draws pages with the fonts there"
        )
    return _of_pages(data)


# -- pages that are there ----------------------------------------------------------------------------------------------
def _of_pages(data: Path) -> str:
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


# -- pages that are drawn ----------------------------------------------------------------------------------------------
def _of_fonts(fonts: str, script: str, texts: str | None) -> str:
    """A recipe that learns from drawn pages alone."""
    found = drawable(script, fonts)
    words = "Words are random characters; --texts FILE takes those of a text."
    settings = {"fonts": quoted(found.given), "characters": script}
    if texts is not None:
        path = Path(texts).expanduser().absolute()
        words = counted(path, found, LENGTHS[1])
        settings["texts"] = quoted(path)
    settings |= {"complete": str(found.complete), "unseen": str(found.unseen)}
    shared = ", ".join(f'{name}: "${{data.train.{name}}}"' for name in ("fonts", "texts") if name in settings)
    lines = [
        *found.said,
        f"# {words}",
        f"# {found.kept}",
        "# Then learn from real pages: pdl train -c ocr/text_pages data.train.path=LIST model.pretrained=RUN.",
        "defaults:",
        "  - /ocr/detection",
        "  - /ocr/transforms/drawn_pages",
        "  - _self_",
        "model: {_target_: pdl_ocr.DB, backbone: mobilenet_v3, width: 0.5}",
        "data:",
        "  train: &drawn",
        "    _target_: pdl_ocr.data.SyntheticPages",
        *(f"    {name}: {value}" for name, value in settings.items()),
        "    split: train",
        f"    count: {DRAWN}",
        f"  val: {{<<: *drawn, {shared}, split: val, count: 60}}",
        f"  test: {{<<: *drawn, {shared}, split: test, count: 60}}",
        "  workers: 2",
        f"train: {{epochs: {DRAWN_EPOCHS}, ema: 0.998}}",
    ]
    return "\n".join(lines) + "\n"
