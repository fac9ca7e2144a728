"""Where somebody speaks: segments of probabilities by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count, number
from pdl.runtime.steps.outputs import PostStep


class SpeechSegments(PostStep):
    """{"speech": [{"start", "end", "score"}]} of probabilities [steps], in seconds; the score is the mean of those
    inside. Speech begins with a step of at least `onset`, and ends with the first of at least `silence` seconds below
    `offset` (those between count as neither). What is not longer than `speech` seconds is left out; the others are
    `pad` seconds longer at either end. Of one setting with Silero's get_speech_timestamps.

    rate, hop  samples a second, and of a step
    source     the input whose length recordings have
    """

    name = "speech_segments"

    def __init__(
        self,
        rate: int,
        hop: int,
        source: str = "audio",
        onset: float = 0.5,
        offset: float = 0.35,
        speech: float = 0.25,
        silence: float = 0.1,
        pad: float = 0.03,
    ) -> None:
        self.rate, self.hop = count("rate", rate), count("hop", hop)
        self.source, self.reads = source, (source,)
        self.onset, self.offset = number("onset", onset, 0, 1), number("offset", offset, 0, 1)
        self.speech, self.silence = number("speech", speech, 0, 3600), number("silence", silence, 0, 3600)
        self.pad = number("pad", pad, 0, 60)
        if self.offset > self.onset:
            raise UsageError(f"speech_segments: offset {offset} must not be above onset {onset}")
        if self.silence < 2 * self.pad:
            raise UsageError(f"speech_segments: silence {silence} must be at least twice pad {pad}")

    def __call__(self, value: Any, sample: Sample) -> Any:
        follower = self.follower()
        found = [*follower.feed(value), *follower.finish(len(sample.inputs[self.source]))]
        return {"speech": [{name: each[name] for name in ("start", "end", "score")} for each in found if each["final"]]}

    def follower(self) -> Segments:
        return Segments(self)

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["speech"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """As many segments, whose ends may be a step apart where a probability is at a threshold."""
        step = self.hop / self.rate + 1e-3
        pairs = list(zip(ours["speech"], theirs["speech"], strict=False))
        return len(ours["speech"]) == len(theirs["speech"]) and all(
            abs(a[end] - b[end]) <= step for a, b in pairs for end in ("start", "end")
        )

    def caption(self, answer: Any) -> str:
        return ", ".join(f"{each['start']:.2f}-{each['end']:.2f}" for each in answer["speech"]) or "no speech"


class Segments:
    """A `pdl.runtime.steps.outputs.Follower`: an event {"start", "final": False} where speech begins, and {"start",
    "end", "score", "final": True} of each segment, once it has ended; or {"final": False} of one that was too short."""

    def __init__(self, step: SpeechSegments) -> None:
        self.step = step
        self.done = 0  # steps
        self.start: int | None = None  # in samples, as all else
        self.quiet: int | None = None  # since when it has been quiet, within speech
        self.total, self.steps = 0.0, 0  # of the probabilities since the start, and their number, up to `quiet`
        self.after: tuple[float, int] = (0.0, 0)  # those behind

    def feed(self, rows: Any) -> list[Any]:
        """The events of the next probabilities [n]."""
        found: list[Any] = []
        for p in np.asarray(rows, np.float64).reshape(-1).tolist():
            found += self._step(p, self.done * self.step.hop)
            self.done += 1
        return found

    def finish(self, length: int) -> list[Any]:
        """The segment that the end of a recording of so many samples cuts off."""
        if self.start is None:
            return []
        if self.quiet is not None:
            self._joined()
        return self._segment(length, length)

    def _step(self, p: float, at: int) -> Sequence[Any]:
        own = self.step
        if p >= own.onset:
            if self.start is None:
                self.start, self.total, self.steps = at, p, 1
                return [{"start": self._seconds(max(0, at - self._pad)), "final": False}]
            if self.quiet is not None:
                self._joined()
        if self.start is None:
            return ()
        if p < own.offset and self.quiet is None:
            self.quiet, self.after = at, (0.0, 0)
        if self.quiet is None:
            self.total, self.steps = self.total + p, self.steps + 1
            return ()
        self.after = self.after[0] + p, self.after[1] + 1
        if p < own.offset and at - self.quiet >= own.rate * own.silence:
            return self._segment(self.quiet, at)
        return ()

    def _joined(self) -> None:
        """A silence that was too short to be one."""
        self.total, self.steps = self.total + self.after[0], self.steps + self.after[1]
        self.quiet = None

    def _segment(self, end: int, length: int) -> list[Any]:
        own, start = self.step, self.start
        assert start is not None
        self.start = self.quiet = None
        if end - start <= own.rate * own.speech:
            return [{"final": False}]
        first, last = max(0, start - self._pad), min(length, end + self._pad)
        score = self.total / self.steps
        return [{"start": self._seconds(first), "end": self._seconds(last), "score": score, "final": True}]

    @property
    def _pad(self) -> int:
        return int(self.step.rate * self.step.pad)

    def _seconds(self, samples: int) -> float:
        return round(samples / self.step.rate, 3)
