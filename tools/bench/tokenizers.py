"""Tokenizers against HF `tokenizers` and `sentencepiece`: the same numbers and offsets, and the CPU time of both.

    RAYON_NUM_THREADS=1 python tools/bench/tokenizers.py FILE ... --texts TEXTS --lines 20000

FILE is a tokenizer.json (beside HF `tokenizers`), a .model (beside `sentencepiece`), or a vocab.txt (beside the slow
BERT tokenizer of `transformers`, whose ids alone are compared, as it has no offsets). Equality is that of ids and
offsets on so many lines of mixed scripts (tests/nlp/tokenizers/mixed.py), pairs of lines included. Speed is that on
TEXTS, one a line: all at once, and one by one; each side in turns, CPU time, the best of `--rounds`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path[0] = str(Path(__file__).parents[2])  # and not this folder, where `tokenizers` is this file

from tests.nlp.tokenizers.mixed import mixed_lines  # noqa: E402

from pdl_nlp.tokenizers import read  # noqa: E402


def peer_of(
    file: Path,
) -> tuple[Callable[[list[str]], Any], Callable[[str], Any], Callable[[Any], tuple[list[int], list[Any] | None]]]:
    """How the peer encodes many texts and one, and ids and offsets of what it gives for one."""
    if file.suffix == ".json":
        from tokenizers import Tokenizer

        found = Tokenizer.from_file(str(file))
        found.no_truncation()
        found.no_padding()
        plain: dict[str, Any] = {"add_special_tokens": False}
        return (
            lambda texts: found.encode_batch(texts, **plain),
            lambda text: found.encode(text, **plain),
            lambda made: (made.ids, [list(each) for each in made.offsets]),
        )
    if file.suffix == ".txt":
        from transformers import BertTokenizerLegacy

        slow = BertTokenizerLegacy(str(file))

        def numbers(text: str) -> list[int]:
            found: list[int] = slow.encode(text, add_special_tokens=False)
            return found

        return lambda texts: list(map(numbers, texts)), numbers, lambda made: (made, None)
    import sentencepiece

    found = sentencepiece.SentencePieceProcessor(model_file=str(file))
    kind: dict[str, Any] = {"out_type": "offset_mapping"}
    return (
        lambda texts: found.encode(texts, num_threads=1, **kind),
        lambda text: found.encode(text, **kind),
        lambda made: (made["ids"], [list(each) for each in made["offsets"]]),
    )


def differences(file: Path, lines: list[str]) -> int:
    """How many lines have other ids or offsets."""
    many, _, facts = peer_of(file)
    made = read(file).encode_many(lines)
    wrong = 0
    for i, expected in enumerate(many(lines)):
        one = made.text(i)
        ids, offsets = facts(expected)
        if one.ids.tolist() != ids or offsets not in (None, one.offsets.tolist()):
            wrong += 1
            if wrong <= 5:
                place = next((k for k, (a, b) in enumerate(zip(one.ids, ids, strict=False)) if a != b), -1)
                print(f"  {lines[i]!r}\n    ours {one.ids.tolist()[place:][:8]} {one.offsets.tolist()[place:][:8]}")
                print(f"    peer {ids[place:][:8]} {(offsets or [])[place:][:8]}")
    return wrong


def seconds(call: Callable[[], Any]) -> float:
    """CPU time of a call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def speeds(file: Path, texts: list[str], rounds: int) -> None:
    """Prints the ratios."""
    ours = read(file)
    many, one, _ = peer_of(file)
    few = texts[:2000]
    sides: dict[str, tuple[list[str], Callable[[], Any], Callable[[], Any]]] = {
        "all at once": (texts, lambda: ours.encode_many(texts), lambda: many(texts)),
        "one by one": (few, lambda: [ours.encode_many([text]) for text in few], lambda: [one(text) for text in few]),
    }
    for name, (given, mine, theirs) in sides.items():
        times = np.array([[seconds(mine), seconds(theirs)] for _ in range(rounds)])
        a, b = times.min(axis=0)
        size = sum(map(len, given)) / 1e6
        print(f"  {name}: {size / a:.2f} against {size / b:.2f} million characters a second: {b / a:.2f} times as fast")


def main() -> None:
    """Parse, compare, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--texts", type=Path, nargs="*", default=[])
    parser.add_argument("--lines", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    lines = mixed_lines(args.lines)
    for file in args.files:
        print(f"{file}: {differences(file, lines)} of {len(lines)} lines differ", flush=True)
        for place in args.texts:
            texts = place.read_text(encoding="utf-8").splitlines()
            print(f" {place.name}: {len(texts)} texts")
            speeds(file, texts, args.rounds)


if __name__ == "__main__":
    main()
