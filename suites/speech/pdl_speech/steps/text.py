"""Texts that are to be said, as inputs of nets: their characters, how they are said, and how long that may take."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import tables
from pdl.runtime.fields import part_of
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count, flag, number
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.inputs import Flag, Input, InputStep

LONGEST = 1000  # characters
KEPT = ".,;:!?'-()"  # signs that change how a text is said
SAME = str.maketrans("\u2019\u02bc`\u2018\u201c\u201d\u2013\u2014\u2026", "''''  --.")
SPEED, PITCH = (0.25, 4.0), (-12.0, 12.0)
FLAGS = (
    Flag("--speed", "X", "Speak so many times as fast; 1 by default."),
    Flag("--pitch", "SEMITONES", "Speak so much higher, or lower; 0 by default."),
)


def spelled(text: str, *, lower: bool = True) -> str:
    """A text as it is spoken: in Unicode's normal form C, letters, digits and the signs `KEPT`, one space between
    words, and one at both ends, which is the silence there. Empty where nothing is left to be said."""
    found = unicodedata.normalize("NFC", text).translate(SAME)
    found = found.lower() if lower else found
    kept = (c if c in KEPT or unicodedata.category(c)[0] in "LMN" else " " for c in found)
    found = " ".join("".join(kept).split())
    return f" {found} " if any(c not in KEPT and c != " " for c in found) else ""


class SpokenText(InputStep):
    """A text -> the numbers of its characters, int64 [U]: the labels of the bundle from 1 on, 0 behind the last one.
    Characters that it lacks are left out.

    lower    whether texts are lowered first
    longest  characters of a text
    """

    name = "spoken_text"
    takes, metavar, about = (
        "text",
        "TEXT",
        "a text to be said, or a file with a text on each line, - for standard input",
    )
    batch_size = 8

    def __init__(self, lower: bool = True, longest: int = LONGEST) -> None:
        self.lower, self.longest = flag("lower", lower), count("longest", longest)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        self.numbers = {letter: i for i, letter in enumerate(resources.labels, 1)}

    def parse(self, item: Any, sample: Sample) -> Array:
        key = (self.lower, self.longest)
        if key not in sample.memo:
            sample.memo[key] = self._read(str(part_of(item, "text", ["text"])), sample)
        found: Array = sample.memo[key]
        return found

    def _read(self, text: str, sample: Sample) -> Array:
        said = spelled(text, lower=self.lower)
        sample.note_unknown(list(dict.fromkeys(c for c in said if c not in self.numbers and c != " ")))
        said = spelled("".join(c for c in said if c in self.numbers), lower=self.lower)
        if not said:
            raise DataError(
                f"{text!r:.60} has nothing that can be said: give a text of the characters that it knows: "
                f"{''.join(self.numbers)!r:.80}"
            )
        if len(said) > self.longest:
            raise DataError(
                f"{text!r:.60} has {len(said):,} characters, more than {self.longest:,}: give sentences, one "
                "a line of a file"
            )
        return np.array([self.numbers[c] for c in said if c in self.numbers], np.int64)

    def file(self, path: str | Path) -> Iterator[Input]:
        """A text a line, or the column `text` of a table."""
        return (Input(str(name), item) for name, item in tables.text_lines(path, "text"))

    def group(self, array: Array) -> Hashable:
        return (len(array) - 1).bit_length()

    def collate(self, arrays: Sequence[Array]) -> Array:
        made = np.zeros((len(arrays), max(map(len, arrays))), np.int64)
        for row, array in zip(made, arrays, strict=True):
            row[: len(array)] = array
        return made

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Made-up words."""
        letters = [c for c in self.numbers if c.isalnum()]
        return ["".join(rng.choice(letters, length)) for length in (2, 7, 19)]

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return rng.integers(1, len(self.numbers) + 1, shape)


class Manner(SpokenText):
    """How a text is to be said, float32 [2]: how many times as fast, and how many semitones higher; the options --speed
    and --pitch."""

    name = "manner"
    speed, pitch = 1.0, 0.0

    def configured(self, values: Mapping[str, Sequence[str]]) -> Manner:
        made = copy(self)
        made.speed, made.pitch = (
            _value(values, each.name, *of) for each, of in zip(FLAGS, (SPEED, PITCH), strict=True)
        )
        return made

    def parse(self, item: Any, sample: Sample) -> Array:
        return np.array([self.speed, self.pitch], np.float32)

    def group(self, array: Array) -> Hashable:
        return ()

    def collate(self, arrays: Sequence[Array]) -> Array:
        return np.stack(arrays)

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return np.broadcast_to(np.array([1, 0], np.float32), shape)


def _value(values: Mapping[str, Sequence[str]], name: str, least: float, most: float) -> float:
    given = values.get(name, ("1" if name == "--speed" else "0",))[-1]
    try:
        found = float(given)
    except ValueError:
        found = float("nan")
    if not least <= found <= most:
        raise UsageError(f"{name} {given:.30}: expected a number from {least:g} to {most:g}")
    return found


class FrameRoom(Manner):
    """The numbers of frames for which there is room, int64 [T], 0 to T - 1: twice as many as the text has on average.

    pace  frames of a character, on average
    """

    name = "frame_room"

    def __init__(self, pace: float, lower: bool = True, longest: int = LONGEST) -> None:
        super().__init__(lower, longest)
        self.pace = number("pace", pace, 0.1, 1000)

    def parse(self, item: Any, sample: Sample) -> Array:
        characters = len(SpokenText.parse(self, item, sample))
        return np.arange(room(characters, self.pace, self.speed))

    def collate(self, arrays: Sequence[Array]) -> Array:
        longest = max(map(len, arrays))
        return np.broadcast_to(np.arange(longest), (len(arrays), longest)).copy()

    def random(self, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        return np.broadcast_to(np.arange(shape[1]), shape).copy()


def room(characters: int, pace: float, speed: float = 1.0) -> int:
    """Frames for a text: a multiple of 32, so that few sizes occur."""
    return -(-int(64 + 2 * pace * characters / speed) // 32) * 32
