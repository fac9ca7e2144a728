"""What happens to pictures before and after the nets, held to PaddleOCR's preparation written with OpenCV."""

from __future__ import annotations

import math
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources, Sample
from tests.ocr import synthetic

FILES = sorted(synthetic.PIPELINES.glob("*.yaml"))


def pipeline(name: str) -> Pipeline:
    data = yaml.safe_load((synthetic.PIPELINES / f"{name}.yaml").read_text())
    made = Pipeline.read(data, Resources(["a", "b"]), name)
    assert made is not None
    return made


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_steps_can_be_made(path: Path) -> None:
    assert pipeline(path.stem).input.mode == "rgb"


def lettering(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Text on noise, uint8 [height, width, 3] RGB."""
    x = np.random.default_rng(seed).integers(120, 256, (height, width, 3), dtype=np.uint8)
    cv2.putText(x, "pdl 2026", (4, height - 8), cv2.FONT_HERSHEY_SIMPLEX, height / 40, (20, 60, 10), 2, cv2.LINE_AA)
    return x


SIZES = [(48, 100), (20, 61), (31, 200), (90, 400), (64, 512), (12, 10), (40, 267)]


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("kind", ["rec", "cls"])
def test_lines_are_prepared_as_paddleocr_does(kind: str, height: int, width: int) -> None:
    x = lettering(height, width)
    ours = pipeline(f"ppocr_v4_{kind}").prepare(x)["x"]
    space = 192 if kind == "cls" else max(320, int(48 * width / height))
    resized = cv2.resize(x[:, :, ::-1], (min(space, math.ceil(48 * width / height)), 48))
    theirs = np.zeros((3, 48, space), np.float32)
    theirs[:, :, : resized.shape[1]] = (resized.transpose(2, 0, 1).astype(np.float32) / 255 - 0.5) / 0.5
    assert ours.shape[2] % 32 == 0
    assert 0 <= ours.shape[2] - space <= 32
    assert not ours[:, :, resized.shape[1] + 1 :].any()
    shared = min(resized.shape[1], math.ceil(48 * width / height))
    if shared == math.ceil(48 * width / height) or kind == "cls":  # else PaddleOCR cuts a part of a column off
        assert np.abs(ours[:, :, :shared] - theirs[:, :, :shared]).max() <= 1.01 / 127.5


@pytest.mark.parametrize(("height", "width"), [(1100, 550), (300, 200), (960, 960), (700, 1921), (20, 900)])
def test_pages_are_prepared_as_paddleocr_does(height: int, width: int) -> None:
    x = lettering(height, width)
    ours = pipeline("ppocr_v4_det").prepare(x)["x"]
    ratio = min(1.0, 960 / max(height, width))
    h, w = (max(round(int(n * ratio) / 32) * 32, 32) for n in (height, width))
    bgr = cv2.resize(x[:, :, ::-1], (w, h)).astype(np.float32) / 255
    theirs = (bgr - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert ours.shape == (3, h, w)
    assert np.abs(ours - theirs.transpose(2, 0, 1)).max() <= 1.01 / 255 / 0.224


def test_lines_of_many_widths_have_few_shapes() -> None:
    prepare = pipeline("ppocr_v4_rec").prepare
    shapes = {prepare(np.zeros((48, width, 3), np.uint8))["x"].shape for width in range(10, 480, 7)}
    assert shapes == {(3, 48, width) for width in (320, 352, 384, 416, 448, 480)}


def test_the_last_class_is_a_space() -> None:
    steps = yaml.safe_load((synthetic.PIPELINES / "ppocr_v4_rec.yaml").read_text())
    ((name, _),) = steps["post"].items()
    made = pipeline("ppocr_v4_rec")
    assert made.finish({name: np.eye(4)[[1, 0, 3, 2]]}, Sample())["text"] == "a b"
