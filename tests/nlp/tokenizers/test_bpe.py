"""Byte-level BPE: GPT-2's split, merges by rank, offsets in code points, and back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import DataError, ShapeError, UsageError
from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers import ByteLevelBPE, Tokenizer
from pdl_nlp.tokenizers.bpe import ALPHABET
from pdl_nlp.tokenizers.training import train as train_tokenizer
from pdl_nlp.tokenizers.unicode import classes
from tests.nlp.tokenizers.made import bpe


def test_the_alphabet_is_that_of_gpt_2() -> None:
    """`bytes_to_unicode` of openai/gpt-2, src/encoder.py: the space is U+0120, the line end U+010A."""
    assert [ALPHABET[byte] for byte in b"A\n \xa1\xad\x00\xff"] == [
        "A",
        "\u010a",
        "\u0120",
        "\xa1",
        "\u0143",
        "\u0100",
        "\xff",
    ]
    assert len(set(ALPHABET.values())) == 256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'll say: it's 42nd", ["I", "'ll", " say", ":", " it", "'s", " 42", "nd"]),
        ("a  b\n\n c ", ["a", " ", " b", "\n\n", " c", " "]),
        ("x   ", ["x", "   "]),
        ("'re 'LL'dx", ["'re", " '", "LL", "'d", "x"]),
        (" '", [" '"]),
        ("'", ["'"]),
        ("\u4eca\u5929!?\u00bd\u0661", ["\u4eca\u5929", "!?", "\u00bd\u0661"]),
        ("a\u3000\u3000b", ["a", "\u3000", "\u3000", "b"]),
        ("\t\tb", ["\t", "\t", "b"]),
    ],
)
def test_parts_of_gpt_2(text: str, expected: list[str]) -> None:
    """By hand from the expression in openai/gpt-2, src/encoder.py."""
    made = bpe([], trim=False).encode_many([text])
    found = [made.offsets[made.words == word] for word in range(int(made.words.max()) + 1)]
    assert [text[each[0, 0] : each[-1, 1]] for each in found] == expected


def test_merges_that_are_left_out() -> None:
    """None, all, and as many as `tokenizers` leaves out; the text stays, and a seed gives the same tokens."""
    peer = pytest.importorskip("tokenizers")
    texts = ["the man walks over the green street with his white dog and another man is over there"] * 400
    tokenizer = train_tokenizer("bpe", [*texts[:5], "over there another street"], size=320, least=2)
    assert isinstance(tokenizer, ByteLevelBPE)
    seeds = np.arange(400, dtype=np.uint64)
    plain, none = tokenizer.encode_many(texts), tokenizer.encode_dropping(texts, 0.0, seeds)
    assert all((getattr(plain, part) == getattr(none, part)).all() for part in ("ids", "offsets", "words", "starts"))
    assert len(tokenizer.encode_dropping(texts[:1], 1.0, seeds[:1]).ids) == len(texts[0])
    made, again = (tokenizer.encode_dropping(texts, 0.2, seeds) for _ in range(2))
    assert (made.ids == again.ids).all()
    assert {tokenizer.decode(made.text(row).ids) for row in range(400)} == {texts[0]}
    names = {token: number for number, token in enumerate(tokenizer.tokens)}
    merges = [(tokenizer.tokens[a], tokenizer.tokens[b]) for a, b in tokenizer.merges.tolist()]
    other = peer.Tokenizer(peer.models.BPE(names, merges, dropout=0.2))
    other.pre_tokenizer = peer.pre_tokenizers.ByteLevel(add_prefix_space=False)
    counts = [len(other.encode(text).ids) for text in texts]
    assert np.diff(made.starts).mean() == pytest.approx(np.mean(counts), abs=4 * np.std(counts) / 10)
    assert np.diff(made.starts).std() == pytest.approx(np.std(counts), rel=0.2)
    with pytest.raises(ShapeError, match="2 seeds for 1 texts"):
        tokenizer.encode_dropping(texts[:1], 0.1, seeds[:2])


def test_merges_by_rank() -> None:
    made = bpe(trim=False).encode_many(["low lower  wol"])
    assert [bpe().tokens[i] for i in made.ids] == ["low", "Ġlower", "Ġ", "Ġ", "w", "o", "l"]
    assert made.offsets.tolist() == [[0, 3], [3, 9], [9, 10], [10, 11], [11, 12], [12, 13], [13, 14]]
    assert made.words.tolist() == [0, 1, 2, 3, 3, 3, 3]


def test_a_token_in_a_character_has_its_place() -> None:
    made = bpe().encode_many(["\u4e2d\u4e2e\U0001f600"])  # E4 B8 AD, E4 B8 AE, F0 9F 98 80
    assert made.offsets.tolist() == [[0, 1], [1, 2], [1, 2], *[[2, 3]] * 4]


@pytest.mark.parametrize(
    ("settings", "offsets"),
    [
        ({"trim": False}, [[0, 1], [1, 2], [2, 5]]),
        ({}, [[1, 1], [2, 2], [2, 5]]),
        ({"keep_first": True}, [[0, 0], [2, 2], [2, 5]]),
    ],
)
def test_offsets_without_spaces(settings: dict[str, bool], offsets: list[list[int]]) -> None:
    """Of HF's ByteLevel processor, found with tokenizers 0.23: an empty place stands where a space was."""
    assert bpe([("l", "o"), ("lo", "w")], **settings).encode_many(["  low"]).offsets.tolist() == offsets


