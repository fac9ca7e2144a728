"""Pages that are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import features

from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, DataError, UsageError
from pdl_ocr.data import SyntheticPages, TextPages, paper, synthetic_pages
from pdl_ocr.data.fonts import coverage, font_files, letters_of
from pdl_ocr.data.polygons import split_points
from pdl_ocr.data.standin import write_pages
from pdl_ocr.data.typesetting import _seen
from pdl_ocr.scripts import characters_of, needs_shaping, visual

SMALL: dict[str, Any] = {"count": 12, "side": (240, 420), "height": (10, 18)}


def test_a_page_is_a_function_of_seed_split_and_number(fonts: list[str], words: str) -> None:
    first, again = (SyntheticPages(fonts, texts=words, **SMALL) for _ in range(2))
    others = [SyntheticPages(fonts, texts=words, **SMALL, **more) for more in ({"seed": 1}, {"split": "val"})]
    for i in reversed(range(12)):
        a, b = first[i], again[11 - i] if i == 11 - i else again[i]
        assert np.array_equal(a["image"], b["image"])
        assert first.texts(i) == again.texts(i)
        assert first.size_of(i) == a["image"].shape[:2]
        for name, value in again.annotation(i).items():
            assert np.array_equal(a[name], value)
    assert len({each.fingerprint for each in (first, again, *others)}) == 3
    for other in others:
        assert sum(first.size_of(i) == other.size_of(i) for i in range(12)) < 3
    with pytest.raises(IndexError, match="sample 12 is outside of 12"):
        first[12]


def test_samples_are_those_of_pages_in_files(fonts: list[str], words: str, tmp_path: Path) -> None:
    real = TextPages(write_pages(tmp_path, "val"))[0]
    data = SyntheticPages(fonts, texts=words, **SMALL)
    for i in range(12):
        sample = data[i]
        assert {k: (v.dtype, v.ndim) for k, v in sample.items()} == {k: (v.dtype, v.ndim) for k, v in real.items()}
        assert sample["corners"].sum() == len(sample["points"])
        assert len(data.texts(i)) == len(sample["corners"]) == len(sample["ignored"])


def _fonts_of(script: str) -> list[str]:
    """A font of this machine, named after a script or DejaVu, with nearly all of its letters."""
    letters = letters_of(characters_of(script))
    named = [
        path for path in font_files("/usr/share/fonts") if script in path.name.lower() or "DejaVuSans." in path.name
    ]
    found = next((str(path) for path in named if len(letters & coverage(path)) > 0.9 * len(letters)), None)
    if found is None:
        pytest.skip(f"no font with the letters of {script} is installed here")
    if needs_shaping("".join(letters)) and not features.check("raqm"):
        pytest.skip("this Pillow cannot shape text")
    return [found]


@pytest.mark.parametrize("layout", ["article", "form", "sign"])
@pytest.mark.parametrize("characters", ["latin", "hebrew", "thai", "arabic"])
def test_polygons_hold_all_ink_and_ink_stays_on_the_page(
    layout: str, characters: str, fonts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On white paper, in black, without rules; by words and by lines, which are drawn alike."""
    monkeypatch.setattr(synthetic_pages, "textured", lambda _, h, w, __: np.full((h, w, 3), 255, np.float32))
    monkeypatch.setattr(synthetic_pages, "_accent", lambda *_: np.zeros(3, np.float32))
    for name in ("printed", "colours"):
        monkeypatch.setattr(synthetic_pages, name, lambda _: (np.full(3, 255, np.float32), np.zeros(3, np.float32)))
    monkeypatch.setattr(synthetic_pages, "_rule", lambda *_: None)
    able = fonts if characters == "latin" else _fonts_of(characters)
    lines, single = (
        SyntheticPages(able, characters=characters, layouts=[layout], boxes=boxes, **SMALL)  # type: ignore[arg-type, list-item]
        for boxes in ("lines", "words")
    )
    found = 0
    for i in range(6):
        image = lines[i]["image"]
        assert np.array_equal(image, single[i]["image"])
        height, width = image.shape[:2]
        for data in (lines, single):
            sample = data[i]
            polygons = split_points(sample["points"], sample["corners"])
            assert (sample["points"] >= 0).all()
            assert (sample["points"] <= (width, height)).all()
            inside = np.zeros((height, width), np.uint8)
            reversed_ = {line.text for line in data._plan(i).lines if line.words[0].style.tone == 2}
            for polygon, text in zip(polygons, data.texts(i), strict=True):
                own = np.zeros((height, width), np.uint8)
                cv2.fillPoly(own, [np.rint(polygon).astype(np.int32)], 1)
                if text not in reversed_:
                    assert (image[own > 0] < 200).any() or data is single, text
                inside |= own
            assert not ((image[..., 0] < 200) & (inside == 0)).any()
            found += len(polygons)
    assert found > 12


