"""Small nets that write, for tests: a recurrent one and one of attention, both of sources; one whose caches begin with
its sources, and which writes one position ahead; one without sources; and a table of logits, whose best answers can be
enumerated."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn.decoder import attend_to_memory, last_real, positions
from pdl.ops.base import Spec
from pdl.runtime.decoding import Options, Writing
from pdl.runtime.decoding.options import OUTPUTS
from pdl.runtime.steps import Input, InputStep

V, E = 11, 16  # tokens, width
END = 2


class Recurrent(nn.Decoder):
    """Sources int64 [N, L] -> an LSTM that begins with their mean and attends to them (Luong et al., 1508.04025)."""

    def __init__(self) -> None:
        self.words, self.tokens = nn.Embedding(V, E), nn.Embedding(V, E)
        self.begin, self.lstm, self.out = nn.Linear(E, 2 * E), nn.LSTM(E, E), nn.Linear(2 * E, V)

    def kinds(self):
        return nn.Carried(memory=2), nn.Carried(memory=3)

    def encode(self, words):
        x, mask = self.words(words), words > 0
        real = pdl.expand_dims(mask, axis=2).astype(x.dtype)
        first = self.begin(pdl.sum(x * real, axis=1) / pdl.sum(real, axis=1))
        return x, mask, first[:, :E], first[:, E:]

    def step(self, tokens, counts, lengths, state, *memory):
        keys, mask = memory[:2]
        h, c = (pdl.expand_dims(s, axis=0) for s in state)
        y, (h, c) = self.lstm(self.tokens(tokens), (h, c), lengths=counts)
        seen = attend_to_memory(y, keys, keys, heads=1, mask=mask)
        return last_real(self.out(pdl.concat([y, seen], axis=-1)), counts), (h[0], c[0])


class Attention(nn.Decoder):
    """Sources int64 [N, L] -> two layers of attention to what was written, with rotary positions and fewer heads of
    keys than of queries, and to the source."""

    def __init__(self, sources: bool = True) -> None:
        self.sources = sources
        self.words, self.tokens = nn.Embedding(V, E), nn.Embedding(V, E)
        self.q, self.kv = (nn.ModuleList([nn.Linear(E, E) for _ in range(2)]) for _ in range(2))
        self.cross, self.out = nn.Linear(E, 2 * E), nn.Linear(E, V)

    def kinds(self):
        return (nn.KeyValues(E // 2),) * 4

    def encode(self, *inputs):
        if not self.sources:
            return ()
        both = self.cross(self.words(inputs[0]))
        return both[..., :E], both[..., E:], inputs[0] > 0

    def step(self, tokens, counts, lengths, state, *memory):
        x, made = self.tokens(tokens), []
        at = positions(tokens, lengths)
        for i in range(2):
            q, kv = self.q[i](x), self.kv[i](x)
            q = pdl.rotary(q, at, heads=4, size=E // 4)
            k = pdl.rotary(kv[..., : E // 2], at, heads=2, size=E // 4)
            y, *kept = pdl.cached_attention(
                q, k, kv[..., E // 2 :], *state[2 * i : 2 * i + 2], lengths, counts, heads=4, kv_heads=2
            )
            made += kept
            x = x + y
            if memory:
                x = x + attend_to_memory(x, *memory[:2], heads=2, mask=memory[2])
        return last_real(self.out(x), counts), tuple(made)


class Prefix(nn.Decoder):
    """Sources int64 [N, L] -> attention to source and answer at once. What follows is told by a position behind the
    last token, with a vector of its own, which is kept for this step alone."""

    def __init__(self) -> None:
        self.words, self.kv, self.out = nn.Embedding(V + 1, E), nn.Linear(E, 2 * E), nn.Linear(E, V)

    def kinds(self):
        return tuple(nn.KeyValues(E, memory=i, lengths=0, ahead=1) for i in (1, 2))

    def encode(self, words):
        keys, values = pdl.split(self.kv(self.words(words)), E, axis=-1)
        return pdl.sum((words > 0).astype(int64), axis=1), keys, values

    def step(self, tokens, counts, lengths, state, *memory):
        wide = pdl.concat([tokens, tokens[:, :1]], axis=1)
        at = positions(wide, lengths)
        x = self.words(pdl.where(pdl.equal(at, pdl.expand_dims(lengths + counts, axis=1)), V, wide))
        k, v = pdl.split(self.kv(x), E, axis=-1)
        q = pdl.rotary(x, at, heads=2, size=E // 2)
        y, *kept = pdl.cached_attention(q, k, v, *state, lengths, counts + 1, heads=2)
        return last_real(self.out(x + y), counts + 1), tuple(kept)


def drawn(net: nn.Decoder, seed: int = 0) -> nn.Decoder:
    """With weights large enough that answers differ from source to source."""
    rng = np.random.default_rng(seed)
    for p in net.parameters():
        p._data[...] = rng.normal(size=p.shape) * (0.6 if p.ndim > 1 else 0.3)
    return net.eval()


class Table:
    """A `Decoding` whose logits are a table by source and by what was written so far (its last token and length)."""

    kinds = ()

    def __init__(self, sources: int, size: int, longest: int, seed: int = 0) -> None:
        self.logits = np.random.default_rng(seed).normal(size=(sources, longest + 1, size, size)) * 2
        self.written: dict[int, list] = {}

    def encode(self, inputs):
        return (np.arange(len(self.logits)),)

    def step(self, run, tokens, counts):
        source = np.repeat(run.memory[0], run.rows // run.sources)
        last = np.take_along_axis(tokens, np.maximum(counts - 1, 0)[:, None], axis=1)[:, 0]
        at = np.minimum(run.lengths + counts - 1, self.logits.shape[1] - 1)
        return self.logits[source, at, last]

    def answers(self, source: int, begin: int, longest: int, ends: set[int]):
        """Every answer that ends, with its log-probability: (tokens with the end, score)."""
        table = self.logits[source]
        table = table - np.log(np.exp(table).sum(-1, keepdims=True))
        size = table.shape[-1]
        for n in range(1, longest + 1):
            for tokens in itertools.product(range(size), repeat=n):
                if tokens[-1] in ends and not ends & set(tokens[:-1]):
                    before = (begin, *tokens)
                    yield tokens, sum(table[i, before[i], before[i + 1]] for i in range(n))


class Digits(InputStep):
    """ "3 4 5" -> the tokens int64 [3, 4, 5], filled with 0 in a batch."""

    name, takes = "digits", "text"

    def parse(self, item, sample):
        return np.array([int(each) for each in str(item).split()], np.int64)

    def file(self, path):
        return (Input(f"{i}", line) for i, line in enumerate(Path(path).read_text().splitlines()))

    def group(self, array):
        return 0

    def collate(self, arrays):
        made = np.zeros((len(arrays), max(map(len, arrays))), np.int64)
        for row, array in zip(made, arrays, strict=True):
            row[: len(array)] = array
        return made


def deployment(net: nn.Decoder, **options) -> Deployment:
    """What goes into a bundle of one of these nets; its answers are written in letters."""
    sources = getattr(net, "sources", True)
    name = "words" if sources else "text"
    return Deployment(
        net,
        {name: Spec((Dim.symbol("n", 3), Dim.symbol("l", 6)), int64)},
        OUTPUTS,
        pre={name: [{"step": "digits"}]},
        post={"tokens": [{"step": "written_labels"}]},
        samples=["3 4 5", "7 1", "9 9 9 8 3"],
        labels=list("abcdefghijk"),
        writing=Writing((END,), begin=(1,), prompt=None if sources else "text", options=Options(**options)),
    )
