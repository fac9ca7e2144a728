"""Embedding of texts by MiniLM: pdl, ONNX Runtime and sentence-transformers, from strings to vectors, on one thread.

    python tools/bench/nlp_embed.py TEXTS --folder MINILM --peer-python PYTHON

TEXTS has a text a line (`--count` of them are taken, evenly spaced), MINILM is the folder of the checkpoint; PYTHON has
torch, transformers, onnx, onnxruntime and sentence-transformers. All sides read the same texts with their own tokenizer
and embed about one length together; each is a process, and they take turns. CPU time; the figure is texts a second, the
median of the turns. Vectors are compared before anything is timed: the largest difference and the least cosine.

pdl           fp32, bf16 (bfloat16 products), int8 (bytes, ranges from 64 of the texts), as `vectors_of` makes them
onnx          the same net as torch.onnx exports it, pooling inside, in ONNX Runtime with all its rewriting: `--batch`
              texts at a time, in the order of their letters as sentence-transformers has it, padded to the longest
onnx-sorted   the same in the order of their tokens, with which hardly anything is padded
onnx-int8     onnxruntime.quantization.quantize_dynamic of it, in the order of tokens
st            `SentenceTransformer(MINILM).encode(texts)` with its defaults
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from turns import race, serve

OURS, PEERS = ("fp32", "bf16", "int8"), ("onnx", "onnx-sorted", "onnx-int8", "st")
Embed = Callable[[], np.ndarray]


def texts_of(args: argparse.Namespace) -> list[str]:
    """The texts that all sides embed."""
    lines = [line for line in args.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [lines[number * len(lines) // args.count] for number in range(min(args.count, len(lines)))]


def ours(side: str, args: argparse.Namespace) -> Embed:
    """pdl in a precision."""
    from pdl import threads
    from pdl.runtime import load
    from pdl.runtime.session import Session
    from pdl_nlp.steps.passages import vectors_of

    threads.set_num_threads(1)
    texts = texts_of(args)
    found: Any = load("nlp/minilm", precision="bf16" if side == "bf16" else "fp32")
    if side == "int8":
        from pdl.export.quantise import calibrate

        pipeline = found.pipeline
        samples = [pipeline.parse(text) for text in texts[:: max(1, len(texts) // 64)]]
        batches = [list(inputs.values()) for _, inputs in pipeline.batches(samples)]
        program = calibrate(found.bundle.build(), batches).program
        found = Session.of(program, inputs=["tokens"], outputs=["vector"], pipeline=pipeline)
    return lambda: np.stack([each for each in vectors_of(texts, found) if each is not None])


def peers(side: str, args: argparse.Namespace) -> Embed:
    """ONNX Runtime and sentence-transformers."""
    sys.path.remove(str(Path(__file__).resolve().parent))  # where tokenizers.py is not HF's
    import torch

    torch.set_num_threads(1)
    texts, folder = texts_of(args), str(args.folder)
    if side == "st":
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(folder, device="cpu")
        return lambda: np.asarray(model.encode(texts))
    from transformers import AutoModel, AutoTokenizer

    read = AutoTokenizer.from_pretrained(folder)
    order = np.argsort([len(x) for x in (texts if side == "onnx" else read(texts)["input_ids"])], kind="stable")
    groups = [order[at : at + args.batch] for at in range(0, len(order), args.batch)]
    net: Any = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, ids: Any, mask: Any, segments: Any) -> Any:
            x = self.net(input_ids=ids, attention_mask=mask, token_type_ids=segments).last_hidden_state
            kept = mask[..., None].to(x.dtype)
            return torch.nn.functional.normalize((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9))

    def embedded(run: Callable[..., np.ndarray]) -> np.ndarray:
        found = np.empty((len(texts), 384), np.float32)
        for group in groups:
            chosen = [texts[i] for i in group]
            made = read(chosen, padding=True, truncation=True, max_length=256, return_tensors="np")
            found[group] = run(made["input_ids"], made["attention_mask"], made["token_type_ids"])
        return found

    import onnxruntime

    work = Path(tempfile.mkdtemp())
    ones = torch.ones((2, 8), dtype=torch.int64)
    names, axes = ["ids", "mask", "segments"], {0: "n", 1: "t"}
    torch.onnx.export(
        Pooled(), (ones, ones, ones * 0), str(work / "net.onnx"), input_names=names, output_names=["vector"],
        dynamic_axes=dict.fromkeys(names, axes) | {"vector": {0: "n"}}, dynamo=False, opset_version=17,
    )  # fmt: skip
    file = work / "net.onnx"
    if side == "onnx-int8":
        from onnxruntime.quantization import quantize_dynamic

        file = work / "int8.onnx"
        quantize_dynamic(work / "net.onnx", file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return lambda: embedded(lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))[0])


def main() -> None:
    """Parse, race, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--peer-python")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--sides", nargs="*", choices=[*OURS, *PEERS], default=[*OURS, *PEERS])
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        call = (ours if args.side in OURS else peers)(args.side, args)
        np.save(args.out, call())
        return serve(call, {"texts": args.count}, "cpu")
    work = Path(tempfile.mkdtemp())
    base = [__file__, str(args.texts), "--folder", str(args.folder), f"--count={args.count}", f"--batch={args.batch}"]
    commands = {
        side: [
            sys.executable if side in OURS else args.peer_python,
            *base,
            "--side",
            side,
            "--out",
            str(work / f"{side}.npy"),
        ]
        for side in args.sides
        if side in OURS or args.peer_python
    }
    rows = race(commands, seconds=0, turns=args.turns)
    reference = next(
        work / f"{side}.npy"
        for side in ("st", "onnx", "onnx-sorted", "fp32", *args.sides)
        if (work / f"{side}.npy").exists()
    )
    expected = np.load(reference)
    print(f"\nbeside {reference.stem}:")
    for name, row in rows.items():
        if "median" not in row:
            print(f"{name:10} failed: {row['error']}")
            continue
        vectors = np.load(work / f"{name}.npy")
        apart, alike = np.abs(vectors - expected).max(), (vectors * expected).sum(axis=1).min()
        rate = args.count / row["median"]
        print(f"{name:10} {rate:7.0f} texts a second; apart by {apart:.1e}, least cosine {alike:.5f}")


if __name__ == "__main__":
    main()
