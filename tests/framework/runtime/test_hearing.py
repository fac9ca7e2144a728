"""Texts while they are said, and subtitles of words."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pdl.runtime.sample import Sample
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.labels import Ctc
from pdl.runtime.subtitles import FORMS, LINES, WIDTH, cues

LETTERS = " abc"
STEP = 0.05


def heard(path: str) -> Any:
    """Probabilities of a path: "." is the blank."""
    classes = [0 if letter == "." else 1 + LETTERS.index(letter) for letter in path]
    rows = np.full((len(path), 5), 0.02)
    rows[np.arange(len(path)), classes] = 0.92
    return rows


def ctc(**options: Any) -> Ctc:
    step = Ctc(seconds=STEP)
    step.bind(Resources(labels=list(LETTERS)))
    step.how = options or None
    return step


def followed(path: str, sizes: tuple[int, ...], **options: Any) -> list[dict[str, Any]]:
    follower, rows, found, at = ctc(**options).follower(), heard(path), [], 0
    for turn in range(len(path)):
        size = sizes[turn % len(sizes)]
        found += follower.feed(rows[at : at + size]) if at < len(rows) else []
        at += size
    return found + follower.finish()


QUIET = "." * 15
PATH = f"{QUIET}aab. c.{QUIET}{QUIET}ab.{QUIET} {QUIET}c{'.' * 60}b..b a"


@pytest.mark.parametrize("sizes", [(1,), (16,), (7, 30), (1000,)])
def test_the_words_are_those_of_the_whole(sizes: tuple[int, ...]) -> None:
    whole = ctc()(heard(PATH), Sample())
    assert whole["text"] == "ab cab c bb a"  # no word is silent for two seconds
    events = followed(PATH, sizes)
    final = [event for event in events if event["final"]]
    assert " ".join(event["text"] for event in final) == whole["text"]
    words = [word for event in final for word in event["words"]]
    assert [(w["word"], w["start"], w["end"]) for w in words] == [
        (w["word"], w["start"], w["end"]) for w in whole["words"]
    ]
    assert all(event["start"] == event["words"][0]["start"] for event in final)
    if sizes == (1,):
        assert [event["text"] for event in events][:4] == ["a", "ab", "ab c", "ab ca"]
        assert [event["text"] for event in final] == ["ab cab", "c", "bb a"]


def test_so_are_those_of_a_search() -> None:
    final = [event for event in followed(PATH, (16,), width=8) if event["final"]]
    assert " ".join(event["text"] for event in final) == "ab cab c bb a"


def test_a_speech_without_pauses_ends_at_words() -> None:
    path = "a.b.c. " * 400  # 140 s
    final = [event["text"] for event in followed(path, (16,)) if event["final"]]
    assert len(final) > 3
    assert " ".join(final) == " ".join(["abc"] * 400)


def test_what_writes_no_spaces_ends_at_pauses() -> None:
    step = Ctc(seconds=STEP)
    step.bind(Resources(labels=list("xabc")))
    follower = step.follower()
    final = [event["text"] for event in follower.feed(heard(f"ab.{QUIET}c{QUIET}")) if event["final"]]
    assert final + [event["text"] for event in follower.finish()] == ["abc"]
    assert step(heard(f"a{'.' * 80}b"), Sample())["text"] == "ab"


# -- subtitles ---------------------------------------------------------------------------------------------------------
def spoken(*times: tuple[str, float, float]) -> list[dict[str, Any]]:
    return [{"word": word, "start": start, "end": end} for word, start, end in times]


def test_cues_hold_what_readers_need() -> None:
    rng = np.random.default_rng(0)
    words, at = [], 0.0
    for _ in range(600):
        at += float(rng.choice([0.02, 0.1, 0.4, 0.9, 3.0], p=[0.5, 0.3, 0.1, 0.07, 0.03]))
        long = float(rng.uniform(0.05, 0.7))
        words.append(("x" * int(rng.integers(1, 13)), at, at + long))
        at += long
    made = list(cues(spoken(*words)))
    assert [w for cue in made for line in cue.lines for w in line.split()] == [word for word, *_ in words]
    for cue, following in zip(made, [*made[1:], None], strict=True):
        assert len(cue.lines) <= LINES
        assert all(len(line) <= WIDTH for line in cue.lines)
        assert cue.end - cue.start <= 7.0 + 1e-9
        assert following is None or cue.end <= following.start
        assert cue.end - cue.start >= 0.999 or (following is not None and following.start - cue.start < 1.0)
    assert sum(cue.end - cue.start < 0.999 for cue in made) < len(made) / 50


def test_files_of_subtitles() -> None:
    words = spoken(("hello", 0.5, 0.9), ("a<b", 1.0, 1.2), ("again", 3661.5, 3661.75))
    prediction = SimpleNamespace(answer=SimpleNamespace(value={"words": words}))
    found = []
    for form in FORMS:
        file = io.BytesIO()
        pages = form.begin(file, "a.wav")
        pages.add(prediction)
        pages.close()
        found.append(file.getvalue().decode())
    assert found[0] == ("1\n00:00:00,500 --> 00:00:01,500\nhello a<b\n\n2\n01:01:01,500 --> 01:01:02,500\nagain\n\n")
    assert found[1] == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:01.500\nhello a&lt;b\n\n01:01:01.500 --> 01:01:02.500\nagain\n\n"
    )
