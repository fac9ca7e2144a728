"""Write the properties of characters that tokenizers need: `python tools/make_unicode.py` (needs HF `tokenizers`).

They are found by giving every code point to `tokenizers` alone, so that pdl's tokenizers split and normalise as that
does: its BERT follows Unicode 8 for punctuation, controls and marks, a later version for everything else.

Written are runs of equal values, `NAME_starts` int32 and `NAME_values` uint8, and maps from a code point to several:
`NAME_points` [n], `NAME_starts` [n + 1], `NAME_to`. The letters of Hangul are not in the map `nfd`: they are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from tokenizers import __version__, normalizers, pre_tokenizers

OUT = Path(__file__).parents[1] / "suites/nlp/pdl_nlp/tokenizers/unicode.npz"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)


def normalizer(**on: bool) -> Callable[[str], str]:
    """BERT's, with nothing but this."""
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


def runs(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """An array as runs of equal values."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(values)) + 1])
    return {f"{name}_starts": starts.astype(np.int32), f"{name}_values": values[starts].astype(np.uint8)}


def mapping(name: str, normalise: Callable[[str], str]) -> dict[str, np.ndarray]:
    """The code points that are changed, and what they become."""
    found = {c: [ord(x) for x in normalise(chr(c))] for c in POINTS if c not in HANGUL}
    found = {c: to for c, to in found.items() if to != [c]}
    starts = np.cumsum([0, *map(len, found.values())])
    to = [x for each in found.values() for x in each]
    return {
        f"{name}_points": np.array(list(found), np.int32),
        f"{name}_starts": starts.astype(np.int32),
        f"{name}_to": np.array(to, np.int32),
    }


def classes() -> np.ndarray:
    """Of the regular expression of GPT-2: 0 other, 1 letter, 2 number, 3 white space."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    values = np.full(0x110000, 3, np.uint8)
    for value, beside in enumerate(".a1"):
        for c in POINTS:
            if values[c] == 3 and len(split(beside + chr(c))) == 1:
                values[c] = value
    values[0xD800:0xE000] = 0
    return values


def bert() -> np.ndarray:
    """Flags of BERT: 1 control (left out), 2 white space, 4 punctuation, 8 Chinese, 16 mark (an accent)."""
    values = np.zeros(0x110000, np.uint8)
    clean, chinese, strip = (
        normalizer(**{name: True}) for name in ("clean_text", "handle_chinese_chars", "strip_accents")
    )
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    for c in POINTS:
        text = chr(c)
        parts = len(split(f"a{text}b"))
        kinds = (clean(text) == "", parts == 2, parts == 3, chinese(text) != text, strip(text) == "")
        values[c] = sum(bool(kind) << i for i, kind in enumerate(kinds))
    return values


def main() -> None:
    """Write the file."""
    nfd = normalizers.NFD().normalize_str
    arrays = {
        "version": np.frombuffer(f"tokenizers {__version__}".encode(), np.uint8),
        **runs("classes", classes()),
        **runs("bert", bert()),
        **mapping("nfd", nfd),
        **mapping("lower", normalizer(lowercase=True)),
    }
    np.savez_compressed(OUT, **arrays)
    print(OUT, OUT.stat().st_size, {name: array.shape for name, array in arrays.items()})


if __name__ == "__main__":
    main()
