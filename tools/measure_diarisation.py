"""Who speaks when in conversations that are made of recordings of single speakers: diarisation error rates.

    python tools/measure_diarisation.py speech/librispeech_spk_dev/librispeech_spk_dev/list.tsv --digits fsdd
    python tools/measure_diarisation.py TABLE --voice BUNDLE --file "audio/{utt}.flac" --label speaker

No real meetings: 2 to 5 people take turns of 1.5 to 8 s with 0.1 to 1.2 s between them, for about 90 s. A turn is made
of the recordings of a speaker in a random order, of a single one from a random place on; where they end they begin
again. Pauses of more than 0.25 s (40 dB below the loudest 10 ms) are cut out of them first. Levels of speakers differ
by up to 12 dB; noise: -60 dBFS. Of each source half of the speakers make conversations that choose the threshold, the
others those that are measured, with the number of speakers given and not. It is chosen by the mean DER of the sources;
--threshold T gives it. Collar 0.25 s. Printed are DER and its parts, by the number of speakers, and in how many
conversations that is found.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from pdl.workflow.prediction import open_model
from pdl_speech import Diariser
from pdl_speech.data import FSDD, AudioTable
from pdl_speech.steps.diarised import Diarised, Voices
from pdl_speech.turns import DiarisationError, Turn, diarisation_error

People = Mapping[str, Sequence[np.ndarray]]
Conversation = tuple[int, list[Turn], Voices]
RATE, COLLAR = 16000, 0.25
BETWEEN = [(low, high) for low in (0.4, 0.45, 0.5, 0.55) for high in (0.7, 0.75, 0.8, 0.85)]


def without_pauses(wave: np.ndarray) -> np.ndarray:
    """A waveform [T] without what is quiet for more than 0.25 s."""
    hop = RATE // 100
    frames = wave[: len(wave) // hop * hop].reshape(-1, hop)
    level = np.sqrt((frames**2).mean(axis=1))
    quiet = level < 0.01 * level.max()
    edges = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(int))).reshape(-1, 2)
    for begin, end in edges.tolist():
        quiet[begin:end] = end - begin > 25
    return np.asarray(frames[~quiet]).reshape(-1)


def people_of(data: Any) -> People:
    """The recordings of each speaker."""
    found: dict[str, list[np.ndarray]] = {}
    for i in range(len(data)):
        sample = data[i]
        found.setdefault(data.classes[int(sample["label"])], []).append(without_pauses(sample["audio"]))
    return found


def said(rng: np.random.Generator, waves: Sequence[np.ndarray], seconds: float) -> np.ndarray:
    """So many seconds of a speaker."""
    order = rng.permutation(len(waves))
    first = waves[order[0]]
    parts = [first[rng.integers(len(first)) :] if len(waves) == 1 else first]
    while sum(map(len, parts)) < seconds * RATE:
        parts.append(waves[order[len(parts) % len(order)]])
    wave = np.concatenate(parts)[: int(seconds * RATE)]
    return np.asarray(wave / np.sqrt((wave**2).mean()))


def conversation(
    rng: np.random.Generator, people: People, speakers: int, seconds: float
) -> tuple[np.ndarray, list[Turn]]:
    """A waveform [T], and who speaks when."""
    names = rng.permutation(sorted(people))[:speakers].tolist()
    levels = {name: 0.05 * 10 ** (rng.uniform(-6, 6) / 20) for name in names}
    parts, turns = [np.zeros(RATE // 2)], list[Turn]()
    while (at := sum(map(len, parts)) / RATE) < seconds or len(turns) < speakers:
        last = turns[-1].speaker if turns else ""
        name = names[len(turns)] if len(turns) < speakers else str(rng.choice([n for n in names if n != last]))
        wave = levels[name] * said(rng, people[name], rng.uniform(1.5, 8))
        turns.append(Turn(at, at + len(wave) / RATE, name))
        parts += [wave, np.zeros(int(rng.uniform(0.1, 1.2) * RATE))]
    whole = np.concatenate(parts)
    return (whole + 1e-3 * rng.standard_normal(len(whole))).astype(np.float32), turns


def error(step: Diarised, each: Conversation, **values: Any) -> tuple[DiarisationError, bool]:
    """The error of a conversation with these values of the step, and whether as many speakers are found."""
    step = copy(step)
    vars(step).update(values)
    speakers, reference, voices = each
    answer = step(voices, None)  # type: ignore[arg-type]
    found = [Turn(segment["start"], segment["end"], segment["speaker"]) for segment in answer["segments"]]
    return diarisation_error(reference, found, collar=COLLAR), len(answer["speakers"]) == speakers


def together(errors: Iterable[DiarisationError]) -> DiarisationError:
    """That of several conversations."""
    return sum(errors, DiarisationError(0, 0, 0, 0))


def measured(step: Diarised, few: Sequence[Conversation], known: bool) -> dict[str, Any]:
    """DER, its parts, and in how many conversations the number of speakers is found; DER by that number."""
    each = [(one[0], *error(step, one, count=one[0] if known else None)) for one in few]
    total = together(found for _, found, _ in each)
    parts = {name: round(value / total.total, 4) for name, value in vars(total).items() if name != "total"}
    by = {n: round(together(e for count, e, _ in each if count == n).rate, 4) for n in sorted({one[0] for one in each})}
    return {"der": round(total.rate, 4), **parts, "counted": f"{sum(ok for *_, ok in each)} of {len(few)}", "by": by}


def halves_of(people: People, diariser: Diariser, args: argparse.Namespace) -> list[list[Conversation]]:
    """Conversations of half of the speakers, and of the others."""
    names = np.random.default_rng(args.seed).permutation(sorted(people)).tolist()
    made: list[list[Conversation]] = [[], []]
    for half, group in enumerate((names[: len(names) // 2], names[len(names) // 2 :])):
        for count in range(2, 1 + min(5, len(group))):
            for i in range(args.conversations):
                rng = np.random.default_rng([args.seed, half, count, i])
                wave, turns = conversation(rng, {name: people[name] for name in group}, count, args.seconds)
                made[half].append((count, turns, diariser.voices(wave)))
    return made


def main() -> None:
    """Parse, make, choose, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="of recordings")
    parser.add_argument("--digits", metavar="FOLDER", help="the Free Spoken Digit Dataset, as another source")
    parser.add_argument("--vad", default="speech/silero_vad")
    parser.add_argument("--voice", default="speech/resemblyzer")
    parser.add_argument("--file", default="audio/{utt}.flac")
    parser.add_argument("--label", default="speaker")
    parser.add_argument("--conversations", type=int, default=6, help="of each number of speakers")
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--between", type=float, nargs=2, metavar=("LOW", "HIGH"), help="not chosen, but given")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    low, high = args.between or BETWEEN[0]
    diariser = Diariser(open_model(args.vad), open_model(args.voice), low=low, high=high)
    (step,) = (steps[-1] for steps in diariser.pipeline.post.values())
    assert isinstance(step, Diarised)
    sources: dict[str, Any] = {args.table: AudioTable(args.table, file=args.file, label=args.label, rate=RATE)}
    if args.digits:
        sources[args.digits] = FSDD(args.digits, label="speaker", rate=RATE)
    made = {name: halves_of(people_of(data), diariser, args) for name, data in sources.items()}
    found: dict[str, Any] = {}
    if not args.between:
        rates = {
            each: np.mean([together(error(step, one, between=each)[0] for one in few).rate for few, _ in made.values()])
            for each in BETWEEN
        }
        step.between = min(rates, key=rates.__getitem__)
        found["chosen by"] = {f"{low} {high}": round(float(rate), 4) for (low, high), rate in rates.items()}
    found["between"] = step.between
    for name, (_, few) in made.items():
        known = {"number given": measured(step, few, True), "number found": measured(step, few, False)}
        found[name] = {"conversations": len(few), **known}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
