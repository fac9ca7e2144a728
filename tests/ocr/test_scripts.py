"""Dictionaries by script."""

from __future__ import annotations

import unicodedata

import pytest

from pdl.errors import UsageError
from pdl_ocr.scripts import (
    COMMON,
    SCRIPTS,
    characters_of,
    direction,
    is_right_to_left,
    needs_shaping,
)

#: letters of pangrams and other texts that a reader of the script meets
TEXTS = {
    "latin": "Zwölf Boxkämpfer, Übermut; Portez ce vieux whisky à l'été; Zażółć gęślą jaźń; Pijamalı hasta ğ ş",  # noqa: RUF001
    "vietnamese": "Đường phố Việt Nam",
    "cyrillic": "Съешь же ещё этих мягких французских булок; Ґанок їжак єнот",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "arabic": "مرحبا بالعالم، كيف حالك؟",
    "hebrew": "שלום עולם",
    "devanagari": "नमस्ते दुनिया। क्षत्रिय",
    "thai": "สวัสดีชาวโลก",
    "kana": "こんにちは、カタカナー。",
    "han": "你好，世界。",  # noqa: RUF001
    "hangul": "안녕하세요",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_character_once_in_normal_form(script: str) -> None:
    found = characters_of(script)
    assert found.startswith(COMMON)
    assert len(set(found)) == len(found) > len(COMMON) + 20
    assert all(unicodedata.normalize("NFC", c) == c and unicodedata.name(c, "") for c in found)


@pytest.mark.parametrize("script", TEXTS)
def test_texts_can_be_written(script: str) -> None:
    missing = set(unicodedata.normalize("NFC", TEXTS[script])) - set(characters_of(script)) - {" "}
    assert missing == set()


def test_the_sizes_of_national_standards() -> None:
    counts = {
        script: sum(not c.isascii() and c.isalpha() for c in characters_of(script)) for script in ("han", "hangul")
    }
    assert counts == {"han": 6763, "hangul": 2350}


def test_directions() -> None:
    assert [is_right_to_left(text) for text in ("مرحبا", "12 שלום", "hello مرحبا", "123", "")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_a_script_that_is_not_known() -> None:
    with pytest.raises(UsageError, match=r"'cyrilic' is no script.*cyrillic"):
        characters_of("cyrilic")


def test_the_direction_of_a_line() -> None:
    assert [direction(text) for text in ("hello (12)", "12 אב", "PDF אב", "مر 50%")] == ["ltr", "rtl", "rtl", "rtl"]


def test_scripts_that_are_shaped() -> None:
    shaped = {script for script in SCRIPTS if needs_shaping(characters_of(script))}
    assert shaped == {"arabic", "hebrew", "devanagari", "bengali", "tamil", "telugu", "kannada", "thai"}
