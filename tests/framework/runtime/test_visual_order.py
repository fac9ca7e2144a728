"""Vowels that are written to the left of their consonants, by examples after The Unicode Standard (chapters 12 and 13),
and both orders of lines, which undo each other."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.runtime import indic
from pdl.runtime.visual_order import differs, logical, visual


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("कि", "ि क"),
        ("हिन्दी", "ि ह न ् द ी"),
        ("फुक्लि", "फ ु ि क ् ल"),  # in front of the whole cluster
        ("स्त्रियों", "ि स ् त ् र य ो ं"),
        ("क़िला", "ि क ़ ल ा"),
        ("उठ्\u200cठि", "उ ि ठ ् \u200c ठ"),
        ("कोई", "क ो ई"),
        ("কেন", "ে ক ন"),
        ("কোন", "ে ক া ন"),  # a vowel on both sides
        ("கௌ", "ெ க ௗ"),
        ("பக்கெ", "ப க ் ெ க"),  # a virama that is seen joins nothing
        ("க்ஷெ", "ெ க ் ஷ"),
        ("കൊ", "െ ക ാ"),
        ("ශ්\u200dරේ", "ෙ ශ ් \u200d ර ්"),
        ("మె", "మ ె"),
        ("แม่", "แ ม ่"),  # stored as seen
        ("कि 12 ab", "ि क _ 1 2 _ a b"),
        ("של कि", "ि क _ ל ש"),
    ],
)
def test_vowels_stand_where_they_are_seen(text: str, seen: str) -> None:
    wanted = seen.replace(" ", "").replace("_", " ")
    assert visual(text) == wanted
    assert logical(wanted) == unicodedata.normalize("NFC", text)


def test_other_scripts_stay_as_they_are() -> None:
    assert not differs("abc где 漢字 తెలుగు ไทย")
    assert all(map(differs, ("कि", "কো", "א")))
    assert visual("ab где తెలుగు") == logical("ab где తెలుగు") == "ab где తెలుగు"


SYLLABLES = st.builds(
    lambda consonants, vowel, end: "\u094d".join(consonants) + vowel + end,
    st.lists(st.sampled_from(["क", "ख", "त", "न", "र", "ष", "क\u093c", "य"]), min_size=1, max_size=4),
    st.sampled_from(["", "ा", "ि", "ी", "े", "ो", "\u094e"]),
    st.sampled_from(["", "ं", "ँ", " ", "-", "1", "a"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(SYLLABLES, max_size=8).map("".join))
def test_both_orders_undo_each_other(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    assert logical(visual(text)) == text


@settings(max_examples=300, deadline=None)
@given(st.text("कतर\u094d\u093cिोে \u200d", max_size=12))
def test_any_characters_are_kept(text: str) -> None:
    """What a net answers need not be a text."""
    assert sorted(unicodedata.normalize("NFD", indic.logical(text))) == sorted(unicodedata.normalize("NFD", text))
    assert sorted(unicodedata.normalize("NFD", visual(text))) == sorted(unicodedata.normalize("NFD", text))
