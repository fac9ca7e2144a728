"""Prefix beam search with a trigram of words, beside pyctcdecode with KenLM: speed, the same texts, and errors.

    python -m venv /tmp/peers && /tmp/peers/bin/pip install numpy kenlm pyctcdecode
    python tools/bench/ctc_beam.py TEXTS --peer-python /tmp/peers/bin/python

TEXTS has a text a line, which is brought to the letters a to z and spaces. A trigram is learned from all but the last
ones, which are spoken: so many as make `--utterances` of `--steps` each, over an alphabet of 28 (a blank, a space, the
letters). A letter is a peak over one or two steps between blanks; logits have normal noise, and a share of the peaks is
of another letter, to which the right one is second. Both sides have the same options: beams, the least probability of a
class (e^-5) and of a beam in proportion to the best one (e^-10), alpha, beta, and the penalty of unknown words. They
take turns on one thread each; the figure is CPU time.

pdl          `pdl.runtime.ctc.Search`
pdl exact    the same, of all classes and without a least probability of beams
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from turns import CLOCKS, race, ratio, serve

LETTERS = " abcdefghijklmnopqrstuvwxyz"  # classes from 1 on; 0 is the blank
OWN, PEER = ("pdl", "pdl exact"), "pyctcdecode"
ALPHA, BETA, UNKNOWN = 0.5, 1.0, -10.0  # the last is a log10, as pyctcdecode has it


def plain(text: str) -> str:
    """The letters and single spaces of a text."""
    return " ".join(re.sub("[^a-z]+", " ", text.lower().replace("'", "")).split())


def spoken(text: str, steps: int, noise: float, wrong: float, rng: np.random.Generator) -> np.ndarray:
    """ln p [steps, 28] of a text that is cut to fit."""
    path: list[tuple[int, int]] = []
    for letter in text:
        c = LETTERS.index(letter) + 1
        other = int(rng.integers(2, 28)) if c > 1 and rng.random() < wrong else c
        path += [(0, 0)] * int(rng.integers(1, 4)) + [(other, c)] * int(rng.integers(1, 3))
    path = (path + [(0, 0)] * steps)[:steps]
    logits = noise * rng.standard_normal((steps, 28))
    for row, (first, second) in zip(logits, path, strict=True):
        row[second] += 5.0
        row[first] += 6.0 if first == second else 6.5
    return np.float32(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def written(texts: list[str], utterances: int, steps: int) -> tuple[list[str], list[str]]:
    """Texts to learn from, and texts that are spoken."""
    made: list[str] = []
    while len(made) < utterances:
        line = ""
        while len(line) * 3.5 < steps:
            line = f"{line} {texts.pop()}".strip()
        made.append(line[: int(steps / 3.6)].rsplit(" ", 1)[0])
    return texts, made


def ours(side: str, folder: Path, logs: list[np.ndarray], beams: int) -> Callable[[], list[str]]:
    """The kernel."""
    from pdl import ngram, threads
    from pdl.runtime.ctc import Search

    threads.set_num_threads(1)
    cut: dict[str, float] = {"likely": math.exp(-5), "margin": math.exp(-10)} if side == "pdl" else {"likely": 0.0}
    numbers = {letter: c for c, letter in enumerate(LETTERS, 1)}
    how: dict[str, Any] = {"alpha": ALPHA, "beta": BETA, "unknown": UNKNOWN * math.log(10), "width": beams, **cut}
    search = Search(28, numbers, blank=0, model=ngram.read_arpa(folder / "words.arpa"), spaces=True, logs=True, **how)
    return lambda: ["".join(LETTERS[c - 1] for c in search(each).classes) for each in logs]


def theirs(folder: Path, logs: list[np.ndarray], beams: int) -> Callable[[], list[str]]:
    """pyctcdecode, whose model is read by KenLM."""
    from pyctcdecode import build_ctcdecoder

    words = (folder / "words.txt").read_text().split()
    decoder = build_ctcdecoder(
        ["", *LETTERS], str(folder / "words.arpa"), words, alpha=ALPHA, beta=BETA, unk_score_offset=UNKNOWN
    )
    return lambda: [decoder.decode(each, beam_width=beams, beam_prune_logp=-10, token_min_logp=-5) for each in logs]


def work(side: str, folder: Path, beams: int, clock: str) -> None:
    """Be a side."""
    with np.load(folder / "logs.npz") as file:
        logs = [file[name] for name in file.files]
    call = theirs(folder, logs, beams) if side == PEER else ours(side, folder, logs, beams)
    serve(call, {"texts": call()}, clock)


def errors(found: list[str], texts: list[str]) -> float:
    """Word error rate."""
    from pdl.train.texts import edit_distance

    pairs = [(a.split(), b.split()) for a, b in zip(found, texts, strict=True)]
    return sum(edit_distance(a, b) for a, b in pairs) / sum(len(b) for _, b in pairs)


def greedy(logs: np.ndarray) -> str:
    """The best class of each step."""
    best = logs.argmax(axis=1)
    kept = best[(best > 0) & np.concatenate([[True], best[1:] != best[:-1]])]
    return " ".join("".join(LETTERS[c - 1] for c in kept).split())


def main() -> None:
    """Parse, make data, race, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has pyctcdecode and kenlm")
    parser.add_argument("--steps", type=int, nargs="+", default=[200, 500, 1000])
    parser.add_argument("--noise", type=float, nargs="+", default=[1.0, 2.0], help="standard deviations of logits")
    parser.add_argument("--wrong", type=float, default=0.1, help="share of letters that sound like another one")
    parser.add_argument("--utterances", type=int, default=10)
    parser.add_argument("--beams", type=int, default=100)
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clock", choices=list(CLOCKS), default="cpu")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker[0], Path(args.worker[1]), args.beams, args.clock)
        return
    from pdl import ngram

    rows = []
    for steps in args.steps:
        lines = [line for line in map(plain, args.texts.read_text(encoding="utf-8").splitlines()) if line]
        learned, said = written(lines, args.utterances, steps)
        model = ngram.train((line.split() for line in learned), args.order)
        for noise in args.noise:
            rng = np.random.default_rng(0)
            logs = [spoken(text, steps, noise, args.wrong, rng) for text in said]
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                model.write(folder / "words.arpa")
                (folder / "words.txt").write_text(" ".join(model.tokens.names[2:]))
                np.savez(folder / "logs.npz", *logs)
                found = race(
                    {
                        side: [
                            args.peer_python if side == PEER else sys.executable,
                            *sys.argv,
                            "--worker",
                            side,
                            name,
                        ]
                        for side in (*OWN, PEER)
                    },
                    seconds=args.seconds,
                    turns=args.turns,
                )
            row: dict[str, Any] = {"steps": steps, "noise": noise, "ngrams": model.counts}
            row["greedy WER"] = round(errors([greedy(each) for each in logs], said), 4)
            for side, facts in found.items():
                if "error" in facts:
                    row[side] = facts["error"]
                    continue
                same = np.mean([a == b for a, b in zip(facts["texts"], found[OWN[0]]["texts"], strict=True)])
                row[side] = {
                    "ms": round(1000 * facts["median"] / len(logs), 2),
                    "WER": round(errors(facts["texts"], said), 4),
                    "texts as pdl": float(same),
                }
            for side in OWN:
                if (times := ratio(found, side, [PEER])) is not None:
                    row[f"{side} is so many times as fast"] = round(times[1], 1)
            rows.append(row)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
