"""Subtitles, SubRip (*.srt) and WebVTT (*.vtt), of words with their times."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, BinaryIO

from pdl.errors import UsageError
from pdl.runtime.steps.outputs import Form

WIDTH, LINES = 42, 2  # characters of a line, and lines of a cue
SHORTEST, LONGEST = 1.0, 7.0  # seconds of a cue
PAUSE = 0.5  # seconds between words at which a cue ends


@dataclass(frozen=True)
class Cue:
    """What is shown from `start` to `end`, in seconds."""

    start: float
    end: float
    lines: list[str]


def cues(words: Sequence[Mapping[str, Any]]) -> Iterator[Cue]:
    """Cues of words {"word", "start", "end"} in their order: of at most two lines of 42 characters and 7 seconds, and
    where the words leave room, of at least one second. They end at pauses; where there is none, at the longest gap
    between words of their second half."""
    begin = 0
    while begin < len(words):
        end = _end(words, begin)
        start = words[begin]["start"]
        until = min(max(words[end - 1]["end"], start + SHORTEST), start + LONGEST)
        if end < len(words):
            until = min(until, max(words[end]["start"], start))
        yield Cue(start, until, _lines(words[begin:end]))
        begin = end


def _end(words: Sequence[Mapping[str, Any]], begin: int) -> int:
    """The first word behind the cue that begins with a word."""
    start = words[begin]["start"]
    for end in range(begin + 1, len(words)):
        gap = words[end]["start"] - words[end - 1]["end"]
        if gap >= PAUSE and words[end]["start"] - start >= SHORTEST:
            return end
        if words[end]["end"] - start > LONGEST or len(_lines(words[begin : end + 1])) > LINES:
            halves = range((begin + end + 1) // 2 + 1, end)
            best = max(halves, key=lambda i: words[i]["start"] - words[i - 1]["end"], default=end)
            wide = words[best]["start"] - words[best - 1]["end"] if best < end else 0.0
            return best if wide > gap and words[best]["start"] - start >= SHORTEST else end
    return len(words)


def _lines(words: Sequence[Mapping[str, Any]]) -> list[str]:
    return textwrap.wrap(" ".join(word["word"] for word in words), WIDTH, break_on_hyphens=False)


def _time(seconds: float, comma: str) -> str:
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{comma}{rest % 1000:03}"


class Subtitles:
    """A file of subtitles that is being written (`pdl.runtime.steps.outputs.Pages`)."""

    def __init__(self, file: BinaryIO, name: str, *, web: bool) -> None:
        self.file, self.web, self.count = file, web, 0
        if web:
            file.write(b"WEBVTT\n\n")

    def add(self, prediction: Any) -> None:
        """The cues of an answer with words."""
        value = prediction.answer.value
        if not isinstance(value, dict) or "words" not in value:
            raise UsageError("subtitles are of words with times, which this answer lacks; leave out --format")
        self.show(value["words"])

    def show(self, words: Sequence[Mapping[str, Any]], speaker: str = "") -> None:
        """The cues of words {"word", "start", "end"}, which somebody says."""
        if speaker and words and not self.web:
            words = [{**words[0], "word": f"{speaker}: {words[0]['word']}"}, *words[1:]]
        for cue in cues(words):
            self.count += 1
            lines = [escape(line, quote=False) for line in cue.lines] if self.web else cue.lines
            if speaker and self.web:
                lines = [f"<v {escape(speaker, quote=False)}>{lines[0]}", *lines[1:]]
            number = "" if self.web else f"{self.count}\n"
            times = " --> ".join(_time(each, "." if self.web else ",") for each in (cue.start, cue.end))
            self.file.write(f"{number}{times}\n{chr(10).join(lines)}\n\n".encode())

    def close(self) -> None:
        """Nothing follows the last cue."""


FORMS = (
    Form("srt", ".srt", "subtitles, SubRip", partial(Subtitles, web=False)),
    Form("vtt", ".vtt", "subtitles, WebVTT", partial(Subtitles, web=True)),
)
