"""Logical and visual order of lines with text from right to left, against two implementations of python-bidi: that in
Rust orders with pairs of brackets and does not mirror, that in Python has the mirrored characters."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.runtime.bidi import _mirrored, has_right_to_left, logical, visual

#: letters of both directions, digits of both kinds, signs of each kind of the algorithm, brackets, space
LETTERS = "אבגםשמרحبabXY0129\u0660\u0661\u0662.,:/%$#+-()[]<>«»{}!?&\"'؟،  \t"
WORDS = ["אבג", "שלום!", "(مرحبا)", "12.5", "1,234", "10:30", "50%", "-5", "\u0623\u064e\u0628", "12/05/2024", "3-4"]


@settings(max_examples=1500, deadline=None)
@given(st.text(LETTERS, max_size=24))
def test_the_order_is_that_of_python_bidi(text: str) -> None:
    bidi = pytest.importorskip("bidi", reason="python-bidi is not installed")
    expected = bidi.get_display(text, base_dir="R") if has_right_to_left(text) else text
    assert _unmirrored(visual(text)) == _unmirrored(expected)


def _unmirrored(text: str) -> str:
    return "".join(min(c, _mirrored(c)) for c in text)


def test_mirrored_characters_are_those_of_python_bidi() -> None:
    known = pytest.importorskip("bidi.mirror", reason="python-bidi is not installed").MIRRORED
    # Tibetan and Ogham brackets, and mixed ones of mathematics, have no names that say so
    odd = {chr(c) for c in (*range(0xF3A, 0xF3E), 0x169B, 0x169C, *range(0x2993, 0x2997))}
    brackets = (c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Ps", "Pe", "Pi", "Pf"))
    for c in [*brackets, *"<>≤≥≪≫"]:
        # brackets that Unicode 14 added are mirrored, too, and are not in its table
        assert c in odd or _mirrored(c) == known.get(c, _mirrored(c)), unicodedata.name(c)
        assert _mirrored(_mirrored(c)) == c


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("hello (12)", "hello (12)"),
        ("אבג", "גבא"),
        ("אבג abc 123", "abc 123 גבא"),
        ("123 אבג abc", "abc גבא 123"),
        ("(אב) 12.5", "12.5 (בא)"),
        ("אב PDF 2.0 גד", "דג PDF 2.0 בא"),
        ("אב PDF(2)", "PDF(2) בא"),
        ("50% אב!", "!בא 50%"),
        ("مر 50%", "%50 رم"),
        ("مر \u0663\u066b\u0665", "\u0663\u066b\u0665 رم"),
        ("50% مر", "رم 50%"),
        ("PDF אב", "בא PDF"),
        ("שָׁלוֹם", "םוֹלשָׁ"),  # marks stay behind their letters
        ("می\u200cروم", "موری\u200cم"),  # and so does what is invisible
    ],
)
def test_a_line_as_it_is_seen_from_left_to_right(text: str, seen: str) -> None:
    assert visual(text) == seen
    assert logical(seen) == text


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join))
def test_the_order_of_words_and_numbers_can_be_undone(text: str) -> None:
    assert logical(visual(text)) == text


@settings(max_examples=500, deadline=None)
@given(st.text(LETTERS + "\u05b8\u064e\u200c\u202b", max_size=24))
def test_no_character_is_lost(text: str) -> None:
    for made in (visual(text), logical(text)):
        assert sorted(map(_unmirrored, made)) == sorted(map(_unmirrored, text))


def test_lines_that_look_alike_are_read_one_way() -> None:
    """A number before a word from left to right is seen behind it, too."""
    assert visual("אבג 123 abc") == visual("אבג abc 123")
    assert logical(visual("אבג 123 abc")) == "אבג abc 123"
