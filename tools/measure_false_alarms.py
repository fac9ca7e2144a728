"""How often a keyword spotter hears a word that nobody said, and how many it misses: a curve over its threshold.

    python tools/measure_false_alarms.py speech/keywords6 --speech recordings --words list.tsv --file "audio/{clip}.ogg"

--speech is a folder of recordings in which none of the words is said; they are heard one after another, as one long
recording. --words are recordings of the words, as `pdl_speech.data.AudioTable` reads them (of --split), each heard with
a second of silence before and behind it. A window of the bundle's length is moved on by --hop seconds; the score of a
word is the mean of its probability over the last --smooth windows (Chen et al., Small-footprint keyword spotting using
deep neural networks, ICASSP 2014). An alarm is raised where the score of a word reaches the threshold, and no other one
for a second. A word is missed where no alarm is raised, or the first one is for another word.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import pdl.runtime
from pdl_speech.audio.files import read_audio
from pdl_speech.data import AudioTable
from pdl_speech.data.recordings import recordings_in

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
QUIET = 1.0  # seconds
Array = np.ndarray


class Spotter:
    """A bundle that is asked about a moving window."""

    def __init__(self, bundle: str, other: str, hop: float, smooth: int) -> None:
        self.session = pdl.runtime.load(bundle)
        self.rate, self.window = int(self.session.bundle.meta["about"]["rate"]), self.session.inputs[0].shape[1]
        if not isinstance(self.window, int):
            raise SystemExit(f"{bundle} takes recordings of any length; expected one whose transforms end in PadOrCrop")
        self.hop, self.smooth, self.step = hop, smooth, round(hop * self.rate)
        names = [str(name) for name in self.session.bundle.labels]
        self.words = [name for name in names if name != other]
        self.columns = [names.index(name) for name in self.words]

    def scores(self, wave: Array) -> Array:
        """float [windows, words] of a waveform [T] at `rate`."""
        wave = np.pad(wave, (0, max(0, self.window - len(wave))))
        views = np.lib.stride_tricks.sliding_window_view(wave, self.window)[:: self.step]
        logits = np.concatenate([self.session.run({"audio": part})["logits"] for part in batches(views)])
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p = (p / p.sum(axis=1, keepdims=True))[:, self.columns]
        total = np.cumsum(np.pad(p, ((self.smooth, 0), (0, 0))), axis=0)
        return (total[self.smooth :] - total[: -self.smooth]) / self.smooth

    def alarms(self, scores: Array, threshold: float) -> list[tuple[int, int]]:
        """The windows of alarms, with the number of the word."""
        found: list[tuple[int, int]] = []
        best = scores.argmax(axis=1)
        for at in np.flatnonzero(scores.max(axis=1) >= threshold).tolist():
            if not found or (at - found[-1][0]) * self.hop >= QUIET:
                found.append((at, int(best[at])))
        return found


def batches(views: Array, size: int = 64) -> list[Array]:
    """Windows, some at a time."""
    return [np.ascontiguousarray(views[k : k + size], np.float32) for k in range(0, len(views), size)]


def heard_first(spotter: Spotter, scores: Array, threshold: float) -> str:
    """The word of the first alarm, or nothing."""
    found = spotter.alarms(scores, threshold)
    return spotter.words[found[0][1]] if found else ""


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The curve."""
    spotter = Spotter(args.bundle, args.other, args.hop, args.smooth)
    speech = np.concatenate([read_audio(file, spotter.rate)[0] for file in recordings_in(args.speech)])
    table = AudioTable(args.words, file=args.file, label=args.label, split=args.split, rate=spotter.rate)
    silence = np.zeros(round(QUIET * spotter.rate), np.float32)
    said = [table.classes[label] for label in table.labels]
    words = [spotter.scores(np.concatenate([silence, table[n]["audio"], silence])) for n in range(len(table))]
    long, hours = spotter.scores(speech), len(speech) / spotter.rate / 3600
    curve = [
        {
            "threshold": threshold,
            "false_alarms_per_hour": round(len(spotter.alarms(long, threshold)) / hours, 2),
            "missed": round(
                float(np.mean([heard_first(spotter, x, threshold) != y for x, y in zip(words, said, strict=True)])), 4
            ),
        }
        for threshold in THRESHOLDS
    ]
    return {"hours": round(hours, 3), "words": len(words), "curve": curve}


def main() -> int:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--speech", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--words", required=True, metavar="TABLE")
    parser.add_argument("--file", help="as AudioTable's")
    parser.add_argument("--label", help="as AudioTable's")
    parser.add_argument("--split", default="test")
    parser.add_argument("--other", default="other", help="the class that is none of the words")
    parser.add_argument("--hop", type=float, default=0.1, metavar="SECONDS")
    parser.add_argument("--smooth", type=int, default=3, metavar="WINDOWS")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(args)
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"{found['words']} words; {found['hours']} hours of other speech")
    print(f"{'threshold':>9} {'false alarms an hour':>21} {'missed':>8}")
    for row in found["curve"]:
        print(f"{row['threshold']:>9} {row['false_alarms_per_hour']:>21} {row['missed']:>8.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
