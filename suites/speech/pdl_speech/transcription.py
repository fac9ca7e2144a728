"""`Transcriber`: the notes of a whole recording, by a net that looks at a few seconds at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Predictor, pipeline_of
from pdl.runtime.steps.arguments import count
from pdl_speech.steps.notes import FirstSamples, NoteEvents, Transcribed
from pdl_speech.steps.waveform import Waveform, fitted

TOGETHER = 8  # windows that go through the net at once


class Transcriber:
    """{"notes": [{"start", "end", "midi", "amplitude"}]} of a recording, as the step `note_events` of its net makes
    them. A `pdl.runtime.predict.Predictor`.

    Windows overlap; of each the frames in the middle count. Where they meet, frames are closer than a hop, by less than
    that; each has the time of the samples that it is of.

    net      answers with `note_events` for the first samples of a recording
    overlap  frames that two windows have in common, an even number
    """

    def __init__(self, net: Predictor, *, overlap: Annotated[int, Range(0)] = 30) -> None:
        self.net, inner = net, pipeline_of(net)
        self.input, steps = next((name, steps) for name, steps in inner.pre.items())
        self.step, first = inner.answering(NoteEvents), steps[0] if len(steps) == 1 else None
        source = inner.input
        if self.step is None or not isinstance(first, FirstSamples) or not isinstance(source, Waveform):
            raise UsageError(
                "Transcriber: net does not answer as it should: its pipeline must be waveform, first_samples, and "
                "note_events behind the net"
            )
        self.output = next(name for name, steps in inner.post.items() if self.step in steps)
        self.window, self.edge = first.samples, count("overlap", overlap, 0) // 2
        self.shift = self.window - 2 * self.edge * self.step.hop
        if overlap % 2 or self.shift < self.step.hop:
            most = (self.window - self.step.hop) // self.step.hop
            raise UsageError(f"Transcriber: overlap={overlap} must be even, and at most {most}")
        self.pipeline = Pipeline({"audio": [Waveform(source.rate)]}, {"notes": [Transcribed()]})

    def __call__(self, item: Any) -> dict[str, Any]:
        """The notes of one recording: a file, its bytes, a waveform, or (waveform, its rate)."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """The answers for several recordings, in order."""
        return [answer.plain() for answer in self.pipeline.answers(items, self.run)]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """The notes of each of several waveforms [N, T]."""
        return {"notes": [self._notes(wave) for wave in inputs["audio"]]}

    def activations(self, wave: Array) -> tuple[Array, Array, Array]:
        """Activations and onsets [frames, keys] of a waveform [T], and the seconds at which frames are [frames]."""
        assert self.step is not None
        before, names = self.edge * self.step.hop, (self.output, self.step.onsets)
        starts = range(-before, len(wave), self.shift)
        found: list[list[Array]] = [[], []]
        for at in range(0, len(starts), TOGETHER):
            windows = [fitted(wave, self.window, begin)[:, None] for begin in starts[at : at + TOGETHER]]
            made = self.net.run({self.input: np.stack(windows)})
            for name, parts in zip(names, found, strict=True):
                parts.append(made[name][:, self.edge : made[name].shape[1] - self.edge])
        frames, onsets = (np.concatenate(parts) for parts in found)
        first = (np.asarray(starts) + before)[:, None] + np.arange(frames.shape[1]) * self.step.hop
        there = first < len(wave)
        return frames[there], onsets[there], first[there] / self.step.rate

    def _notes(self, wave: Array) -> dict[str, Any]:
        assert self.step is not None
        return self.step.answer(*self.activations(wave))
