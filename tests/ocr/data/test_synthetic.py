"""Lines that are drawn."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fontTools.ttLib import TTFont

from pdl.errors import DataError, UsageError
from pdl_ocr.data import SyntheticLines
from pdl_ocr.data.fonts import coverage, covering, family, has_one_case


def test_a_line_is_a_function_of_seed_split_and_number(fonts: list[str], words: str) -> None:
    def lines(**settings: Any) -> list[Any]:
        data = SyntheticLines(fonts, texts=words, count=6, **settings)
        return [data[i] for i in range(6)]

    first, again = lines(), lines()
    for a, b in zip(first, again, strict=True):
        assert a["text"] == b["text"]
        assert np.array_equal(a["image"], b["image"])
    for other in (lines(seed=1), lines(split="val")):
        assert any(a["image"].shape != b["image"].shape for a, b in zip(first, other, strict=True))


def test_texts_and_proportions_are_known_without_drawing(fonts: list[str], words: str) -> None:
    data = SyntheticLines(fonts, texts=words, count=40, words=(1, 3), characters="abcdefghijklmnopqrstuvwxyz ")
    samples = [data[i] for i in range(40)]
    assert [sample["text"] for sample in samples] == data.texts
    ratios = np.array([sample["image"].shape[1] / sample["image"].shape[0] for sample in samples])
    assert np.abs(data.widths / ratios - 1).max() < 0.15
    assert set("".join(data.texts)) <= set(data.characters or "")
    assert "Berry" not in data.vocabulary  # has a letter that is not among the characters
    assert max(len(text.split()) for text in data.texts) > 1


def test_ink_can_be_told_from_paper(fonts: list[str], words: str) -> None:
    data = SyntheticLines(fonts, texts=words, count=30)
    spans = [np.ptp(np.percentile(data[i]["image"].mean(axis=2), (2, 98))) for i in range(30)]
    assert min(spans) > 20
    assert all(data[i]["image"].dtype == np.uint8 and data[i]["image"].shape[0] >= 8 for i in range(30))


def test_pictures_lie_behind_lines_that_can_be_read(fonts: list[str], words: str, tmp_path: Path) -> None:
    folder = tmp_path / "pictures/deep"
    folder.mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 256, (40, 300, 3), np.uint8)
    cv2.imwrite(str(folder / "noise.png"), noise)
    plain, behind = (
        SyntheticLines(fonts, texts=words, count=40, backgrounds=each) for each in (None, tmp_path / "pictures")
    )
    assert plain.texts == behind.texts
    assert plain.fingerprint != behind.fingerprint
    same = [np.array_equal(plain[i]["image"], behind[i]["image"]) for i in range(40)]
    assert 8 < sum(same) < 32, "about half of them"
    for i in (i for i in range(40) if not same[i]):
        gray = behind[i]["image"] @ [0.299, 0.587, 0.114]
        low, high = np.percentile(gray, (0.5, 99.5))
        assert high - low >= 60, "letters stand out of a picture of all grey levels"
    with pytest.raises(DataError, match=r"backgrounds='.*': no pictures .* are there"):
        SyntheticLines(fonts, texts=words, backgrounds=tmp_path / "none")


def test_families_of_fonts_can_be_kept_for_validation(fonts: list[str], unseen: float) -> None:
    made = [SyntheticLines(fonts, characters="abc", split=s, unseen=unseen) for s in ("train", "val", "test")]  # type: ignore[arg-type]
    train, val, test = ({family(path) for path in data.fonts} for data in made)
    assert train
    assert val == test
    assert not train & val
    assert sum(len(data.fonts) for data in made[:2]) == len(fonts)


def test_families_are_drawn_with_equally_often(fonts: list[str], tmp_path: Path) -> None:
    large, small = fonts[0], next(path for path in fonts if family(Path(path)) != family(Path(fonts[0])))
    copies = [tmp_path / f"{i}.ttf" for i in range(7)]
    for path in copies:
        path.write_bytes(Path(large).read_bytes())
    data = SyntheticLines([*map(str, copies), small], characters="abc", count=200)
    drawn = [data._with_font(data._text, data._random(i))[1] for i in range(200)]
    assert 70 < drawn.count(Path(small)) < 130
    assert set(drawn) == {*copies, Path(small)}


def test_random_characters_of_a_script(fonts: list[str]) -> None:
    data = SyntheticLines(fonts, characters="latin", count=20, length=(3, 5))
    assert {len(text) for text in data.texts} <= {3, 4, 5}
    assert data[0]["image"].shape[2] == 3


def test_what_is_wrong_is_told(fonts: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no font files"):
        SyntheticLines(str(tmp_path), texts=words)
    with pytest.raises(UsageError, match="give texts"):
        SyntheticLines(fonts)
    with pytest.raises(DataError, match="none of its 5 words fits"):
        SyntheticLines(fonts, texts=words, characters="xyz")
    with pytest.raises(UsageError, match=r"words=.*fewest and the most"):
        SyntheticLines(fonts, texts=words, words=(3, 1))
    with pytest.raises(DataError, match=r"none of \d+ fonts has all 2 characters.*lacks"):
        covering([Path(path) for path in fonts], "a\N{CUNEIFORM SIGN A}")
    (tmp_path / "broken.ttf").write_bytes(b"no font")
    with pytest.raises(DataError, match=r"broken\.ttf: cannot be read as a font"):
        coverage(tmp_path / "broken.ttf")


def test_lines_keep_to_the_characters_of_their_texts_and_to_their_length(fonts: list[str], words: str) -> None:
    data = SyntheticLines(fonts, texts=words, count=300, cases=1.0, numbers=0.5, marks=0.5)
    assert set("".join(data.texts)) <= {*"appleBerrycherrydatenaïve"}
    data = SyntheticLines(fonts, texts=words, count=300, words=(1, 2), length=(9, 14))
    assert {len(text) for text in data.texts} <= {*range(9, 15)}
    with pytest.raises(DataError, match="none of its 5 words fits"):
        SyntheticLines(fonts, texts=words, length=(9, 14))


def test_a_script_is_shaped_however_it_is_given(fonts: list[str], tmp_path: Path) -> None:
    (tmp_path / "hindi.txt").write_text("\u0928\u092e\u0938\u094d\u0924\u0947", encoding="utf-8")
    for settings in (
        {"texts": str(tmp_path / "hindi.txt")},
        {"characters": "\u0628\u062a"},
        {"characters": "\u0928\u092e"},
    ):
        data = SyntheticLines.__new__(SyntheticLines)
        with suppress(DataError):  # none of these fonts may have them; the engine was chosen before
            data.__init__(fonts, **settings)  # type: ignore[misc, arg-type]
        assert data.shaped
    assert not SyntheticLines(fonts, characters="latin").shaped


def test_characters_that_no_font_has_are_told(fonts: list[str]) -> None:
    data = SyntheticLines(fonts, characters="ab\N{CUNEIFORM SIGN A}", count=20)
    (found,) = data.faults
    assert found.severity == "warning"
    assert "\N{CUNEIFORM SIGN A}" in found.what
    assert set("".join(data.texts)) <= {*"ab"}


def test_a_font_of_small_capitals_writes_no_line_in_which_case_counts(fonts: list[str], tmp_path: Path) -> None:
    made = tmp_path / "smallcaps.ttf"
    with TTFont(fonts[0], fontNumber=0) as font:
        for table in (t for t in font["cmap"].tables if t.isUnicode()):
            table.cmap.update({ord(c): table.cmap[ord(c.upper())] for c in "abcdefghijklmnopqrstuvwxyz"})
        font.save(made)
    assert [has_one_case(Path(path)) for path in (made, *fonts)] == [True] + [False] * len(fonts)
    both, small = (SyntheticLines([str(made), fonts[1]], characters=kept, count=30) for kept in ("aAbBcC", "abc"))
    texts = [[data._with_font(data._text, data._random(i)) for i in range(30)] for data in (both, small)]
    assert [{path.name for _, path in drawn} for drawn in texts] == [
        {Path(fonts[1]).name},
        {made.name, Path(fonts[1]).name},
    ]
    assert SyntheticLines(str(made), characters="aAbBcC", count=2)[1]["text"]  # where there is no other
