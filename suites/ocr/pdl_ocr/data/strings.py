"""Strings of random characters that could be words of their script: marks stand on letters that carry them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from pdl.data.randomness import SampleRandom

VIRAMA, NUKTA = 9, 7  # combining classes (The Unicode Standard, section 4.3)
OTHERS = 0.2  # the share of digits and signs, which would be most of what small alphabets draw
CONJUNCT, NUKTAS, SIGNS, MODIFIERS, MARKS = 0.25, 0.05, 0.5, 0.1, 0.2  # shares of the letters that carry one


class Strings:
    """Strings of these characters. In scripts of India (section 12.1 of the Unicode Standard) a consonant may carry a
    nukta, join the next by a virama, and carry a vowel sign and a bindu or visarga; an independent vowel only the last.
    In other scripts a letter may carry one mark of its script. One in five is a digit or a sign, where there are
    letters; all else is drawn with equal chances.

    starts  what a string may begin with: the characters that are no marks
    """

    def __init__(self, characters: str) -> None:
        self.starts = "".join(c for c in characters if not is_mark(c))
        self.letters = "".join(c for c in self.starts if unicodedata.category(c)[0] == "L")
        self.signs_and_digits = "".join(c for c in self.starts if c not in self.letters)
        marks = [c for c in characters if is_mark(c)]
        self.viramas = _by_script(c for c in marks if unicodedata.combining(c) == VIRAMA)
        self.nuktas = _by_script(c for c in marks if unicodedata.combining(c) == NUKTA)
        self.signs = _by_script(c for c in marks if "VOWEL SIGN" in unicodedata.name(c))
        rest = {c for c in marks if unicodedata.combining(c) not in (VIRAMA, NUKTA)}
        self.others = _by_script(sorted(rest.difference(*self.signs.values())))
        self.consonants = _by_script(c for c in self.starts if is_consonant(c))
        self.indic = frozenset(self.viramas)
        self.carriers = frozenset(c for c in self.starts if marks and is_letter(c) and script_of(c) in self.others)

    def draw(self, length: int, rng: SampleRandom) -> str:
        """A string of so many characters."""
        made = list[str]()
        while len(made) < length:
            made += self._cluster(self._start(rng), length - len(made), rng)
        return "".join(made)

    def _start(self, rng: SampleRandom) -> str:
        if not self.letters or not self.signs_and_digits:
            return _one(self.starts, rng)
        return _one(self.signs_and_digits if rng.chance(OTHERS) else self.letters, rng)

    def _cluster(self, first: str, room: int, rng: SampleRandom) -> list[str]:
        """A letter and what it carries, at most `room` characters."""
        script, made = script_of(first), [first]
        if script in self.indic and is_consonant(first):
            self._add(made, self.nuktas, NUKTAS, room, rng)
            if len(made) + 2 <= room and rng.chance(CONJUNCT):
                made += [_one(self.viramas[script], rng), _one(self.consonants[script], rng)]
            self._add(made, self.signs, SIGNS, room, rng)
        if first in self.carriers:
            self._add(made, self.others, MODIFIERS if script in self.indic else MARKS, room, rng)
        return made

    def _add(self, made: list[str], marks: dict[str, str], share: float, room: int, rng: SampleRandom) -> None:
        """One of the script's marks, unless form C would write them otherwise."""
        known = marks.get(script_of(made[0]), "")
        if not known or len(made) >= room or not rng.chance(share):
            return
        mark = _one(known, rng)
        if unicodedata.is_normalized("NFC", made[-1] + mark):
            made.append(mark)


def is_mark(character: str) -> bool:
    """Whether a character stands on, below or around another one."""
    return unicodedata.category(character)[0] == "M"


def is_letter(character: str) -> bool:
    """A letter that marks may stand on. Thai's vowels (SARA) and India's OM are letters, too, and carry none."""
    name = unicodedata.name(character, "")
    return unicodedata.category(character) == "Lo" and " SARA " not in name and not name.endswith(" OM")


def is_consonant(character: str) -> bool:
    """A letter of a script of India that is no independent vowel, told by its name: "DEVANAGARI LETTER KA"."""
    _, found, name = unicodedata.name(character, "").partition(" LETTER ")
    last = name.rpartition(" ")[2]
    vowel = set(last) <= set("AEIOU") or last == "AW" or "VOCALIC" in name
    return bool(found) and unicodedata.category(character) == "Lo" and not vowel


def script_of(character: str) -> str:
    """The first word of a character's name."""
    return unicodedata.name(character, "").partition(" ")[0]


def _by_script(characters: Iterable[str]) -> dict[str, str]:
    made = dict[str, str]()
    for each in characters:
        made[script_of(each)] = made.get(script_of(each), "") + each
    return made


def _one(characters: str, rng: SampleRandom) -> str:
    return characters[rng.integers(0, len(characters))]
