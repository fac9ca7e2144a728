"""What `pdl models` promises, entry by entry: the file is fetched and is the published one, becomes a bundle, and
answers for a real input; weights of our own reach the metric that is stated.

What is not in a package is slow: some 60 MB are fetched. What the machine cannot reach is skipped, with every source's
reason; a file that is there and is not the published one fails.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pdl import config, hub
from pdl.cli import main
from pdl.data.image import read_image
from pdl.errors import DataError
from pdl.export import bundle_of
from pdl.hub import wheels
from pdl.hub.entries import Wheel
from pdl.hub.fetch import Failed
from pdl.runtime import load
from pdl.runtime.bundle import read
from pdl.train.recipe import Recipe
from pdl.workflow import evaluate
from pdl_speech.data import SpokenDigits

ENTRIES = hub.index()
OURS = [name for name, entry in ENTRIES.items() if entry.command is not None]
PHOTOS = {name: Wheel("scikit-image", "0.26.0", f"skimage/data/{name}.png") for name in ("coffee", "astronaut")}
SHARED = Path(__file__).parents[2] / "shared/data"


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache of our own, so that everything is really fetched; PDL_TEST_CACHE keeps it between sessions."""
    kept = os.environ.get("PDL_TEST_CACHE") or str(tmp_path_factory.mktemp("cache"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PDL_CACHE", kept)
        data = os.environ.get("PDL_TEST_DATA") or (str(SHARED) if SHARED.is_dir() else None)
        if data:
            patch.setenv("PDL_DATA", data)
        yield Path(kept)


def fetched(name: str) -> Path:
    """The file of an entry; a skip where no source can be reached."""
    try:
        return hub.resolve(name)
    except DataError as error:
        packaged = any(source.package for source in ENTRIES[name].sources)
        if packaged or "the published file" in str(error):  # it lies in the package, or is another file
            raise
        pytest.skip(str(error))


def photograph(name: str, folder: Path) -> np.ndarray:
    """One of scikit-image's pictures."""
    try:
        file = wheels.fetch(PHOTOS[name], folder)
    except Failed as error:
        pytest.skip(f"no photograph to look at: {error}")
    with zipfile.ZipFile(file) as archive:
        raw = np.frombuffer(archive.read(PHOTOS[name].member), np.uint8)
    picture: np.ndarray = cv2.imdecode(raw, cv2.IMREAD_COLOR)[..., ::-1]
    return np.ascontiguousarray(picture)


def coffee(folder: Path) -> np.ndarray:
    """A photograph of a cup of espresso."""
    return photograph("coffee", folder)


def portrait(folder: Path) -> np.ndarray:
    """A photograph of an astronaut, with one face."""
    return photograph("astronaut", folder)


def digit(folder: Path) -> np.ndarray:
    """A seven that somebody wrote."""
    from pdl_cv.data import Digits

    data = Digits(split="test")
    found = next(data[i] for i in range(len(data)) if int(data[i]["label"]) == 7)
    return np.asarray(found["image"])


def stop_sign(folder: Path) -> np.ndarray:
    """A stop sign on its pole, drawn: red eight corners with a white rim, under a gray sky."""
    image = np.full((400, 300, 3), (200, 215, 235), np.uint8)
    image[260:] = 110
    image[60:, 146:154] = 120
    angles = np.deg2rad(22.5 + 45 * np.arange(8))
    for radius, colour in ((72, (255, 255, 255)), (66, (190, 20, 30))):
        corners = np.stack([150 + radius * np.cos(angles), 130 + radius * np.sin(angles)], axis=1)
        cv2.fillPoly(image, [corners.astype(np.int32)], colour)
    cv2.putText(image, "STOP", (100, 143), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (255, 255, 255), 4, cv2.LINE_AA)
    return image


def cells(folder: Path) -> np.ndarray:
    """Three bright discs on a dark ground, as nuclei look under a fluorescence microscope."""
    image = np.full((256, 256, 3), 12, np.uint8)
    for x, y in ((64, 64), (192, 64), (128, 192)):
        cv2.ellipse(image, (x, y), (9, 12), 30, 0, 360, (130, 130, 130), -1, cv2.LINE_AA)
    return cv2.GaussianBlur(image, (0, 0), 1.2)


def line(folder: Path) -> np.ndarray:
    """A line of text, in one of OpenCV's own fonts."""
    page = np.full((48, 230, 3), 255, np.uint8)
    cv2.putText(page, "TEXT 3457", (8, 34), cv2.FONT_HERSHEY_SIMPLEX, 1.0, (0, 0, 0), 2, cv2.LINE_AA)
    return page


def written(script: str) -> Callable[[Path], np.ndarray]:
    """A greeting in a script, drawn with DejaVu Sans or FreeSans."""
    return lambda _: read_image(Path(__file__).parent / f"ocr/images/{script}.png")


def paper(folder: Path) -> np.ndarray:
    """A page with that line."""
    page = np.full((240, 480, 3), 255, np.uint8)
    page[80:128, 120:350] = line(folder)
    return page


def question(_: Path) -> str:
    return "Where is the station?"


def sentence(folder: Path) -> Any:
    """A few words."""
    return "a man plays the guitar"


def beginning(answer: Any) -> Any:
    """The first numbers of a vector, by transformers 5.23 with PyTorch 2.13."""
    return [round(number, 3) for number in answer["vector"][:4]]


def order(folder: Path) -> Any:
    """What one may ask an assistant for."""
    return "how do i say thank you in french"


def love(folder: Path) -> Any:
    """A sentence in Chinese."""
    return "我爱北京天安门"


def words(answer: Any) -> Any:
    """Words with their tags."""
    return [f"{span['text']}/{span['tag']}" for span in answer["spans"]]


def speech(answer: Any) -> Any:
    """Parts of speech."""
    return [span["tag"] for span in answer["spans"]]


def label(answer: Any) -> Any:
    return answer["label"]


def places(answer: Any) -> Any:
    """Objects with their boxes, in steps of 64 pixels."""
    return [(one["label"], [round(side / 64) for side in one["box"]]) for one in answer["detections"]]


def spoken(_: Path) -> Any:
    """A seven, at 8 kHz."""
    data = SpokenDigits(split="test")
    return data[int(np.flatnonzero(data.labels == 7)[0])]["audio"], 8000


def tone(_: Path) -> Any:
    """A second of the a' that orchestras tune to, with two overtones."""
    turns = 2 * np.pi * 440 * np.arange(22050) / 22050
    return sum(0.3 / n * np.sin(n * turns) for n in (1, 2, 3)).astype(np.float32), 22050


def text(answer: Any) -> Any:
    return answer["text"].replace(" ", "")


#: entry -> a real input, what is looked at of the answer, and what that must be
ASKED: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any], Any]] = {
    "cv/digits_lenet": (digit, label, "7"),
    "cv/mobilenet_v2_imagenet": (coffee, label, "espresso"),
    "cv/efficientnet_lite0_imagenet": (coffee, label, "espresso"),
    "cv/road_signs": (stop_sign, places, [("stop", [1, 1, 3, 3])]),
    "cv/nuclei": (
        cells,
        lambda answer: sorted(places(answer)),
        [("nucleus", [x, y, x, y]) for x, y in [(1, 1), (2, 3), (3, 1)]],
    ),
    "cv/centerface": (portrait, places, [("face", [3, 1, 4, 3])]),
    "nlp/ernie_zh": (lambda _: "中华人民[MASK]和国", lambda answer: answer["masks"][0]["found"][0]["token"], "共"),
    "nlp/clinc150": (order, label, "translate"),
    "nlp/lac": (love, words, ["我/r", "爱/v", "北京/LOC", "天安门/LOC"]),
    "nlp/ud_ewt": (sentence, speech, ["DET", "NOUN", "VERB", "DET", "NOUN"]),
    "nlp/tatoeba_en_zh": (question, lambda answer: answer["text"][:5], "車站在哪裡"),
    "nlp/minilm": (sentence, beginning, [0.04, -0.005, -0.002, -0.065]),
    "speech/digits": (spoken, label, "7"),
    "speech/silero_vad": (spoken, lambda answer: len(answer["speech"]), 1),
    "speech/crepe_tiny": (tone, lambda answer: round(np.median(answer["pitch"]) / 5) * 5, 440),
    "speech/basic_pitch_net": (tone, lambda answer: answer["notes"][0]["midi"], 69),
    "speech/resemblyzer": (spoken, beginning, [0.13, 0.0, 0.002, 0.0]),
    "ocr/cyrillic_rec": (written("cyrillic"), text, "Добропожаловать,2026"),
    "ocr/devanagari_rec": (written("devanagari"), text, "हिन्दीमेंस्वागत2026"),
    "ocr/ppocr_v4_rec": (line, text, "TEXT3457"),
    "ocr/ppocr_v5_rec": (line, text, "TEXT3457"),
    "ocr/ppocr_v6_rec_tiny": (line, text, "TEXT3457"),
    "ocr/ppocr_v6_rec_small": (line, text, "TEXT3457"),
}
#: for the others: an input by task
BY_TASK: dict[str, Callable[[Path], Any]] = {
    "classification": digit, "text_recognition": line, "text_detection": paper, "text_angle": line,
    "detection": stop_sign, "instance_segmentation": cells, "text_classification": order,
    "embedding": sentence, "tagging": sentence, "masked_language_model": sentence, "seq2seq": question,
    "audio_classification": spoken, "speaker_verification": spoken, "voice_activity": spoken, "pitch_tracking": tone,
    "music_transcription": tone,
}  # fmt: skip


