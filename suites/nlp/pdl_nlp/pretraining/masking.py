"""Which tokens are masked, and what takes their place: a function of (seed, epoch, sample)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from pdl.data import Batch, SampleRandom, Transform
from pdl.data.randomness import BatchRandom
from pdl.dtype import Array
from pdl_nlp.pretraining.units import ENTITY, PHRASE, WORD

Kind: TypeAlias = Literal["token", "word", "ernie"]
Level: TypeAlias = Literal["basic", "phrase", "entity"]
LEVELS: dict[Level, float] = {"basic": 1.0, "phrase": 1.0, "entity": 1.0}
MASKED, REPLACED = 0.8, 0.1  # shares of the chosen units; the rest stays as it is


@dataclass(frozen=True)
class Masking(Transform):
    """{"tokens" int64 [N, T], "marks" uint8 [N, T]} -> {"tokens" with some of them masked, "positions" int64 [N, M] of
    those, "targets" int64 [N, M]: what stood there}; M = `count`, target -1 (position 0) where fewer are masked.

    Units are drawn, without replacement, while they fit into `share` of a text's tokens; special tokens are none. Of
    the units 80 % are the token for masks, 10 % other tokens, each drawn evenly from all ordinary ones, and 10 % stay
    (Devlin et al., arXiv 1810.04805). All tokens of a unit share its fate.

    kind      token: every token is a unit; word: words; ernie: each sample draws one of the levels of ERNIE (Sun et
              al., arXiv 1904.09223): basic (tokens), phrase, entity (and words where entities are too
              few)
    share     of the tokens that are chosen
    count     M
    mask      the number of the token for masks
    ordinary  bool [vocabulary]: False of special tokens
    levels    weights of ERNIE's levels
    """

    kind: Kind
    share: float
    count: int
    mask: int
    ordinary: Array
    levels: Mapping[Level, float]

    def __call__(self, sample: Any, rng: SampleRandom) -> Any:
        made = self._masked(sample["tokens"].astype(np.int64), sample["marks"], rng.generator())
        rest = {name: value for name, value in sample.items() if name != "marks"}
        return {**rest, "tokens": made[0], "positions": made[1], "targets": made[2]}

    def batch(self, samples: Batch, rngs: BatchRandom) -> Batch:
        """The same of many samples."""
        rows = zip(samples["tokens"].astype(np.int64), samples["marks"], strict=True)
        made = [self._masked(*row, rngs[number].generator()) for number, row in enumerate(rows)]
        rest = {name: value for name, value in samples.items() if name != "marks"}
        found = (np.stack(each) for each in zip(*made, strict=True))
        return {**rest, **dict(zip(("tokens", "positions", "targets"), found, strict=True))}

    def _masked(self, tokens: Array, marks: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        ordinary = self.ordinary[tokens]
        begins, first = self._units(marks, rng)
        begins = begins | ~ordinary
        begins[0] = True
        begins[1:] |= ~ordinary[:-1]
        unit = np.cumsum(begins) - 1
        starts = np.flatnonzero(begins)
        lengths = np.diff(starts, append=len(tokens))
        order = rng.permutation(len(starts))
        order = order[ordinary[starts[order]]]
        if first is not None:
            order = order[np.argsort(~first[starts[order]], kind="stable")]
        room = min(self.count, max(1, round(self.share * int(ordinary.sum()))))
        fates, fate = rng.random(len(starts)), np.full(len(starts), 2.0)
        for each in order.tolist():
            if lengths[each] <= room:
                fate[each] = fates[each]
                room -= lengths[each]
                if not room:
                    break
        of = fate[unit]
        chosen = np.flatnonzero(of < 1)
        made, positions, targets = tokens.copy(), np.zeros(self.count, np.int64), np.full(self.count, -1, np.int64)
        positions[: len(chosen)], targets[: len(chosen)] = chosen, tokens[chosen]
        made[of < MASKED] = self.mask
        replaced = np.flatnonzero((of >= MASKED) & (of < MASKED + REPLACED))
        made[replaced] = rng.choice(np.flatnonzero(self.ordinary), len(replaced))
        return made, positions, targets

    def _units(self, marks: Array, rng: np.random.Generator) -> tuple[Array, Array | None]:
        """bool [T]: where units begin; and, of the level of entities, bool [T] of those that come first."""
        if self.kind == "word":
            return marks & WORD > 0, None
        names = list(self.levels)
        weights = np.array([self.levels[name] for name in names])
        level = "basic" if self.kind == "token" else names[int(rng.choice(len(names), p=weights / weights.sum()))]
        if level == "basic":
            return np.ones(len(marks), bool), None
        if level == "phrase":
            return marks & PHRASE > 0, None
        entity = marks & ENTITY > 0
        return np.where(entity, marks & PHRASE, marks & WORD) > 0, entity
