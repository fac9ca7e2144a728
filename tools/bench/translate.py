"""Sentences translated one at a time with beams: pdl beside PyTorch and ONNX Runtime, all with caches.

    pip install torch==2.13.0 onnxruntime
    python tools/bench/translate.py             # the Transformer of nlp/multi30k_transformer, random weights, beam 5
    python tools/bench/translate.py --run RUN --threads 2

The same search (pdl.runtime.decoding) asks each side for scores, so all write the same tokens (it is said where one
does not) and only nets differ:

pdl          the programs of a bundle
pdl w8       the same with weights of the steps in 8 bits, as `pdl compress --to w8` has them: other weights, so some
             of the words may be others
torch        the same layers in torch.nn.functional, inference mode; keys and values of what was written are put into
             arrays with room, those of what is read are projected once and not repeated for hypotheses
onnxruntime  what `pdl export --to onnx` writes, encode and step

Each side is a process, and they take turns; a call translates all sentences. Without --run their lengths are about
those of Multi30k (12 tokens read, 14 written).
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from train import table
from turns import race, ratio, serve

import pdl
from pdl import threads
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.decoder import Traced, trace_decoder
from pdl.export.quantise.weights import narrow_weights
from pdl.ops.base import Spec
from pdl.runtime.decoding import Options, Programs, Running, Writing, search
from pdl_nlp.models import Transformer

SIDES = ("pdl", "pdl w8", "torch", "onnxruntime")
SIZES: dict[str, Any] = {"dim": 256, "layers": 3, "heads": 4, "hidden": 512, "max_length": 128}
VOCABULARY, READ, WRITTEN, SENTENCES = 6000, 12, 14, 8
BEGIN, END = 2, 3


def random_net() -> tuple[Transformer, list[np.ndarray], Options]:
    """A net, sentences int64 [1, T] of it, and options by which answers have one length."""
    pdl.seed(0)
    rng = np.random.default_rng(0)
    sentences = [rng.integers(5, VOCABULARY, (1, n)) for n in rng.integers(READ - 3, READ + 4, SENTENCES)]
    return Transformer(VOCABULARY, **SIZES).eval(), sentences, Options(max_length=WRITTEN, min_length=WRITTEN)


def trained_net(folder: str) -> tuple[Transformer, list[np.ndarray], Options]:
    """The net of a run, sentences of its validation data, and its own options."""
    from pdl.workflow.run import Run
    from pdl_nlp.seq2seq.loader import Translations

    run = Run.open(folder).opened()
    net, task = run.model.eval(), run.task
    assert isinstance(net, Transformer)
    pairs = Translations(run.recipe.data.build("val"), task.tokenizer, task.max_length)
    rows = [pairs.get_batch(np.array([i]))["tokens"] for i in range(SENTENCES)]
    return net, [row[row != net.pad][None] for row in rows], task.options(5)


class Torch:
    """A `pdl.runtime.decoding.Decoding` of a net's weights in PyTorch."""

    def __init__(self, net: Transformer) -> None:
        import torch

        self.kinds, self.net, self.torch = net.kinds(), net, torch
        self.weights = {name: torch.from_numpy(np.array(p.numpy())) for name, p in net.state_dict().items()}
        for name, w in self.weights.items():  # [in, out] here, [out, in] there
            if w.ndim == 2 and name != "embed.weight":
                self.weights[name] = w.T.contiguous()
        self.places = torch.from_numpy(np.array(net.positions.numpy()))

    def linear(self, x: Any, name: str, sep: str = ".") -> Any:
        """x W + b."""
        weights = self.weights[f"{name}{sep}weight"], self.weights[f"{name}{sep}bias"]
        return self.torch.nn.functional.linear(x, *weights)

    def norm(self, x: Any, name: str) -> Any:
        """A layer norm."""
        weights = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return self.torch.nn.functional.layer_norm(x, (self.net.dim,), *weights)

    def attention(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        """[N, T, dim] of [N, T, dim], [N, S, dim]."""
        heads = [x.unflatten(-1, (self.net.heads, -1)).transpose(1, 2) for x in (q, k, v)]
        y = self.torch.nn.functional.scaled_dot_product_attention(*heads, attn_mask=mask)
        return y.transpose(1, 2).flatten(2)

    def feed(self, x: Any, name: str) -> Any:
        """The two linear layers."""
        return self.linear(self.torch.relu(self.linear(x, f"{name}.linear1")), f"{name}.linear2")

    def embedded(self, tokens: Any, first: int) -> Any:
        """Vectors of tokens and positions."""
        x = self.torch.nn.functional.embedding(tokens, self.weights["embed.weight"]) * math.sqrt(self.net.dim)
        return x + self.places[first : first + tokens.shape[1]]

    def encode(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Where tokens stand, and keys and values of each layer."""
        with self.torch.inference_mode():
            tokens = self.torch.from_numpy(inputs[0])
            there = tokens != self.net.pad
            x, mask = self.embedded(tokens, 0), there[:, None, None]
            for number in range(len(self.net.encoder.layers)):
                name = f"encoder.layers.{number}"
                q, k, v = self.linear(x, f"{name}.self_attn.in_proj", "_").chunk(3, dim=-1)
                y = self.linear(self.attention(q, k, v, mask), f"{name}.self_attn.out_proj")
                x = self.norm(x + y, f"{name}.norm1")
                x = self.norm(x + self.feed(x, name), f"{name}.norm2")
            names = [f"decoder.{number}.cross_attn.kv_proj" for number in range(len(self.net.decoder))]
            return there.numpy(), *(self.linear(x, name).numpy() for name in names)

    def step(self, run: Running, tokens: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Scores of what follows one token of each row; caches are written in place."""
        first, from_numpy = int(run.lengths[0]), self.torch.from_numpy
        with self.torch.inference_mode():
            there, *memory = map(from_numpy, run.memory)
            x = self.embedded(from_numpy(tokens), first)
            for number, kv in enumerate(memory):
                name, (keys, values) = f"decoder.{number}", map(from_numpy, run.state[2 * number : 2 * number + 2])
                q, k, v = self.linear(x, f"{name}.self_attn.in_proj", "_").chunk(3, dim=-1)
                keys[:, first : first + 1], values[:, first : first + 1] = k, v
                y = self.attention(q, keys[:, : first + 1], values[:, : first + 1])
                x = self.norm(x + self.linear(y, f"{name}.self_attn.out_proj"), f"{name}.norm1")
                q = self.linear(x, f"{name}.cross_attn.q_proj").view(len(there), -1, self.net.dim)
                y = self.attention(q, *kv.chunk(2, dim=-1), there[:, None, None]).view(x.shape)
                x = self.norm(x + self.linear(y, f"{name}.cross_attn.out_proj"), f"{name}.norm2")
                x = self.norm(x + self.feed(x, name), f"{name}.norm3")
            return self.torch.nn.functional.linear(x[:, -1], self.weights["embed.weight"]).numpy()


class ONNXRuntime:
    """A `pdl.runtime.decoding.Decoding` of two ONNX files."""

    def __init__(self, traced: Traced, folder: str, count: int) -> None:
        import onnxruntime

        from pdl.export.onnx import decoder_to_onnx

        target = Path(folder) / "net.onnx"
        sample = {"tokens": np.full((1, 5), 5)}
        decoder_to_onnx(
            traced.encode, traced.step, traced.kinds, target, samples=[sample], writing=Writing((END,), (BEGIN,))
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = count, 1
        self.kinds = traced.kinds
        self.encoding, self.stepping = (
            onnxruntime.InferenceSession(str(target.with_name(f"net_{part}.onnx")), options)
            for part in ("encode", "step")
        )

    def encode(self, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """What the steps take."""
        return tuple(self.encoding.run(None, {self.encoding.get_inputs()[0].name: inputs[0]}))

    def step(self, run: Running, tokens: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Scores of what follows; the state is replaced by what the step gives."""
        given = (tokens, counts, run.lengths, *run.state, *run.memory)
        names = (each.name for each in self.stepping.get_inputs())
        scores, *run.state = self.stepping.run(None, dict(zip(names, given, strict=True)))
        return scores


def work(side: str, args: argparse.Namespace) -> None:
    """Serve one side."""
    threads.set_num_threads(args.threads)
    net, sentences, options = trained_net(args.run) if args.run else random_net()
    options = options.but(beams=args.beams)
    traced = trace_decoder(net, {"tokens": Spec((Dim.symbol("n", 3), Dim.symbol("s", 7)), int64)})
    decoding: Any
    if side == "torch":
        import torch

        torch.set_num_threads(args.threads)
        decoding = Torch(net)
    elif side == "onnxruntime":
        decoding = ONNXRuntime(traced, tempfile.mkdtemp(), args.threads)
    elif side == "pdl w8":
        decoding = Programs(traced.encode, narrow_weights(traced.step, 8, 64).program, traced.kinds)
    else:
        decoding = traced.decoding()

    def call() -> list[tuple[int, ...]]:
        return [search(decoding, [each], [[BEGIN]], options, ends=[END])[0][0].tokens for each in sentences]

    written = call()
    serve(call, {"written": written, "tokens": sum(map(len, written)) + len(written), "sentences": len(written)})


def main() -> None:
    """Race, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run")
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--side", choices=SIDES)
    args = parser.parse_args()
    if args.side:
        work(args.side, args)
        return
    given = [sys.executable, *sys.argv]
    rows = race({side: [*given, "--side", side] for side in SIDES}, seconds=args.seconds, turns=args.turns)
    print(file=sys.stderr)
    found = []
    for side, row in rows.items():
        if "median" not in row:
            print(f"{side}: {row['error']}", file=sys.stderr)
            continue
        mine, narrow = (ratio(rows, own, [side]) if side in SIDES[2:] else None for own in SIDES[:2])
        same = sum(a == b for a, b in zip(row["written"], rows["pdl"]["written"], strict=True))
        each, faster = 1e3 * row["median"] / row["sentences"], [f"{it[1]:.2f}" if it else "" for it in (mine, narrow)]
        found.append(
            [side, f"{each:.2f}", f"{row['tokens'] / row['median']:.0f}", *faster, f"{same}/{row['sentences']}"]
        )
    heads = ["side", "ms a sentence", "tokens/s", "pdl is x times as fast", "pdl w8", "same words"]
    print(table(heads, iter(found)))


if __name__ == "__main__":
    main()
