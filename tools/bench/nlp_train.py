"""Training speed of an encoder of 4 layers of 312 on texts of real lengths, in pdl and PyTorch: whole steps with AdamW.

    python tools/bench/nlp_train.py TEXTS --torch-python PYTHON

TEXTS has a text a line, read by character (vocabulary of 18,000; at most `--longest`). Every side has the same weights'
shapes, dropout 0.1, two classes and `--batch` texts a step; sides are processes that take turns over the same
`--batches` batches each. CPU time on one thread; the figure is texts a second.

pdl             batches of texts of about one length (`pdl.data.BucketBatchSampler`), compiled steps; pdl-bf16: autocast
torch-padded    batches in random order, padded to their longest text, torch.nn.TransformerEncoder with its mask
torch-buckets   the batches of pdl
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from turns import race, ratio, serve
from workloads import DROPOUT, FEED, HEADS, LAYERS, WIDTH

SIDES, VOCABULARY = ("pdl", "pdl-bf16", "torch-padded", "torch-buckets"), 18_000


def batches(args: argparse.Namespace, *, bucketed: bool) -> list[tuple[np.ndarray, np.ndarray]]:
    """Tokens int64 [N, T], 0 behind the last one, and labels [N]; a sample of those of an epoch."""
    from pdl.data import BucketBatchSampler, bucket_sizes

    lines = [line for line in args.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    texts = [np.array([1 + ord(c) % (VOCABULARY - 1) for c in line[: args.longest]]) for line in lines]
    lengths = np.array([len(text) for text in texts])
    sizes = np.array(bucket_sizes(lengths))
    if bucketed:
        chosen = BucketBatchSampler(lengths, args.batch, sizes, shuffle=True).batches(0)
    else:
        order = np.random.default_rng(0).permutation(len(texts))
        chosen = [order[at : at + args.batch] for at in range(0, len(order), args.batch)]
    chosen = [rows for rows in chosen if len(rows) == args.batch]
    made = []
    for rows in chosen[:: max(1, len(chosen) // args.batches)][: args.batches]:
        longest = lengths[rows].max()
        x = np.zeros((len(rows), sizes[np.searchsorted(sizes, longest)] if bucketed else longest), np.int64)
        for row, index in zip(x, rows, strict=True):
            row[: lengths[index]] = texts[index]
        made.append((x, rows % 2))
    return made


def held(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """The batches that `main` has written."""
    with np.load(path) as file:
        return [(file[f"x{i}"], file[f"y{i}"]) for i in range(len(file.files) // 2)]


def pdl_side(side: str, args: argparse.Namespace) -> Callable[[], Any]:
    """A pass over the batches with pdl-nlp's encoder."""
    import pdl
    from pdl import threads
    from pdl.program import CompiledStep
    from pdl_nlp.models import BERTClassifier

    threads.set_num_threads(1)
    pdl.seed(0)
    net = BERTClassifier(VOCABULARY, 2, dim=WIDTH, layers=LAYERS, heads=HEADS, hidden=FEED, dropout=DROPOUT)

    def loss_of(x: Any, labels: Any) -> Any:
        if side == "pdl":
            return pdl.cross_entropy(net(x), labels)
        with pdl.autocast():
            return pdl.cross_entropy(net(x), labels)

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program, optimizer = CompiledStep(loss_of, net, notify=notify), pdl.optim.AdamW(net, lr=1e-4)
    given = [(pdl.Tensor(x), pdl.Tensor(labels)) for x, labels in held(args.data)]

    def call() -> None:
        for x, labels in given:
            program(x, labels)
            optimizer.step()

    return call


def torch_side(args: argparse.Namespace) -> Callable[[], Any]:
    """The same in PyTorch."""
    import torch
    from torch import nn

    torch.set_num_threads(1)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions, self.segments = (
                nn.Embedding(VOCABULARY, WIDTH),
                nn.Embedding(512, WIDTH),
                nn.Embedding(2, WIDTH),
            )
            self.norm, self.drop = nn.LayerNorm(WIDTH), nn.Dropout(DROPOUT)
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, FEED, DROPOUT, "gelu", batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
            self.pooler, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

        def forward(self, x: Any) -> Any:
            made = self.words(x) + self.positions.weight[: x.shape[1]] + self.segments.weight[0]
            states = self.encoder(self.drop(self.norm(made)), src_key_padding_mask=x == 0)
            return self.head(self.drop(torch.tanh(self.pooler(states[:, 0]))))

    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    given = [tuple(map(torch.from_numpy, each)) for each in held(args.data)]

    def call() -> None:
        for x, labels in given:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), labels).backward()
            optimizer.step()

    return call


def main() -> None:
    """Parse, race, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--torch-python")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        call = pdl_side(args.side, args) if args.side.startswith("pdl") else torch_side(args)
        return serve(call, {"positions": float(np.mean([x.size for x, _ in held(args.data)]))}, "cpu")
    work = Path(tempfile.mkdtemp())
    for name in ("padded", "buckets"):
        made = batches(args, bucketed=name == "buckets")
        np.savez(
            work / f"{name}.npz",
            **{f"{kind}{i}": each[k] for i, each in enumerate(made) for k, kind in enumerate("xy")},
        )
    files = {side: work / ("padded.npz" if side == "torch-padded" else "buckets.npz") for side in SIDES}
    base = [__file__, str(args.texts)]
    commands = {
        side: [
            sys.executable if side.startswith("pdl") else args.torch_python,
            *base,
            f"--side={side}",
            f"--data={files[side]}",
        ]
        for side in SIDES
        if side.startswith("pdl") or args.torch_python
    }
    rows = race(commands, seconds=0, turns=args.turns)
    print()
    for name, row in rows.items():
        if "median" not in row:
            print(f"{name:14} failed: {row['error']}")
            continue
        rate = args.batches * args.batch / row["median"]
        print(f"{name:14} {rate:7.1f} texts a second, {row['positions']:.0f} positions a batch")
    for own in ("pdl", "pdl-bf16"):
        for peer in ("torch-padded", "torch-buckets"):
            found = ratio(rows, own, [peer]) if peer in rows else None
            if found is not None:
                print(f"{own} is {found[1]:.2f} times as fast as {peer}")


if __name__ == "__main__":
    main()
