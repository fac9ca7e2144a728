"""What characters are and become, as HF `tokenizers` has it: tables that kernels read. `unicode.npz` is the work of
tools/make_unicode.py."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from pdl.dtype import Array

CODE_POINTS = 0x110000
CONTROL, SPACE, PUNCTUATION, CHINESE, MARK = (1 << i for i in range(5))  # flags of BERT
AS_SPACE, ALONE, SEVERAL = 1 << 21, 1 << 22, 1 << 31  # `Plan` of the kernel
HANGUL = 0xAC00


@lru_cache(maxsize=1)
def _file() -> dict[str, Array]:
    with np.load(Path(__file__).with_name("unicode.npz"), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def _expanded(name: str) -> Array:
    starts = _file()[f"{name}_starts"]
    return np.repeat(_file()[f"{name}_values"], np.diff([*starts, CODE_POINTS]))


def _map(name: str) -> dict[int, list[int]]:
    points, starts, to = (_file()[f"{name}_{part}"].tolist() for part in ("points", "starts", "to"))
    return {c: to[starts[i] : starts[i + 1]] for i, c in enumerate(points)}


@lru_cache(maxsize=1)
def classes() -> Array:
    """uint8 [0x110000]: 0 other, 1 letter, 2 number, 3 white space; surrogates are other."""
    return _expanded("classes")


@lru_cache(maxsize=8)
def bert_plan(lower: bool, strip_accents: bool, clean: bool, chinese: bool) -> tuple[Array, Array]:
    """What BERT's normaliser and its split make of every code point: `plan` uint32 [0x110000] and `several` of the
    kernel `pdl.kernels.tokens.WordPiece`.

    In this order: controls are left out and every white space is a space (`clean`), Chinese characters stand alone
    (`chinese`), characters are decomposed (NFD) and accents left out (`strip_accents`), letters lowered (`lower`).
    Marks are not put into canonical order: nearly all that have one are left out.
    """
    flags = _expanded("bert")
    decomposed, lowered = _map("nfd") if strip_accents else {}, _map("lower") if lower else {}
    signs = np.arange(CODE_POINTS, dtype=np.uint32)
    signs |= np.where(flags & PUNCTUATION, ALONE, 0).astype(np.uint32)
    signs |= np.where(flags & SPACE, AS_SPACE, 0).astype(np.uint32)
    plan, several = signs.copy(), list[int]()

    def put(c: int, to: list[int]) -> None:
        if len(to) == 1:
            plan[c] = to[0]
        else:
            plan[c] = SEVERAL | len(to) << 20 | len(several)
            several.extend(to)

    marks = set(np.flatnonzero(flags & MARK).tolist()) if strip_accents else set()
    for c in {*decomposed, *lowered}:
        kept = [x for x in decomposed.get(c, [c]) if x not in marks]
        put(c, [int(signs[x]) for each in kept for x in lowered.get(each, [each])])
    gone = np.array(sorted(marks), np.int64)
    if strip_accents:
        for c in range(HANGUL, HANGUL + 11172):
            which = c - HANGUL
            put(c, [0x1100 + which // 588, 0x1161 + which % 588 // 28, *([0x11A7 + which % 28] if which % 28 else [])])
    plan[gone] = SEVERAL
    if chinese:
        alone = np.flatnonzero(flags & CHINESE)
        plan[alone] |= ALONE  # each of them becomes one
    surrogates = slice(0xD800, 0xE000)
    plan[surrogates] = plan[0xFFFD]
    if clean:
        plan[(flags & CONTROL) > 0] = SEVERAL
        plan[surrogates] = SEVERAL
    return plan, np.array(several, np.uint32)