def test_a_space_before() -> None:
    made = bpe(space_before=True, keep_first=True).encode_many(["low", " low"])
    assert [bpe().tokens[i] for i in made.ids] == ["Ġlow", "Ġlow"]
    assert made.offsets.tolist() == [[0, 3], [0, 4]]


def test_special_tokens_are_found_in_texts() -> None:
    made = bpe(added=[["<mask>", True, False]], trim=False).encode_many(["low <mask> low"])
    assert [bpe().tokens[i] for i in made.ids] == ["low", "<mask>", "Ġlow"]
    assert made.offsets.tolist() == [[0, 3], [3, 10], [10, 14]]


@given(st.text())
def test_back_to_the_text(text: str) -> None:
    tokenizer = bpe(added=[], trim=False)
    made = tokenizer.encode_many([text])
    assert tokenizer.decode(made.ids) == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert {place for begin, end in made.offsets.tolist() for place in range(begin, end)} == set(range(len(text)))


def restated(tokenizer: ByteLevelBPE, text: str) -> list[str]:
    """The merges as Sennrich et al. have them: the first pair of lowest rank, again and again."""
    rank = {(tokenizer.tokens[a], tokenizer.tokens[b]): i for i, (a, b) in enumerate(tokenizer.merges)}
    symbols = [ALPHABET[byte] for byte in text.encode()]
    while pairs := [(rank[pair], i) for i, pair in enumerate(pairwise(symbols)) if pair in rank]:
        i = min(pairs)[1]
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
    return symbols


AB = [("a", "b"), ("b", "a"), ("a", "a"), ("aa", "b"), ("ab", "ab"), ("ba", "ab"), ("aab", "a"), ("abab", "abab")]


@given(st.text("abc", min_size=1, max_size=120))
def test_long_and_short_parts_are_merged_alike(text: str) -> None:
    """Behind 39 bytes a heap finds the pairs."""
    tokenizer = bpe(AB)
    assert tokenizer.tokenize(text) == restated(tokenizer, text)
    assert tokenizer.tokenize(text) == tokenizer.tokenize(text), "what is remembered is the same"


def test_bundles_hold_it_whole() -> None:
    tokenizer = bpe(space_before=True, trim=False, keep_first=True, added=[["<mask>", True, False]])
    settings, vocabularies, constants = tokenizer.state()
    assert Tokenizer.of(settings, vocabularies, constants).state()[0] == settings
    assert Tokenizer.of(settings, vocabularies, constants).tokenize("low <mask>lower") == tokenizer.tokenize(
        "low <mask>lower"
    )


def test_faults() -> None:
    with pytest.raises(DataError, match="merge 1, 'a zz', is not a pair of tokens"):
        ByteLevelBPE.read(["a", "b", "ab"], [("a", "b"), ("a", "zz")])
    with pytest.raises(UsageError, match="'b' and 'a' are merged to what is no token"):
        ByteLevelBPE.read(["a", "b", "ab"], [("b", "a")])
    with pytest.raises(UsageError, match="merges of tokens 0 to 3; there are 3"):
        ByteLevelBPE(["a", "b", "ab"], np.array([[0, 3]], np.int32))
    zeros = np.zeros(1, np.int32)
    flags = {"prefix": False, "split": True, "trim": True, "keep": False, "added": list[object](), "numbers": 0}
    flags |= {"whole": list[object]()}
    with pytest.raises(ShapeError, match="byte 0 is token 1 of 1"):
        kernels.BytePair(classes(), np.ones(256, np.int32), np.zeros((0, 3), np.int32), zeros, zeros, **flags)
    with pytest.raises(ShapeError, match="merge 0 is of tokens 0 and 0 to 1; there are 1"):
        kernels.BytePair(classes(), np.zeros(256, np.int32), np.array([[0, 0, 1]], np.int32), zeros, zeros, **flags)
    none = np.zeros((0, 3), np.int32)
    for wrong, match in (({"numbers": -1}, "-1 numbers together"), ({"whole": [(b"a", 1)]}, "token 1 of 1 is whole")):
        with pytest.raises(ShapeError, match=match):
            kernels.BytePair(classes(), np.zeros(256, np.int32), none, zeros, zeros, **flags | wrong)
    with pytest.raises(UsageError, match=r"split='gpt5' must be true, false or one of gpt2, llama3, qwen2"):
        ByteLevelBPE(["a"], np.zeros((0, 2), np.int32), split="gpt5")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="5 bytes"):
        kernels.BytePair(classes(), np.zeros(5, np.int32), np.zeros((0, 3), np.int32), zeros, zeros, **flags)


def test_every_byte_has_a_token_or_is_left_out() -> None:
    tokenizer = ByteLevelBPE.read(["a", "b", "ab"], [("a", "b")])
    assert tokenizer.tokenize("acab") == ["a", "ab"]
