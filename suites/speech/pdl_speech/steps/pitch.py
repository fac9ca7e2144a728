"""The pitch of a recording, frame by frame."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count, number
from pdl.runtime.steps.outputs import PostStep

FIRST, STEP = 1997.3794084376191, 20.0  # cents above 10 Hz of bin 0, and from one to the next: Kim et al., 2018
BESIDE = 4  # bins on either side of the best one that have a say


class PitchTrack(PostStep):
    """{"pitch": [Hz], "confidence": [0 to 1], "times": [seconds]} of activations [frames, bins] in [0, 1], frame f at
    f hop / rate. Confidence is the largest activation, of bin m; pitch is 10 Hz 2^(c / 1200), c the mean of the cents
    20 k + 1997.38 of bins m - 4 to m + 4, weighted by their activations (Kim et al., 2018, arXiv 1802.06182).

    rate, hop  samples a second, and from one frame to the next
    voiced     the pitch is 0 where confidence is below
    """

    name = "pitch_track"

    def __init__(self, rate: int, hop: int, voiced: float = 0.0) -> None:
        self.rate, self.hop = count("rate", rate, most=384_000), count("hop", hop)
        self.voiced = number("voiced", voiced, 0, 1)

    def __call__(self, value: Any, sample: Sample) -> Any:
        pitch, confidence = self.found(np.asarray(value))
        times = [self.time(frame) for frame in range(len(pitch))]
        return {"pitch": pitch.tolist(), "confidence": confidence.tolist(), "times": times}

    def found(self, rows: Array) -> tuple[Array, Array]:
        """Pitch and confidence, float64 [n], of activations [n, bins]."""
        bins = np.arange(rows.shape[1])
        best = rows.argmax(axis=1)
        weights = np.where(np.abs(bins - best[:, None]) <= BESIDE, rows.astype(np.float64), 0.0)
        confidence = weights.max(axis=1)
        cents = FIRST + STEP * (weights @ bins) / np.maximum(weights.sum(axis=1), np.finfo(np.float64).tiny)
        voiced = (confidence >= self.voiced) & (confidence > 0)
        return np.where(voiced, 10.0 * 2.0 ** (cents / 1200), 0.0), confidence

    def time(self, frame: int) -> float:
        """Seconds."""
        return round(frame * self.hop / self.rate, 4)

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        columns = zip(answer["times"], answer["pitch"], answer["confidence"], strict=True)
        return [{"time": time, "pitch": pitch, "confidence": confidence} for time, pitch, confidence in columns]

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """As many frames, and confidences within the tolerance: which of two maxima is larger may be a matter of less,
        so pitches are not compared."""
        pairs = [np.asarray(each["confidence"]) for each in (ours, theirs)]
        return pairs[0].shape == pairs[1].shape and bool((np.abs(pairs[0] - pairs[1]) <= tolerance).all())

    def follower(self) -> Frames:
        return Frames(self)

    def caption(self, answer: Any) -> str:
        sure = [pitch for pitch, p in zip(answer["pitch"], answer["confidence"], strict=True) if pitch and p >= 0.5]
        return f"{np.median(sure):.1f} Hz (median)" if sure else "no pitch"


class Frames:
    """A `pdl.runtime.steps.outputs.Follower`: an event {"time", "pitch", "confidence", "text", "final": True} for each
    frame."""

    def __init__(self, step: PitchTrack) -> None:
        self.step, self.done = step, 0

    def feed(self, rows: Any) -> list[Any]:
        """The events of the next activations [n, bins]."""
        pitch, confidence = (each.tolist() for each in self.step.found(np.asarray(rows)))
        first, self.done = self.done, self.done + len(pitch)
        times = [self.step.time(first + i) for i in range(len(pitch))]
        rows = self.step.rows({"times": times, "pitch": pitch, "confidence": confidence})
        said = "{time:8.2f} s {pitch:8.1f} Hz {confidence:5.2f}"
        return [{**row, "text": said.format(**row), "final": True} for row in rows]

    def finish(self, length: int) -> list[Any]:
        """Nothing is left."""
        return []
