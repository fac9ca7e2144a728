"""Tokens a second that a GPT of random weights writes, one row, against what reading its weights allows.

    python tools/bench/decode.py                                # 101 M parameters, fp32, w8 and w4, 1 and 2 threads
    python tools/bench/decode.py --threads 1 --rounds 3 --rows 1,4

A token needs every weight once, so no net writes faster than memory gives its weights: bound is the read rate (the sum
of an array as large as these weights, best of 80, tools/bench/bandwidth.py) over their bytes. The forms take turns;
each number is that of the best of all tokens, 16 a round behind 64 others, as the read rate is the best of all
readings. On a busy machine --threads 1 says most: two threads are seldom both left alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from bandwidth import read_rate
from train import table

import pdl
from pdl import threads
from pdl.export.decoder import trace_decoder
from pdl.export.quantise.weights import narrow_weights
from pdl.ops.embedding import Embedding
from pdl.runtime.decoding import Programs, Running
from pdl_nlp.models import GPT

SIZES: dict[str, Any] = {
    "dim": 768, "layers": 12, "heads": 12, "kv_heads": 4, "hidden": 2048, "max_length": 1024, "positions": "rotary",
    "norm": "rms", "activation": "swiglu", "bias": False, "tied": False,
}  # fmt: skip
VOCABULARY = 16_384
BEFORE, TOKENS = 64, 16


def weights_read(program: Any) -> int:
    """Bytes of the constants that a step reads; of a table of embeddings rows alone, which do not count."""
    tables = {node.inputs[0] for node in program.nodes if isinstance(node.op, Embedding)}
    others = {v for node in program.nodes if not isinstance(node.op, Embedding) for v in node.inputs}
    return sum(v.nbytes for v in program.captures if v in others and v not in tables)


def seconds(decoding: Programs, rows: int) -> float:
    """Of a token, the best of `TOKENS`."""
    run = Running(decoding, (), rows, BEFORE + TOKENS + 2)
    run.step(np.ones((rows, BEFORE), np.int64), np.full(rows, BEFORE))
    one, counts = np.ones((rows, 1), np.int64), np.ones(rows, np.int64)
    run.step(one, counts)
    best = float("inf")
    for _ in range(TOKENS):
        begin = time.perf_counter()
        run.step(one, counts)
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default=",".join(map(str, sorted({1, threads.get_num_threads()}))))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="1")
    args = parser.parse_args()
    pdl.seed(0)
    net = GPT(VOCABULARY, **SIZES).eval()
    print(f"{sum(p.size for p in net.parameters()):,} parameters")
    plain = trace_decoder(net, {})
    steps = {"fp32": plain.step, **{f"w{b}": narrow_weights(plain.step, b, 64).program for b in (8, 4)}}
    found = list[list[str]]()
    for count in map(int, args.threads.split(",")):
        rates = {name: read_rate(count, weights_read(step)) for name, step in steps.items()}
        with threads.limit(count):
            forms = {name: Programs(None, step, plain.kinds) for name, step in steps.items()}
            for rows in map(int, args.rows.split(",")):
                best = dict.fromkeys(forms, float("inf"))
                for _ in range(args.rounds):
                    for name, decoding in forms.items():
                        best[name] = min(best[name], seconds(decoding, rows))
                for name, taken in best.items():
                    size = weights_read(steps[name])
                    rate = rates[name] = max(rates[name], read_rate(count, size))
                    bound = rate / size
                    row = [str(count), str(rows), name, f"{size / 1e6:.0f}", f"{rate / 1e9:.1f}", f"{bound:.1f}"]
                    found.append([*row, f"{rows / taken:.1f}", f"{1 / taken / bound:.0%}"])
    print(table(["threads", "rows", "form", "MB", "GB/s", "bound tokens/s", "tokens/s", "of bound"], iter(found)))


if __name__ == "__main__":
    main()
