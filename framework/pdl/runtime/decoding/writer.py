"""A decoder with what it is asked by: arrays of a batch in, tokens out. The engine of a session, and what a run has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.decoding.options import ENDED, Options, Writing, cut
from pdl.runtime.decoding.running import Decoding, Running
from pdl.runtime.decoding.searching import Stream, TextOf, Written, search, stream


class Writer:
    """``writer(arrays)`` writes for a batch of sources; `stream` yields tokens as they come.

    inputs   names of the arrays, in order
    text     the text of tokens, which texts that end answers need
    """

    def __init__(self, decoding: Decoding, writing: Writing, inputs: Sequence[str], text: TextOf | None = None) -> None:
        self.decoding, self.writing, self.inputs, self.text = decoding, writing, tuple(inputs), text

    def with_options(self, options: Options) -> Self:
        """The same with other options."""
        made = copy(self)
        made.writing = replace(self.writing, options=options)
        return made

    def __call__(self, arrays: Sequence[Array], timer: object = None) -> list[Array]:
        """`OUTPUTS` for the inputs. `timer` is not called: the same program runs for every token."""
        return packed(search(*self.asked(arrays), **self._more(arrays)))

    def stream(self, arrays: Sequence[Array]) -> Stream:
        """Tokens of greedy search and sampling as they are written."""
        return stream(*self.asked(arrays), **self._more(arrays))

    def replay(self, arrays: Sequence[Array], tokens: Array) -> Iterator[Array]:
        """What is computed on the way to tokens int64 [N, L], filled with -1: of the sources, then the scores of every
        step."""
        decoding, inputs, prompts, _ = self.asked(arrays)
        memory = decoding.encode(inputs)
        yield from map(np.array, memory)
        counts = np.array([len(each) for each in prompts], np.int64)
        given = np.zeros((len(prompts), counts.max()), np.int64)
        for row, each in zip(given, prompts, strict=True):
            row[: len(each)] = each
        run = Running(decoding, memory, len(prompts), int(counts.max()) + tokens.shape[1])
        yield np.array(run.step(given, counts))
        for column in tokens.T:
            scores = run.step(np.maximum(column, 0)[:, None], np.ones(len(column), np.int64))
            yield np.where(column[:, None] >= 0, scores, 0)

    def asked(self, arrays: Sequence[Array]) -> tuple[Decoding, list[Array], list[list[int]], Options]:
        """The arguments of `search`."""
        given, writing = dict(zip(self.inputs, arrays, strict=True)), self.writing
        count = len(next(iter(given.values())))
        prompts = [list(writing.begin) for _ in range(count)]
        if writing.prompt is not None:
            for prompt, row in zip(prompts, given.pop(writing.prompt), strict=True):
                prompt += stripped(row, writing.pad).tolist()
        return self.decoding, list(given.values()), prompts, writing.options

    def _more(self, arrays: Sequence[Array]) -> dict[str, Any]:
        keys = key_of(arrays, self.writing.pad) if self.writing.options.sample else None
        return {"ends": self.writing.ends, "text": self.text, "keys": keys}


def packed(answers: Sequence[Sequence[Written]]) -> list[Array]:
    """`OUTPUTS` of answers."""
    most = max((len(each) for each in answers), default=0)
    longest = max((len(a.tokens) for each in answers for a in each), default=0)
    tokens = np.full((len(answers), most, longest), -1, np.int64)
    scores, ended = np.zeros((len(answers), most)), np.full((len(answers), most), -1, np.int64)
    for i, each in enumerate(answers):
        for k, answer in enumerate(each):
            tokens[i, k, : len(answer.tokens)] = answer.tokens
            scores[i, k], ended[i, k] = answer.score, ENDED.index(answer.ended)
    return [tokens, scores, ended]


def stripped(row: Array, pad: int) -> Array:
    """A row of numbers without the padding behind it."""
    real = np.flatnonzero(row != pad)
    return row[: real[-1] + 1] if len(real) else row[:0]


def key_of(arrays: Sequence[Array], pad: int) -> list[int]:
    """A number for each source that says what it is, whatever it is padded to: the same source draws the same."""
    found = []
    for rows in zip(*arrays, strict=True):
        made = hashlib.blake2b(digest_size=8)
        for row in rows:
            filler = pad if row.dtype.kind in "iu" else 0
            flat = row if row.ndim == 1 else (row != filler).reshape(len(row), -1).any(axis=1) if row.ndim else None
            length = len(stripped(flat, pad if row.ndim == 1 else False)) if flat is not None else 0
            made.update(np.ascontiguousarray(row[:length] if row.ndim else row).tobytes())
        found.append(int.from_bytes(made.digest(), "little"))
    return found


def pieces(tokens: Iterator[int], text: TextOf, stop: Sequence[str]) -> Iterator[str]:
    """The text of tokens bit by bit: what later tokens may still change, or what may be the beginning of a text that
    ends answers, waits."""
    written: list[int] = []
    sent = ""
    whole = ""
    for token in tokens:
        written.append(token)
        whole = cut(text(written), stop)
        waiting = max((n for each in stop for n in range(1, len(each)) if whole.endswith(each[:n])), default=0)
        ready = whole[: len(whole) - waiting].rstrip("\ufffd")
        if ready.startswith(sent) and len(ready) > len(sent):
            yield ready[len(sent) :]
            sent = ready
    if len(whole) > len(sent):
        yield whole[len(sent) :] if whole.startswith(sent) else whole


def streamed(predictor: Any, item: Any) -> Iterator[str]:
    """The text for one item by a predictor that writes, bit by bit. UsageError for one that does not, or with beams."""
    writing, pipeline = predictor.writing, predictor.pipeline
    if writing is None or pipeline is None or pipeline.writes is None:
        raise UsageError("this model does not write text token by token, so there is nothing to stream")
    if writing.options.rows > 1:
        raise UsageError(
            "with beams, or several answers, no token is sure before the end: --beam 1, or with_options(beams=1)"
        )
    tokens = predictor.stream_tokens(pipeline.collate([pipeline.prepare(item)]))
    yield from pieces((token.token for token in tokens), pipeline.writes.text, writing.options.stop)
