"""A picture with the answer written below it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.runtime.pictures import picture


def draw(item: Any, prediction: dict[str, Any], folder: Path) -> Path:
    """Save `item` (a path, bytes or an array), at least 256 wide, with the prediction below it, as a PNG of a name that
    is free in `folder`."""
    return save(picture(item, "rgb"), caption(prediction), folder, Path(prediction["input"]).stem.strip("-") or "stdin")


def caption(prediction: dict[str, Any]) -> str:
    """The answer in one line; UsageError where a prediction is no label and no text."""
    if "label" in prediction:
        return f"{prediction['label']}  {prediction['score']:.1%}"
    if "text" in prediction:
        return f"{prediction['text']}  {prediction['score']:.1%}"
    if "labels" in prediction:
        return ", ".join(f"{each['label']} {each['score']:.0%}" for each in prediction["labels"]) or "nothing"
    raise UsageError("this model's answers are arrays, which cannot be drawn; leave out --save")


def save(image: np.ndarray, text: str, folder: Path, stem: str) -> Path:
    """image uint8 [H, W, 3] with a line of text below it, as folder/stem.png, or with a number where that exists."""
    import cv2

    from pdl.report import png

    folder.mkdir(parents=True, exist_ok=True)
    height, width = image.shape[:2]
    factor = max(1, -(-256 // width))
    large = cv2.resize(image, (width * factor, height * factor), interpolation=cv2.INTER_NEAREST)
    canvas = np.full((large.shape[0] + 32, large.shape[1], 3), 255, np.uint8)
    canvas[: large.shape[0]] = large
    place = (8, canvas.shape[0] - 10)
    cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.6, (20, 20, 20), 1, cv2.LINE_AA)
    path = _free(folder, stem)
    path.write_bytes(png(canvas))
    return path


def _free(folder: Path, stem: str) -> Path:
    path, number = folder / f"{stem}.png", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.png", number + 1
    return path
