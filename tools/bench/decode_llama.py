"""Tokens a second that a GPT of random weights writes, one row, beside llama.cpp on the same sizes and bits.

    pip install llama-cpp-python==0.3.36 gguf==0.19.0
    python tools/bench/decode_llama.py --threads 2           # 101 M parameters in 8 and 4 bits

The net is that of tools/bench/decode.py. llama.cpp has Q8_0 and Q4_0: blocks of 32 weights with a scale in 16 bits, 8.5
and 4.5 bits a weight, and rounds activations to 8 bits, too; pdl has groups of 64 with a scale and a lowest value in 32
bits each, 9 and 5 bits, and computes in float32. Keys and values are float16 there and float32 here. Each side is a
process, and they take turns; a call writes 8 tokens behind 64 others. What is written is not compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from decode import SIZES, VOCABULARY, weights_read
from train import table
from turns import race, ratio, serve

BEFORE, TOKENS = 64, 8
BITS = {"w8": 8, "w4": 4}
PEERS = {"llama.cpp Q8_0": "w8", "llama.cpp Q4_0": "w4"}


def ours(bits: int, count: int) -> tuple[Callable[[], Any], float]:
    """What writes, and megabytes of the weights that a token needs."""
    import pdl
    from pdl import threads
    from pdl.export.decoder import trace_decoder
    from pdl.export.quantise.weights import narrow_weights
    from pdl.runtime.decoding import Programs, Running
    from pdl_nlp.models import GPT

    pdl.seed(0)
    threads.set_num_threads(count)
    plain = trace_decoder(GPT(VOCABULARY, **SIZES).eval(), {})
    step = narrow_weights(plain.step, bits, 64).program
    run = Running(Programs(None, step, plain.kinds), (), 1, BEFORE + TOKENS + 1)
    run.step(np.ones((1, BEFORE), np.int64), np.array([BEFORE]))
    one, counts = np.ones((1, 1), np.int64), np.ones(1, np.int64)

    def call() -> None:
        run.lengths = np.array([BEFORE])
        for _ in range(TOKENS):
            run.step(one, counts)

    return call, weights_read(step) / 1e6


def llama(kind: str, count: int) -> tuple[Callable[[], Any], float]:
    """The same of llama.cpp."""
    import llama_cpp
    from llama_cpp import llama_cpp as api

    defaults = api.llama_model_default_params

    def params() -> Any:
        made = defaults()
        made.use_extra_bufts = False  # weights repacked for AMX end version 0.3.36 with a segmentation fault
        return made

    api.llama_model_default_params = params
    file = written(Path(tempfile.mkdtemp()) / "net.gguf", kind)
    net = llama_cpp.Llama(
        str(file), n_ctx=128, n_batch=128, n_threads=count, n_threads_batch=count, use_mmap=False, verbose=False
    )
    net.eval([1] * BEFORE)

    def call() -> None:
        net.n_tokens = BEFORE
        for _ in range(TOKENS):
            net.eval([1])

    return call, file.stat().st_size / 1e6 - VOCABULARY * SIZES["dim"] * BYTES[kind] / 1e6  # one table is not read


BYTES = {"Q8_0": 34 / 32, "Q4_0": 18 / 32}


def written(path: Path, kind: str) -> Path:
    """A GGUF file with random weights of the net's sizes."""
    import gguf

    rng = np.random.default_rng(0)
    dim, hidden, layers = SIZES["dim"], SIZES["hidden"], SIZES["layers"]
    width = dim // SIZES["heads"] * SIZES["kv_heads"]
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(SIZES["max_length"])
    file.add_embedding_length(dim)
    file.add_block_count(layers)
    file.add_feed_forward_length(hidden)
    file.add_head_count(SIZES["heads"])
    file.add_head_count_kv(SIZES["kv_heads"])
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(VOCABULARY)
    file.add_tokenizer_model("llama")
    file.add_token_list([f"<{number}>" for number in range(VOCABULARY)])
    file.add_token_scores([0.0] * VOCABULARY)
    file.add_token_types([gguf.TokenType.NORMAL] * VOCABULARY)

    def matrix(name: str, rows: int, columns: int) -> None:
        made = gguf.GGMLQuantizationType[kind]
        values = rng.standard_normal((rows, columns), np.float32) * 0.02
        file.add_tensor(f"{name}.weight", gguf.quants.quantize(values, made), raw_dtype=made)

    def norm(name: str) -> None:
        file.add_tensor(f"{name}.weight", np.ones(dim, np.float32))

    matrix("token_embd", VOCABULARY, dim)
    for number in range(layers):
        for name, rows, columns in (
            ("attn_q", dim, dim), ("attn_k", width, dim), ("attn_v", width, dim), ("attn_output", dim, dim),
            ("ffn_gate", hidden, dim), ("ffn_up", hidden, dim), ("ffn_down", dim, hidden),
        ):  # fmt: skip
            matrix(f"blk.{number}.{name}", rows, columns)
        norm(f"blk.{number}.attn_norm")
        norm(f"blk.{number}.ffn_norm")
    norm("output_norm")
    matrix("output", VOCABULARY, dim)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def main() -> None:
    """Race, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--side", choices=[*BITS, *PEERS])
    args = parser.parse_args()
    if args.side:
        made = ours(BITS[args.side], args.threads) if args.side in BITS else llama(args.side.split()[1], args.threads)
        serve(made[0], {"MB": made[1]})
        return
    given = [sys.executable, *sys.argv, "--side"]
    rows = race({side: [*given, side] for side in (*BITS, *PEERS)}, seconds=args.seconds, turns=args.turns)
    print(file=sys.stderr)
    found = []
    for side, row in rows.items():
        if "median" not in row:
            print(f"{side}: {row['error']}", file=sys.stderr)
            continue
        speed = ratio(rows, PEERS[side], [side]) if side in PEERS else None
        found.append([side, f"{row['MB']:.0f}", f"{TOKENS / row['median']:.1f}", f"{speed[1]:.2f}" if speed else ""])
    print(table(["side", "MB a token", "tokens/s", "pdl is x times as fast"], iter(found)))


if __name__ == "__main__":
    main()
