"""Who speaks when: windows of speech by their voices, as turns with names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.predict import Predictor, answers, pipeline_of
from pdl.runtime.sample import Sample
from pdl.runtime.session import load
from pdl.runtime.steps.gallery import ENROLLED, KEEP, Enrolled, Gallery, unit
from pdl.runtime.steps.inputs import Flag
from pdl.runtime.steps.outputs import Form, PostStep
from pdl.runtime.subtitles import Subtitles
from pdl_speech.clustering import agglomerated, numbered
from pdl_speech.turns import Turn, diarisation_error, rttm

SPEAKERS = Flag("--speakers", "N", "How many speak; by default as many as are found.")
WORDS = Flag("--words", "MODEL", "Write what each of them says, by this model of speech recognition.")
SHORT = 0.8  # seconds: a shorter window does not say who there is, and belongs to the nearest
BRIEF = 1.0  # seconds: who speaks for less in all is taken for one of the others, unless their number is given
MOST = 1000  # speakers


@dataclass(frozen=True)
class Voices:
    """A recording at `rate`, its segments of speech float64 [S, 2] in seconds, and windows of them: in which segment
    each lies int64 [W], from when to when float64 [W, 2], and its vector float32 [W, C]."""

    wave: Array
    rate: int
    segments: Array
    owners: Array
    spans: Array
    vectors: Array


class Diarised(PostStep):
    """{"segments": [{"speaker", "start", "end"}], "speakers"} of `Voices`. Speakers are "speaker 1", ... in the order
    in which they begin; with `--enrolled` those have their names whose vector is near enough, as `gallery` decides.

    voice    the model that tells voices apart, with its step `gallery`
    between  the least mean cosine of two groups that are one speaker is between these (`agglomerated`)
    pause    seconds
    words    a model that writes what is said
    count    how many speakers; None: as many as are found
    """

    name = "diarised"
    any_script = True

    def __init__(
        self,
        voice: Predictor,
        gallery: Gallery,
        between: tuple[float, float],
        pause: float,
        words: Predictor | None = None,
    ) -> None:
        self.voice, self.gallery, self.between, self.pause = voice, gallery, between, pause
        self.words = _writing(words)
        self.count: int | None = None
        self.known: Enrolled | None = None

    def __call__(self, value: Any, sample: Sample) -> Any:
        if not len(value.owners):
            return {"segments": [], "speakers": []}
        labels = self.labels(value)
        names = self._names(value, labels)
        turns = list(joined(turns_of(value, [names[label] for label in labels]), self.pause))
        said = [{}] * len(turns) if self.words is None else self._said(value, turns)
        segments = [
            {"speaker": turn.speaker, "start": round(turn.start, 3), "end": round(turn.end, 3), **text}
            for turn, text in zip(turns, said, strict=True)
        ]
        return {"segments": segments, "speakers": list(dict.fromkeys(turn.speaker for turn in turns))}

    def labels(self, voices: Voices) -> list[int]:
        """The number of the speaker in each window."""
        vectors, seconds = unit(voices.vectors), np.diff(voices.spans, axis=1)[:, 0]
        long = np.flatnonzero(seconds > min(SHORT, float(seconds.max())) - 1e-3)
        group = agglomerated(
            vectors[long] @ vectors[long].T, least=self.between[0], most=self.between[1], count=self.count
        )
        shares = np.array([turn.end - turn.start for turn in turns_of(voices, [""] * len(seconds))])
        spoken = np.bincount(group, shares[long])
        kept = np.flatnonzero((spoken >= min(BRIEF, spoken.max())) | (self.count is not None))
        centres = unit(np.stack([vectors[long[group == i]].mean(axis=0) for i in kept]))
        labels = kept[(vectors @ centres.T).argmax(axis=1)]
        labels[long] = np.where(np.isin(group, kept), group, labels[long])
        return numbered(labels).tolist()  # type: ignore[no-any-return]

    def _names(self, voices: Voices, labels: Sequence[int]) -> list[str]:
        """What each speaker is called."""
        names, vectors, who = list[str](), unit(voices.vectors), np.array(labels)
        for i in range(max(labels) + 1):
            found = "" if self.known is None else self.known(vectors[who == i].mean(axis=0), Sample())["label"]
            stranger = self.known is None or found == self.known.nobody
            names.append(f"speaker {1 + sum(each.startswith('speaker ') for each in names)}" if stranger else found)
        return names

    def _said(self, voices: Voices, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        assert self.words is not None
        rate = voices.rate
        pieces = [(voices.wave[round(turn.start * rate) : round(turn.end * rate)], rate) for turn in turns]
        return [
            {
                "text": found["text"],
                "words": [
                    {**word, **{end: round(word[end] + turn.start, 3) for end in ("start", "end")}}
                    for word in found["words"]
                ],
            }
            for turn, found in zip(turns, answers(self.words, pieces), strict=True)
        ]

    # -- options -------------------------------------------------------------------------------------------------------
    @property
    def flags(self) -> Sequence[Flag]:
        return (SPEAKERS, ENROLLED, KEEP, WORDS)

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> PostStep:
        made = copy(self)
        if given := values.get(SPEAKERS.name):
            if not given[-1].isdecimal() or not 1 <= int(given[-1]) <= MOST:
                raise UsageError(f"{SPEAKERS.name} {given[-1]:.30}: expected how many speak, from 1 to {MOST}")
            made.count = int(given[-1])
        known = self.gallery.configured(values, self.voice)
        made.known = known if isinstance(known, Enrolled) else None
        if given := values.get(WORDS.name):
            made.words = _writing(load(given[-1]))
        return made

    # -- answers -------------------------------------------------------------------------------------------------------
    def rows(self, answer: Any) -> list[dict[str, Any]]:
        columns = ("start", "end", "speaker", "text")
        return [{name: each[name] for name in columns if name in each} for each in answer["segments"]]

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Turns of the same people but for a twentieth of the time: ends lie where probabilities reach a threshold."""
        mine, others = (
            [Turn(each["start"], each["end"], each["speaker"]) for each in answer["segments"]]
            for answer in (ours, theirs)
        )
        rate = diarisation_error(others, mine).rate
        return rate <= 0.05 if others else not mine

    def caption(self, answer: Any) -> str:
        return f"{len(answer['speakers'])} speakers, {len(answer['segments'])} turns"

    @property
    def forms(self) -> Sequence[Form]:
        return (
            Form("rttm", ".rttm", "who speaks when, as NIST's RTTM", _Rttm),
            Form("srt", ".srt", "subtitles with the speakers, SubRip (--words)", partial(_Subtitles, web=False)),
            Form("vtt", ".vtt", "subtitles with the speakers, WebVTT (--words)", partial(_Subtitles, web=True)),
        )