def test_fonts_can_be_kept_for_validation(fonts: list[str], words: str, unseen: float) -> None:
    train, val = (SyntheticPages(fonts, texts=words, split=s, unseen=unseen, **SMALL) for s in ("train", "val"))  # type: ignore[arg-type]
    used = [
        {word.style.path for i in range(12) for line in d._plan(i).lines for word in line.words} for d in (train, val)
    ]
    assert used[0]
    assert used[1]
    assert not used[0] & used[1]


def test_words_are_those_of_the_texts(fonts: list[str], words: str) -> None:
    data = SyntheticPages(
        fonts, texts=words, characters="apleBrychdtnï,", cases=0, marks=0, numbers=0, boxes="words", **SMALL
    )
    said = {text for i in range(12) for text in data.texts(i)}
    assert said
    assert {"apple", "date"} & said
    assert all(
        any(known.startswith(text.rstrip(",")) for known in ("apple", "date", "naïve", "cherry", "Berry"))
        for text in said
    )


def test_ink_can_be_read_on_any_ground() -> None:
    """The promise of CONTRAST, for grounds of noise, flat ones and pictures of all colours."""
    for draw in range(60):
        rng = SampleRandom(0, 0, draw)
        low, high = sorted(rng.uniform(0, 256) for _ in range(2))
        ground = rng.generator().uniform(low, high, (20, 30, 3)).astype(np.float32)
        _, ink = paper.colours(rng)
        made = paper.legible(ground, [ink])
        assert made.min() >= -0.01
        assert made.max() <= 255.01
        away = np.abs((made - ink) @ paper.LUMA)
        assert away.min() >= paper.CONTRAST - 0.1
        level = ground @ paper.LUMA
        if (
            np.abs(level - float(paper.LUMA @ ink)).min() >= paper.CONTRAST
            and np.ptp(np.sign(level - paper.LUMA @ ink)) == 0
        ):
            assert np.array_equal(made, ground), "what can be read already stays as it is"


def test_pictures_lie_behind_pages(fonts: list[str], words: str, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "red.png"), np.full((50, 60, 3), (0, 0, 200), np.uint8))
    behind = SyntheticPages(fonts, texts=words, backgrounds=tmp_path, **SMALL)
    plain = SyntheticPages(fonts, texts=words, **SMALL)
    assert behind.fingerprint != plain.fingerprint
    tinted = [np.ptp(np.median(behind[i]["image"], axis=(0, 1))) > 60 for i in range(12)]
    assert 2 < sum(tinted) < 11
    assert all(behind.texts(i) == plain.texts(i) for i in range(12))


def test_words_from_right_to_left_stand_as_the_bidirectional_algorithm_has_them() -> None:
    words = ["אבג", "abc", "def", "12", "(דה)", "34", "56", "abc"]
    order = _seen(words)
    assert sorted(order) == list(range(8))
    assert " ".join(visual(words[number]) for number in reversed(order)) == visual(" ".join(words))


def test_what_is_wrong_is_told(fonts: list[str], words: str, tmp_path: Path) -> None:
    def refused(message: str, kind: type[Exception], **more: Any) -> None:
        with pytest.raises(kind, match=message):
            SyntheticPages(**{"fonts": fonts, "texts": words, **more})

    refused("SyntheticPages: boxes='cells' must be 'lines' or 'words'", ConfigError, boxes="cells")
    refused(r"SyntheticPages: layouts=\['poem'\] must be some of article, form, sign", ConfigError, layouts=["poem"])
    refused(r"SyntheticPages: side=\[300, 200\] must be the fewest and the most", ConfigError, side=(300, 200))
    refused("SyntheticPages: give texts", UsageError, texts=None)
    refused("no font files", DataError, fonts=str(tmp_path))
    refused("no pictures .* are there", DataError, backgrounds=tmp_path)
