"""Scripts that are written from right to left: lines as they are drawn, learned, evaluated and deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pdl import workflow
from pdl.config.compose import load
from pdl.errors import DataError
from pdl.runtime import load as opened
from pdl.train import Recipe
from pdl.train.texts import edit_distance
from pdl.workflow.new_recipe import init
from pdl_ocr.data.fonts import coverage, font_files, ink
from pdl_ocr.data.fonts import opened as font_of
from pdl_ocr.recognition import TextRecognition
from pdl_ocr.scripts import visual

LETTERS = "אבלםש"


@pytest.fixture(scope="module")
def font() -> Path:
    """A font of this machine with Hebrew letters, where Pillow can shape them."""
    features = pytest.importorskip("PIL.features", reason="Pillow is not installed")
    if not features.check("raqm"):
        pytest.skip("this Pillow has no Raqm")
    try:
        files = font_files("/usr/share/fonts")
    except DataError:
        pytest.skip("no fonts are installed here")
    for path in sorted(files, key=lambda p: ("sans" not in p.name.lower(), p.name)):
        if {*LETTERS, *"abcP0123456789()%!."} <= coverage(path):
            return path
    pytest.skip("no font with Hebrew letters is installed here")


@pytest.mark.parametrize("text", ["שלום", "אבג 123 abc", "אב P(2) שר!", "50% של 12.5"])
def test_the_order_is_that_of_the_pictures(text: str, font: Path) -> None:
    """HarfBuzz draws a label as its characters in visual order are drawn one behind the other."""
    shaped, plain = ink(font_of(font, 40, True), text), ink(font_of(font, 40, False), visual(text))
    assert abs(shaped.shape[1] - plain.shape[1]) <= 6  # kerning
    columns = [np.interp(np.linspace(0, 1, 80), np.linspace(0, 1, x.shape[1]), x.sum(axis=0)) for x in (shaped, plain)]
    assert np.corrcoef(*columns)[0, 1] > 0.8


def test_the_task_writes_what_is_seen_and_answers_what_is_typed() -> None:
    task = TextRecognition(characters="אבג 123abc()")
    text = "123 אבג (1) ב abc"
    numbers = [task.numbers[c] for c in "abc ב (1) גבא 123"]
    assert task.encode(text).tolist() == numbers
    steps = np.zeros((1, 2 * len(numbers), len(task.characters) + 1))
    steps[0, np.arange(len(numbers)) * 2, numbers] = 1
    steps[0, 1::2, 0] = 1
    assert task.decode(steps) == [text]


@pytest.mark.parametrize("learned", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_lines_are_learned_and_deployed(learned: bool, font: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for split, count in (("train", 256 if learned else 24), ("val", 32), ("test", 32)):
        rows = [_written(tmp_path / f"{split}{i}.png", font, rng) for i in range(count)]
        (tmp_path / f"{split}.txt").write_text("\n".join(rows), encoding="utf-8")
    quick = [f"train.epochs={20 if learned else 1}", "train.ema=null", "optim.lr=4.0e-3", "data.batch_size=8"]
    quick += ["data.transforms.train=${data.transforms.eval}"]
    config = load(init("ocr.recognition", data=tmp_path, out=tmp_path / "recipe.yaml"), quick)
    done = workflow.train(config, run=tmp_path / "run", progress=False)
    session = opened(tmp_path / "run/model.pdl")
    assert session.bundle.pipeline["post"]["logits"][-1] == {"step": "ctc", "visual": True}
    if not learned:
        return
    assert done.metrics["test/similarity"] > 0.7  # backwards it would be below a half
    test: Any = Recipe(config).data.splits["test"].build()
    pairs = [(session(test[i]["image"])["text"], test[i]["text"]) for i in range(32)]
    assert sum(edit_distance(a, b) for a, b in pairs) < 0.3 * sum(len(b) for _, b in pairs)


def _written(file: Path, font: Path, rng: np.random.Generator) -> str:
    """A row of a list: a word of two or three letters, at times behind or in front of a number, in black on white."""
    word = "".join(rng.choice(list(LETTERS), rng.integers(2, 4)))
    text = [word, word, f"{word} 12", f"30 {word}"][rng.integers(0, 4)]
    cv2.imwrite(str(file), np.pad(255 - ink(font_of(font, 24, True), text), 4, constant_values=255))
    return f"{file.name}\t{text}"
