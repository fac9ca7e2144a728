"""The real models, fetched or from the cache: they read, find and turn what OpenCV writes. Skipped where no source can
be reached."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

import pdl
import pdl_ocr
from pdl.errors import DataError
from pdl.export import bundle_of
from pdl_ocr.recognition.transfer import characters_of

pytestmark = pytest.mark.slow


def model(name: str) -> pdl.runtime.Session:
    try:
        path = bundle_of(name)
    except DataError as error:
        if "is not to be had" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    return pdl.runtime.load(path)


def write(x: np.ndarray, text: str, left: int, base: int, scale: float = 1.2) -> None:
    cv2.putText(x, text, (left, base), cv2.FONT_HERSHEY_SIMPLEX, scale, (10, 10, 10), 2, cv2.LINE_AA)


def line(text: str) -> np.ndarray:
    x = np.full((48, 30 + 26 * len(text), 3), 255, np.uint8)
    write(x, text, 8, 36, 1.3)
    return x


PAGE = {"Total amount": (60, 100), "128.50": (500, 102), "Thank you for your visit": (60, 300)}


def page() -> np.ndarray:
    x = np.full((500, 700, 3), 255, np.uint8)
    for text, place in PAGE.items():
        write(x, text, *place)
    return x


@pytest.mark.parametrize("name", ["ocr/ppocr_v4_rec", "ocr/ppocr_v6_rec_small"])
def test_lines_are_read(name: str) -> None:
    read = model(name)
    texts = ["Invoice 2026-11", "128.50", "Total"]
    answers = read.batch([line(text) for text in texts])
    assert [answer["text"] for answer in answers] == texts
    assert min(answer["score"] for answer in answers) > 0.8


@pytest.mark.parametrize("name", ["ocr/ppocr_v4_det", "ocr/ppocr_v6_det_small"])
def test_lines_are_found(name: str) -> None:
    boxes = model(name)(page())["boxes"]
    assert len(boxes) == len(PAGE)
    for (left, base), box in zip(PAGE.values(), boxes, strict=True):
        x, y = np.array(box["polygon"]).T
        assert abs(x.min() - left) < 15
        assert y.min() < base - 20
        assert base - 5 < y.max() < base + 25


def test_the_side_up_is_told() -> None:
    turn = model("ocr/ppocr_v4_cls")
    upright = line("Invoice 2026-11")
    upside_down = np.ascontiguousarray(upright[::-1, ::-1])
    found: list[dict[str, Any]] = turn.batch([upright, upside_down])
    assert [(answer["label"], answer["score"] > 0.9) for answer in found] == [("0", True), ("180", True)]


@pytest.mark.parametrize("name", ["ocr/ppocr_v4", "ocr/ppocr_v6_small"])
def test_pages_are_read(name: str) -> None:
    from pdl.export.from_hub import open_system
    from pdl.hub.systems import system

    wanted = system(name)
    assert wanted is not None
    for part in wanted.parts.values():
        model(part)  # skips
    (answer,) = open_system(wanted).batch([page()])
    assert [each["text"] for each in answer["lines"]] == list(PAGE)


def test_the_net_to_train_equals_the_graph() -> None:
    """PP-OCRv4's weights in our net, and its graph in the runtime, on the same lines (RGB there, BGR here)."""
    read = model("ocr/ppocr_v4_rec")
    net = pdl_ocr.PPOCRRecogniser(pretrained="ocr/ppocr_v4_rec").eval()
    x = np.random.default_rng(0).uniform(-1, 1, (2, 48, 320, 3)).astype(np.float32)
    with pdl.no_grad():
        ours = pdl.softmax(net(pdl.as_tensor(x))).numpy()
    (theirs,) = read.run({"x": np.ascontiguousarray(x[..., ::-1].transpose(0, 3, 1, 2))}).values()
    assert ours.shape == theirs.shape == (2, 40, 6625)
    assert np.abs(ours - theirs).max() < 1e-4
    assert characters_of("ocr/ppocr_v4_rec")[-1] == " "


def test_the_detector_to_train_equals_what_is_published() -> None:
    """PP-OCRv4's weights in our net, and its graph in the runtime, on the same page (RGB there, BGR here)."""
    detect = model("ocr/ppocr_v4_det")
    net = pdl_ocr.PPOCRDetector(pretrained="ocr/ppocr_v4_det").eval()
    x = page()[None, :480, :672].astype(np.float32) / 127.5 - 1
    with pdl.no_grad():
        ours = net(pdl.as_tensor(x)).numpy()
    (theirs,) = detect.run({"x": np.ascontiguousarray(x[..., ::-1].transpose(0, 3, 1, 2))}).values()
    assert ours.shape == (1, 480, 672, 1)
    assert theirs.max() > 0.9
    assert np.abs(ours[..., 0] - theirs[:, 0]).max() < 1e-4
