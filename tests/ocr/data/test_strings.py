"""Strings of random characters: marks stand on letters that carry them."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest

from pdl.data.randomness import SampleRandom
from pdl_ocr.data.strings import Strings, is_consonant, is_mark
from pdl_ocr.scripts import SCRIPTS, SHAPED, characters_of

VIRAMA = "\N{DEVANAGARI SIGN VIRAMA}"


def strings(script: str, count: int = 400) -> list[str]:
    pool = Strings(characters_of(script))
    rngs = [SampleRandom(0, 0, i) for i in range(count)]
    return [pool.draw(rng.integers(1, 15), rng) for rng in rngs]


@pytest.mark.parametrize("script", SCRIPTS)
def test_marks_follow_what_carries_them(script: str) -> None:
    lengths = [SampleRandom(0, 0, i).integers(1, 15) for i in range(400)]
    made = strings(script)
    assert [len(text) for text in made] == lengths
    assert all(unicodedata.is_normalized("NFC", text) for text in made)
    assert not any(is_mark(text[0]) for text in made)
    for text in made:
        carried = {a for a, b in pairwise(text) if is_mark(b) and not is_mark(a)}
        assert all(unicodedata.category(each) == "Lo" for each in carried)


@pytest.mark.parametrize("script", sorted(SHAPED))
def test_every_kind_of_mark_is_drawn(script: str) -> None:
    wanted = {unicodedata.combining(c) for c in characters_of(script) if is_mark(c)} - {9 if script == "thai" else -1}
    assert wanted <= {unicodedata.combining(c) for text in strings(script, 3000) for c in text if is_mark(c)}


def test_consonants_are_joined() -> None:
    joined = [text for text in strings("devanagari") if VIRAMA in text]
    assert len(joined) > 80
    for text in joined:
        at = text.index(VIRAMA)
        assert is_consonant(text[at + 1])
        assert is_consonant(text[at - 1]) or unicodedata.combining(text[at - 1]) == 7


def test_scripts_without_marks_are_drawn_one_by_one() -> None:
    pool, rng, same = Strings("abcd"), SampleRandom(0, 0, 0), SampleRandom(0, 0, 0)
    assert pool.draw(9, rng) == "".join("abcd"[same.integers(0, 4)] for _ in range(9))


def test_most_characters_are_letters() -> None:
    made = Strings("ab0123456789.,!").draw(2000, SampleRandom(0, 0, 0))
    assert 0.75 < sum(c in "ab" for c in made) / 2000 < 0.85
    assert set(Strings("01").draw(20, SampleRandom(0, 0, 0))) == {"0", "1"}
