"""Searching for the words that a decoder writes: greedy, beams, sampling. NumPy around the decoder's steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.limits import check_time
from pdl.runtime.decoding.options import Allowed, Options
from pdl.runtime.decoding.running import Decoding, Running
from pdl.runtime.decoding.scores import best, drawn, generator, log_probabilities, repeating

Ended = Literal["end", "stop", "length", "stuck"]
#: the text of tokens
TextOf = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class Written:
    """An answer.

    tokens   without the one that ends it
    score    its log-probability, with that one
    rating   the same by its length, as `Options.length_penalty` says: what answers of beams are ranked by
    ended    "end": by the token that says so; "stop": by a text of `Options.stop`; "length": it is as long as it may
             be; "stuck": no token was allowed to follow
    """

    tokens: tuple[int, ...]
    score: float
    rating: float
    ended: Ended


class Token(NamedTuple):
    """A token that was just written: of which source, of which of its answers."""

    source: int
    answer: int
    token: int


Stream = Generator[Token, None, "list[list[Written]]"]


def search(
    decoding: Decoding,
    inputs: Sequence[Array],
    prompts: Sequence[Sequence[int]],
    options: Options,
    *,
    ends: Sequence[int],
    text: TextOf | None = None,
    keys: Sequence[int] | None = None,
    allowed: Allowed | None = None,
) -> list[list[Written]]:
    """The answers for each source, best first; see `stream`."""
    steps = stream(decoding, inputs, prompts, options, ends=ends, text=text, keys=keys, allowed=allowed)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def stream(
    decoding: Decoding,
    inputs: Sequence[Array],
    prompts: Sequence[Sequence[int]],
    options: Options,
    *,
    ends: Sequence[int],
    text: TextOf | None = None,
    keys: Sequence[int] | None = None,
    allowed: Allowed | None = None,
) -> Stream:
    """Search, and yield each token as it is written, where there are no beams; returns the answers for each source,
    best first (those of sampling in the order in which they were drawn).

    inputs    of `Decoding.encode`, a batch of sources
    prompts   for each source the tokens that its answer follows, at least one: what begins a sentence, or a text
    ends      tokens that end an answer
    text      the text of tokens, which `Options.stop` needs
    keys      a number for each source that its draws depend on; by default 0, 1, ...
    allowed   called with the number of a source and the tokens of an answer so far: those that may follow, or None
    """
    memory = decoding.encode(inputs)
    run = _Search(decoding, memory, [list(map(int, p)) for p in prompts], options, ends, text, keys, allowed)
    if options.beams > 1:
        return run.beams()
    return (yield from run.rows())


class _Search:
    """One search. Rows of `tokens` and `scores` are those of the net: what each has written, its log-probability."""

    def __init__(
        self,
        decoding: Decoding,
        memory: Sequence[Array],
        prompts: list[list[int]],
        options: Options,
        ends: Sequence[int],
        text: TextOf | None,
        keys: Sequence[int] | None,
        allowed: Allowed | None,
    ) -> None:
        self.options, self.ends, self.text, self.allowed = options, list(ends), text, allowed
        if not all(prompts):
            raise UsageError("decoding: an empty prompt; give at least the token that begins a text")
        if options.stop and text is None:
            raise UsageError("decoding: stop needs the text of tokens, which this model does not tell")
        self.prompts, self.keys = prompts, list(range(len(prompts)) if keys is None else keys)
        self.decoding, self.memory = decoding, memory
        self.answers: list[list[Written]] = [[] for _ in prompts]

    # -- the net -------------------------------------------------------------------------------------------------------
    def begin(self) -> Array:
        """Prompts through the net, a row for each source; then `Options.rows` rows for each, and log-probabilities of
        what follows."""
        counts = np.array([len(p) for p in self.prompts], np.int64)
        longest = int(counts.max())
        tokens = np.zeros((len(counts), steps_for(longest)), np.int64)
        for row, prompt in zip(tokens, self.prompts, strict=True):
            row[: len(prompt)] = prompt
        self.run = Running(self.decoding, self.memory, len(counts), longest + self.options.max_length)
        logits = self.run.step(tokens, counts)
        self.sources = np.arange(len(counts))
        rows = self.options.rows
        if rows > 1:
            self.run.take(np.repeat(self.sources, rows), self.sources)
            logits = np.repeat(logits, rows, axis=0)
        self.source = np.repeat(self.sources, rows)  # of each row
        self.tokens = np.zeros((len(self.source), 0), np.int64)
        self.scores = np.zeros(len(self.source))
        return self.follow(logits)

    def advance(self, tokens: Array, live: Array | None = None) -> Array:
        """One more token in each row that is `live`; log-probabilities of what follows."""
        check_time()
        counts = np.ones(len(tokens), np.int64) if live is None else live.astype(np.int64)
        return self.follow(self.run.step(tokens[:, None], counts))

    def follow(self, logits: Array) -> Array:
        """Log-probabilities [rows, V] of what follows, -inf of what must not."""
        options, step = self.options, self.tokens.shape[1]
        histories = []
        if options.repetition_penalty != 1.0 or options.no_repeat_ngram:
            histories = [
                np.concatenate([self.prompts[s], own]) for s, own in zip(self.source, self.tokens, strict=True)
            ]
        made = log_probabilities(logits, histories, options)
        size = made.shape[1]
        for name, numbers in (("prefix", options.prefix), ("banned", options.banned), ("ends", self.ends)):
            wrong = next((n for n in numbers if not 0 <= n < size), None)
            if wrong is not None:
                raise UsageError(f"decoding: {name}: there is no token {wrong}; the model has {size}")
        if step < len(options.prefix):
            _only(made, [options.prefix[step]])
        elif step < options.min_length:
            made[:, self.ends] = -np.inf
        if options.banned:
            made[:, list(options.banned)] = -np.inf
        if options.no_repeat_ngram and step >= len(options.prefix):
            for row, history in zip(made, histories, strict=True):
                row[repeating(history, options.no_repeat_ngram)] = -np.inf
        if self.allowed is not None:
            for row, source, own in zip(made, self.source, self.tokens, strict=True):
                may = self.allowed(int(source), own)
                if may is not None:
                    _only(row[None], may)
        return made

    # -- answers -------------------------------------------------------------------------------------------------------
    def written(self, tokens: Array, score: float, ended: Ended) -> Written:
        """An answer; the last of tokens ended it where `ended` is "end"."""
        length = max(1, len(tokens))
        own = tokens[:-1] if ended == "end" else tokens
        return Written(tuple(own.tolist()), float(score), float(self.options.normalised(score, length)), ended)

    def stopped(self, tokens: Array) -> bool:
        """Whether a text that ends answers is among what was written."""
        if not self.options.stop or self.text is None:
            return False
        own = self.text(tokens.tolist())
        return any(each in own for each in self.options.stop)

    # -- without beams -------------------------------------------------------------------------------------------------
    def rows(self) -> Stream:
        """Every row on its own: the best token, or one that is drawn."""
        options, rows = self.options, self.options.rows
        follows = self.begin()
        answer = np.tile(np.arange(rows), len(self.prompts))
        draws = [generator(options.seed, self.keys[s], int(a)) for s, a in zip(self.source, answer, strict=True)]
        found: dict[tuple[int, int], Written] = {}
        live = np.ones(len(self.source), bool)
        while True:
            chosen = np.zeros(len(live), np.int64)
            before = live.copy()
            for r in np.flatnonzero(before):
                here = (int(self.source[r]), int(answer[r]))
                if not (follows[r] > -np.inf).any():
                    found[here], live[r] = self.written(self.tokens[r], self.scores[r], "stuck"), False
                    continue
                token = drawn(follows[r], options, draws[r].random()) if options.sample else int(follows[r].argmax())
                chosen[r] = token
                self.scores[r] += follows[r, token]
                own = np.append(self.tokens[r], token)
                ended: Ended | None = None
                if token in self.ends:
                    ended = "end"
                elif self.stopped(own):
                    ended = "stop"
                elif len(own) >= options.max_length:
                    ended = "length"
                if ended != "end":
                    yield Token(*here, token)
                if ended is not None:
                    found[here], live[r] = self.written(own, self.scores[r], ended), False
            if not live.any():
                break
            self.tokens = np.concatenate([self.tokens, chosen[:, None]], axis=1)
            at = self.needed(live)
            if at is not None:
                live, chosen, answer, draws = live[at], chosen[at], answer[at], [draws[i] for i in at]
            follows = self.advance(chosen, live)
        return [[found[s, a] for a in range(rows)] for s in range(len(self.prompts))]

    def needed(self, live: Array) -> Array | None:
        """The rows to go on with, where half of the sources or less still count; the others are forgotten. A power of
        two of them goes on, so that few programs are planned."""
        rows = self.options.rows
        done = np.logical_not(live.reshape(-1, rows).any(axis=1))
        size = 1 << int(len(done) - done.sum() - 1).bit_length()
        if 2 * size > len(done):
            return None
        going = np.sort(np.argsort(done, kind="stable")[:size])
        at = (going[:, None] * rows + np.arange(rows)).reshape(-1)
        self.run.take(at, going)
        self.source, self.tokens, self.scores = self.source[at], self.tokens[at], self.scores[at]
        return at

    # -- beams ---------------------------------------------------------------------------------------------------------
    def beams(self) -> Any:
        """The best of several hypotheses for each source. Of its best continuations, those that end are answers and the
        others go on. A source is done when it has as many answers as beams, and none that goes on rates higher."""
        beams, options = self.options.beams, self.options
        follows = self.begin()
        self.scores = np.where(np.arange(len(self.source)) % beams == 0, 0.0, -np.inf)  # the first rows are alike
        live = np.ones(len(self.source), bool)
        while True:
            step = self.tokens.shape[1] + 1
            size = follows.shape[1]
            values, columns = self.best(follows)
            parents, tokens = np.arange(len(live)), np.zeros(len(live), np.int64)
            scores = np.full(len(live), -np.inf)
            for i in range(len(values)):
                rows = slice(i * beams, (i + 1) * beams)
                if live[rows].any():
                    own = self.extended(i * beams, values[i], columns[i], size)
                    if not own and not self.answers[int(self.source[i * beams])]:
                        most = i * beams + int(self.scores[rows].argmax())
                        self.add(most, self.tokens[most], self.scores[most], "stuck")
                    for b, (score, parent, token) in enumerate(own):
                        parents[i * beams + b], tokens[i * beams + b] = parent, token
                        scores[i * beams + b] = score
                    live[rows] = self.open(i * beams, scores[rows], step)
            if step >= options.max_length or not live.any():
                self.tokens = np.concatenate([self.tokens[parents], tokens[:, None]], axis=1)
                self.scores = scores
                self.cut()
                break
            self.run.reorder(parents)
            self.tokens = np.concatenate([self.tokens[parents], tokens[:, None]], axis=1)
            self.scores = np.where(live, scores, -np.inf)
            self.stop_texts()
            live &= self.scores > -np.inf
            if not live.any():
                break
            at = self.needed(live)
            if at is not None:
                live, tokens = live[at], tokens[at]
            follows = self.advance(tokens, live)
        return [sorted(each, key=_order)[: options.n_best] for each in self.answers]

    def best(self, follows: Array) -> tuple[Array, Array]:
        """The best continuations of each source, best first: scores and columns [sources, k], row after row of a
        source's. They are among the best of each row, which are found first."""
        rows, size = follows.shape
        beams, k = self.options.beams, self.options.beams * (1 + len(self.ends))
        values, columns = best(follows, min(size, k))
        columns = columns + (np.arange(rows) % beams * size)[:, None]
        totals = (self.scores[:, None] + values).reshape(rows // beams, -1)
        found, at = best(totals, min(totals.shape[1], k))
        return found, np.take_along_axis(columns.reshape(totals.shape), at, axis=1)

    def extended(self, first: int, values: Array, columns: Array, size: int) -> list[tuple[float, int, int]]:
        """(score, parent row, token) of the hypotheses of a source that go on; those that end are answers."""
        beams = self.options.beams
        going: list[tuple[float, int, int]] = []
        for rank, (score, column) in enumerate(zip(values.tolist(), columns.tolist(), strict=True)):
            if not score > -np.inf or len(going) == beams:
                break
            parent, token = first + column // size, column % size
            if token not in self.ends:
                going.append((score, parent, token))
            elif rank < beams:
                self.add(parent, np.append(self.tokens[parent], token), score, "end")
        return going

    def add(self, row: Any, tokens: Array, score: float, ended: Ended) -> None:
        """One more answer for the source of a row."""
        self.answers[int(self.source[row])].append(self.written(tokens, score, ended))

    def open(self, first: int, scores: Array, step: int) -> bool:
        """Whether a source may still find a better answer."""
        found = [each.rating for each in self.answers[int(self.source[first])]]
        if not (scores > -np.inf).any():
            return False
        if len(found) < self.options.beams:
            return True
        worst = sorted(found, reverse=True)[self.options.beams - 1]
        return bool(self.options.normalised(scores.max(), step) > worst)

    def stop_texts(self) -> None:
        """Hypotheses that hold a text which ends answers are answers."""
        for r in np.flatnonzero(self.scores > -np.inf) if self.options.stop else ():
            if self.stopped(self.tokens[r]):
                self.add(r, self.tokens[r], self.scores[r], "stop")
                self.scores[r] = -np.inf

    def cut(self) -> None:
        """What is as long as it may be is an answer where too few have ended."""
        self.stop_texts()
        for r in np.flatnonzero(self.scores > -np.inf):
            if len(self.answers[int(self.source[r])]) < self.options.beams:
                self.add(r, self.tokens[r], self.scores[r], "length")


def _order(answer: Written) -> tuple[bool, float]:
    """Answers that ended first, of these the highest rating."""
    return answer.ended in ("length", "stuck"), -answer.rating


def _only(scores: Array, tokens: Sequence[int] | Array) -> None:
    """-inf but for these tokens."""
    numbers = np.asarray(tokens, np.int64).reshape(-1)
    kept = scores[:, numbers]
    scores[...] = -np.inf
    scores[:, numbers] = kept


def steps_for(longest: int) -> int:
    """Positions that prompts are padded to, so that few programs are planned: at most an eighth more."""
    step = 1 << max(0, (longest - 1).bit_length() - 4)
    return -(-longest // step) * step