def marked(names: Iterable[str]) -> list[Any]:
    """Names whose file must be fetched are slow."""
    packaged = {name for name in names if any(source.package for source in ENTRIES[name].sources)}
    return [name if name in packaged else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", marked(ENTRIES))
def test_an_entry_is_what_it_says(name: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    file = fetched(name)
    assert file.stat().st_size == entry.bytes
    assert hub.sha256(file) == entry.sha256
    bundle = read(bundle_of(name))
    card = entry.inside(entry.card).read_text(encoding="utf-8") if entry.card else bundle.card
    assert entry.licence in card
    if entry.build is not None:  # somebody else's: the card says whose, and which file
        assert entry.sha256 in card
        assert bundle.card == card
        assert bundle.meta["licence"] == entry.licence
    make, look, expected = ASKED.get(name, (BY_TASK[entry.task], str, None))
    answer = load(bundle_of(name))(make(tmp_path))
    assert answer
    if expected is not None:
        assert look(answer) == expected


@pytest.mark.parametrize("name", marked(OURS))
def test_our_own_weights_reach_the_stated_metric(name: str) -> None:
    """Recomputed on the data of the recipe that the bundle carries, which must be on this machine."""
    metric = ENTRIES[name].metric
    assert metric is not None
    try:
        measured = evaluate(bundle_of(name), split=metric.name.partition("/")[0]).metrics
    except DataError as error:
        pytest.skip(str(error))
    assert measured[metric.name] == pytest.approx(metric.value, abs=5e-5)


@pytest.mark.parametrize("name", OURS)
def test_the_card_of_our_own_weights_says_what_chose_them(name: str, tmp_path: Path) -> None:
    bundle, recipe = read(bundle_of(name)), tmp_path / "config.yaml"
    recipe.write_text(bundle.config, encoding="utf-8")
    metric, settings = ENTRIES[name].metric, Recipe(config.load(recipe)).settings
    assert metric is not None
    monitor = settings.monitor or metric.name.replace("test/", "val/")
    which = "of the last epoch; no split" if settings.test_weights == "last" else f"with the best {monitor}"
    assert which in bundle.card


def test_a_folder_named_as_a_suite_hides_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`cv/digits_lenet` is a name also where a folder cv/ is; what lies there under that name comes first."""
    (tmp_path / "cv").mkdir()
    cv2.imwrite(str(tmp_path / "seven.png"), digit(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["predict", "cv/digits_lenet", "seven.png", "--topk", "1"]) == 0
    assert capsys.readouterr().out.split()[5] == "7"
    (tmp_path / "cv/digits_lenet").mkdir()
    assert main(["predict", "cv/digits_lenet", "seven.png"]) == 2
    (tmp_path / "ocr").mkdir()
    capsys.readouterr()
    assert main(["info", "ocr/ppocr_v4"]) == 2
    assert "ocr/ppocr_v4 is a system and no single model" in capsys.readouterr().err
