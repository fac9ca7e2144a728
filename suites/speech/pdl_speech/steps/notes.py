"""Notes of music, of what a net says of every key of a piano: Bittner et al., A lightweight instrument-agnostic model
for polyphonic note transcription and multipitch estimation, 2022 (arXiv 2203.09893)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count, number, text
from pdl.runtime.steps.inputs import PreStep
from pdl.runtime.steps.outputs import Form, PostStep
from pdl_speech.audio.midi import midi
from pdl_speech.steps.waveform import fitted

QUIET = 11  # frames below the threshold in a row that end a note
INFERRED = 2  # frames back that a note must have become louder from for an onset of its own


class FirstSamples(PreStep):
    """The first `samples` of a waveform [T], with zeros behind a shorter one, as one channel: [samples, 1]."""

    name = "first_samples"

    def __init__(self, samples: int) -> None:
        self.samples = count("samples", samples, most=1 << 26)

    def __call__(self, value: Any) -> Any:
        return fitted(value, self.samples, 0)[:, None]


class NoteEvents(PostStep):
    """{"notes": [{"start", "end", "midi", "amplitude"}]} of activations [frames, keys] in [0, 1] and their onsets, of
    the same shape; in seconds, by start and key.

    A note begins where an onset of at least `onset` is a maximum in time, or where the activation rises as strongly;
    it ends in front of the first 11 frames in a row below `frame`. Notes are found from the last one on, and each takes
    the activations it covers from its key and the two beside it. Of what is left the largest activation above `frame`
    is a note that ends likewise in both directions, less its last frame, until there is none. The amplitude is the mean
    activation. All as in Spotify's basic_pitch.

    onsets     the output that has them
    rate, hop  samples a second, and from one frame to the next
    lowest     MIDI number of the first key
    shortest   seconds; what is not longer is left out
    """

    name = "note_events"

    def __init__(
        self,
        onsets: str,
        rate: int,
        hop: int,
        lowest: int = 21,
        onset: float = 0.5,
        frame: float = 0.3,
        shortest: float = 0.1277,
    ) -> None:
        self.onsets, self.beside = text("onsets", onsets), (onsets,)
        self.rate, self.hop = count("rate", rate, most=384_000), count("hop", hop)
        self.lowest = count("lowest", lowest, 0, 127)
        self.onset, self.frame = number("onset", onset, 0, 1), number("frame", frame, 0, 1)
        self.shortest = number("shortest", shortest, 0, 60)

    def __call__(self, value: Any, sample: Sample) -> Any:
        frames = np.asarray(value)
        most = 128 - self.lowest  # MIDI has as many
        if frames.ndim != 2 or not 0 < frames.shape[1] <= most or sample.outputs[self.onsets].shape != frames.shape:
            raise UsageError(
                f"note_events: expected activations and onsets [frames, up to {most} keys], got {frames.shape}"
            )
        return self.answer(frames, sample.outputs[self.onsets], np.arange(len(frames)) * (self.hop / self.rate))

    def answer(self, frames: Array, onsets: Array, times: Array) -> dict[str, Any]:
        """The notes of activations and onsets [frames, keys], frame f at times[f] seconds."""
        found = [
            {
                "start": round(float(times[begin]), 3),
                "end": round(float(times[end]), 3),
                "midi": self.lowest + key,
                "amplitude": float(frames[begin:end, key].mean()),
            }
            for begin, end, key in sorted(self._found(frames, onsets), key=lambda note: (note[0], note[2]))
        ]
        return {"notes": found}

    def _found(self, frames: Array, onsets: Array) -> Iterator[tuple[int, int, int]]:
        """(begin, end, key) of notes, in frames, without the end itself."""
        left, least = frames.copy(), round(self.shortest * self.rate / self.hop)
        onsets = np.maximum(onsets, _rises(frames, onsets))
        peaks = np.zeros(onsets.shape, bool)
        peaks[1:-1] = (onsets[1:-1] > onsets[:-2]) & (onsets[1:-1] > onsets[2:]) & (onsets[1:-1] >= self.onset)
        for begin, key in np.argwhere(peaks)[::-1].tolist():
            end = begin + 1 + self._covered(left[begin + 1 : -1, key])[0]
            if end - begin > least:
                left[begin:end, max(0, key - 1) : key + 2] = 0
                yield begin, end, key
        # activations only become 0, so that one order of them serves for all maxima
        order = np.argsort(-left, axis=None, kind="stable")[: int((left > self.frame).sum())]
        for middle, key in zip(*(each.tolist() for each in np.unravel_index(order, left.shape)), strict=True):
            if left[middle, key] <= 0:
                continue
            behind, seen = self._covered(left[middle + 1 : -1, key])
            ahead, before = self._covered(left[middle - 1 : 0 : -1, key] if middle else left[:0, key])
            left[middle, key] = 0
            left[middle + 1 : middle + 1 + seen, max(0, key - 1) : key + 2] = 0
            left[middle - before : middle, max(0, key - 1) : key + 2] = 0
            if ahead + behind > least:
                yield middle - ahead, middle + behind, key

    def _covered(self, column: Array) -> tuple[int, int]:
        """How many activations [n] a note has from here on, and how many were looked at to know."""
        quiet = seen = 0
        for value in column.tolist():
            seen += 1
            quiet = quiet + 1 if value < self.frame else 0
            if quiet == QUIET:
                break
        return seen - quiet, seen

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["notes"])

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Nearly as many notes: an activation at a threshold may begin, end or join them."""
        counts = len(ours["notes"]), len(theirs["notes"])
        return abs(counts[0] - counts[1]) <= 1 + max(counts) // 10

    def caption(self, answer: Any) -> str:
        return f"{len(answer['notes'])} notes"

    @property
    def forms(self) -> Sequence[Form]:
        return (Form("midi", ".mid", "the notes as a standard MIDI file", lambda file, name: _Midi(file)),)


class Transcribed(NoteEvents):
    """The same of notes that were found already, as `pdl_speech.Transcriber` finds them."""

    name = "transcribed"

    def __init__(self) -> None:
        self.beside = ()

    def __call__(self, value: Any, sample: Sample) -> Any:
        return value


class _Midi:
    """A MIDI file that answers are written to (`pdl.runtime.steps.outputs.Pages`)."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.notes = file, list[Any]()

    def add(self, prediction: Any) -> None:
        """The notes of an answer."""
        self.notes += prediction.answer.value["notes"]

    def close(self) -> None:
        """Write them."""
        self.file.write(midi(self.notes))


def _rises(frames: Array, onsets: Array) -> Array:
    """By how much activations rise, from the frame before and the one before that, whichever is less; as large as the
    largest onset at most, and 0 where they fall."""
    padded = np.pad(frames, ((INFERRED, 0), (0, 0)))
    rise = np.min([frames - padded[INFERRED - n : len(padded) - n] for n in range(1, INFERRED + 1)], axis=0)
    rise = np.maximum(rise, 0)
    rise[:INFERRED] = 0
    return np.asarray(rise * (onsets.max(initial=0) / max(rise.max(initial=0), np.finfo(np.float32).tiny)))