def _writing(words: Predictor | None) -> Predictor | None:
    """A model that writes words with their times; UsageError for another one."""
    if words is not None and not any(step.in_time for steps in pipeline_of(words).post.values() for step in steps[-1:]):
        raise UsageError("words: this model does not write what is said with the times of words, as a recogniser does")
    return words


def turns_of(voices: Voices, speakers: Sequence[str]) -> Iterator[Turn]:
    """The turns of windows, each of a speaker: it ends in the middle between its centre and that of the next one."""
    centres = voices.spans.mean(axis=1)
    for i, (start, end) in enumerate(voices.segments.tolist()):
        inside = np.flatnonzero(voices.owners == i)
        cuts = (centres[inside[1:]] + centres[inside[:-1]]) / 2
        edges = [start, *cuts.tolist(), end]
        for at, window in enumerate(inside.tolist()):
            yield Turn(edges[at], edges[at + 1], speakers[window])


def joined(turns: Iterator[Turn], pause: float) -> Iterator[Turn]:
    """Turns, by start, where those of one speaker that follow one another within `pause` seconds are one."""
    last: Turn | None = None
    for turn in turns:
        if last is not None and turn.speaker == last.speaker and turn.start - last.end <= pause:
            last = Turn(last.start, turn.end, turn.speaker)
            continue
        if last is not None:
            yield last
        last = turn
    if last is not None:
        yield last


class _Rttm:
    """An RTTM file that answers are written to (`pdl.runtime.steps.outputs.Pages`)."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file, self.recording = file, name.rpartition(".")[0] or name

    def add(self, prediction: Any) -> None:
        """The turns of an answer."""
        found = prediction.answer.value["segments"]
        turns = [Turn(each["start"], each["end"], each["speaker"]) for each in found]
        self.file.write(rttm(self.recording, turns).encode())

    def close(self) -> None:
        """Nothing follows the last turn."""


class _Subtitles(Subtitles):
    """Subtitles that say who speaks."""

    def add(self, prediction: Any) -> None:
        for each in prediction.answer.value["segments"]:
            if "words" not in each:
                raise UsageError(f"subtitles are of words: say who writes them ({WORDS.name} MODEL), or save *.rttm")
            self.show(each["words"], each["speaker"])
