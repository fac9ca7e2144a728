"""`Diariser`: who speaks when, by models that find speech and tell voices apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Predictor, answers, pipeline_of
from pdl.runtime.steps.arguments import number
from pdl.runtime.steps.gallery import Gallery
from pdl_speech.steps.diarised import Diarised, Voices
from pdl_speech.steps.segments import SpeechSegments
from pdl_speech.steps.waveform import Waveform


class Diariser:
    """{"segments": [{"speaker", "start", "end"}], "speakers": [names]} of a recording, in seconds, by start; with
    `words` each segment has the "text" that is said, and its "words". A `pdl.runtime.predict.Predictor`.

    Segments of speech are looked at through windows; their vectors are grouped by average linkage of cosines, and what
    lies in the middle between two windows parts them. One speaks at a time: where two do, one of them is found.

    vad        finds speech: answers with `speech_segments`
    voice      tells voices apart: answers with `gallery`
    words      writes what is said: answers with texts and the times of words; None: nothing is written
    low, high  the least mean cosine of two groups that are one speaker is between these, where the number of speakers
               stays the same for longest; null: 0.05 below and 0.2 above the threshold of the gallery
    window     seconds of a window; a shorter segment is one
    hop        seconds from one window to the next, at most
    pause      seconds: pauses of a speaker that are not longer are in a segment
    """

    def __init__(
        self,
        vad: Predictor,
        voice: Predictor,
        words: Predictor | None = None,
        *,
        low: Annotated[float, Range(-1, 1)] | None = None,
        high: Annotated[float, Range(-1, 1)] | None = None,
        window: Annotated[float, Range(0.2, 60)] = 1.6,
        hop: Annotated[float, Range(0.05, 60)] = 0.5,
        pause: Annotated[float, Range(0, 60)] = 0.5,
    ) -> None:
        gallery, source = pipeline_of(voice).answering(Gallery), pipeline_of(voice).input
        if pipeline_of(vad).answering(SpeechSegments) is None:
            raise UsageError("Diariser: vad does not answer as it should: its pipeline has no step 'speech_segments'")
        if gallery is None or not isinstance(source, Waveform):
            raise UsageError(
                "Diariser: voice does not answer as it should: its pipeline must be waveform, and gallery behind the "
                "net, as that of speech/resemblyzer or of a run of pdl_speech.SpeakerVerification"
            )
        known = gallery.threshold
        if known is None and (low is None or high is None):
            raise UsageError("Diariser: the gallery of voice has no threshold; give low and high, such as 0.55 and 0.8")
        first, last = (
            max(-1.0, min(1.0, known + by)) if given is None and known is not None else number(name, given, -1, 1)
            for name, given, by in (("low", low, -0.05), ("high", high, 0.2))
        )
        if first >= last:
            raise UsageError(f"Diariser: low={first:g} must be below high={last:g}")
        self.vad, self.voice = vad, voice
        self.window, self.hop = number("window", window, 0.2, 60), number("hop", hop, 0.05, 60)
        step = Diarised(voice, gallery, (first, last), number("pause", pause, 0, 60), words)
        self.pipeline = Pipeline({"audio": [Waveform(source.rate)]}, {"segments": [step]})

    def __call__(self, item: Any) -> dict[str, Any]:
        """Who speaks when in one recording: a file, its bytes, a waveform, or (waveform, its rate)."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """The answers for several recordings, in order."""
        return [answer.plain() for answer in self.pipeline.answers(items, self.run)]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """The voices in each of several waveforms [N, T]."""
        return {"segments": [self.voices(wave) for wave in inputs["audio"]]}

    def voices(self, wave: Array) -> Voices:
        """The segments of speech in a waveform [T], and the vectors of their windows."""
        rate = self.pipeline.input.rate  # type: ignore[attr-defined]
        speech = answers(self.vad, [(wave, rate)])[0]["speech"]
        segments = np.array([(each["start"], each["end"]) for each in speech], np.float64).reshape(-1, 2)
        owners, spans = list[int](), list[tuple[float, float]]()
        for i, (start, end) in enumerate(segments.tolist()):
            more = max(0, int(np.ceil((end - start - self.window) / self.hop)))
            begins = np.linspace(start, max(start, end - self.window), more + 1)
            owners += [i] * len(begins)
            spans += [(begin, min(end, begin + self.window)) for begin in begins.tolist()]
        pieces = [(wave[round(begin * rate) : round(end * rate)], rate) for begin, end in spans]
        found = [answer["vector"] for answer in answers(self.voice, pieces)]
        return Voices(wave, rate, segments, np.array(owners, np.int64), np.array(spans), np.array(found, np.float32))
