"""WordPiece: published examples of BERT's own tests, the parts of its normalisation, and what no text may break."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import ShapeError, UsageError
from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers import BERT, Tokenizer, WordPiece
from pdl_nlp.tokenizers.unicode import bert_plan
from tests.nlp.tokenizers.made import wordpiece
from tests.nlp.tokenizers.mixed import mixed_lines


def test_the_example_of_bert() -> None:
    """`FullTokenizer` of google-research/bert, tokenization_test.py: test_full_tokenizer."""
    made = wordpiece().encode_many(["UNwant\u00e9d,running"])
    assert [wordpiece().tokens[i] for i in made.ids] == ["un", "##want", "##ed", ",", "runn", "##ing"]
    assert made.offsets.tolist() == [[0, 2], [2, 6], [6, 8], [8, 9], [9, 13], [13, 16]]
    assert made.words.tolist() == [0, 0, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("unwanted running", ["un", "##want", "##ed", "runn", "##ing"]),
        ("unwantedX running", ["[UNK]", "runn", "##ing"]),
    ],
)
def test_pieces_of_words(text: str, tokens: list[str]) -> None:
    """The same file: test_wordpiece_tokenizer."""
    assert wordpiece().tokenize(text) == tokens


def parts(text: str, **settings: Any) -> list[str]:
    """What the words of a text are in it: every word is unknown."""
    made = wordpiece([], **settings).encode_many([text])
    return [text[begin:end] for begin, end in made.offsets]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" \tHeLLo!how  \n Are yoU?  ", ["HeLLo", "!", "how", "Are", "yoU", "?"]),
        ("ah\u535a\u63a8zz", ["ah", "\u535a", "\u63a8", "zz"]),
        ("a\u00a0b\u3000c\u2028d", ["a", "b", "c", "d"]),
        ("a\u200bb \x00c\ufeff \ufffdd", ["a\u200bb", "c", "d"]),
        ("$5+x_y\u3002\u2014z", ["$", "5", "+", "x", "_", "y", "\u3002", "\u2014", "z"]),
        ("\U00020000\uf900", ["\U00020000", "\uf900"]),
        ("a\x0bb\x85c", ["a\x0bb\x85c"]),
        ("\U0001f600\u200d\U0001f469", ["\U0001f600\u200d\U0001f469"]),
    ],
)
def test_words_as_bert_defines_them(text: str, expected: list[str]) -> None:
    """The first two are test_basic_tokenizer_lower and test_chinese of the same file."""
    assert parts(text) == expected


def test_parts_of_the_normalisation() -> None:
    assert parts("a\u535ab", chinese=False) == ["a\u535ab"]
    assert parts("a\x0bb", clean=False) == ["a", "b"]
    letters = ["\u00e9", "e", "i", "\u0131", "\u00c9", "i\u0307"]
    assert wordpiece(letters).tokenize("\u00c9 \u0130") == ["e", "i"]
    assert wordpiece(letters, strip_accents=False).tokenize("\u00c9 \u0130") == ["\u00e9", "i\u0307"]
    assert wordpiece(letters, lower=False).tokenize("\u00c9 \u00e9") == ["\u00c9", "\u00e9"]
    assert wordpiece(letters, lower=False, strip_accents=True).tokenize("\u00e9e\u0301") == ["[UNK]"]
    assert wordpiece(["\u1112", "##\u1161", "##\u11ab"]).tokenize("\ud55c") == ["\u1112", "##\u1161", "##\u11ab"]
    assert wordpiece([";", "="]).tokenize("\u037e\u2260") == [";", "="]


def test_a_word_of_a_hundred_letters_is_the_longest() -> None:
    tokens = ["a", "##a"]
    assert wordpiece(tokens).tokenize("a" * 100) == ["a"] + ["##a"] * 99
    assert wordpiece(tokens).tokenize("a" * 101) == ["[UNK]"]
    assert wordpiece(tokens, longest_word=2).tokenize("aa aaa") == ["a", "##a", "[UNK]"]


def test_special_tokens_are_found_in_texts() -> None:
    text = "un[MASK]want [SEP ][CLS]"
    made = wordpiece().encode_many([text])
    assert [wordpiece().tokens[i] for i in made.ids] == ["un", "[MASK]", "want", "[UNK]", "[UNK]", "[UNK]", "[CLS]"]
    assert made.offsets.tolist()[1] == [2, 8]
    assert made.words.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert wordpiece(added=[]).tokenize("[MASK]") == ["[UNK]"] * 3
    taken = wordpiece(added=[["[MASK]", True, True]]).encode_many(["un  [MASK] want"])
    assert taken.offsets.tolist() == [[0, 2], [2, 11], [11, 15]]


def test_pairs() -> None:
    one, segments = wordpiece().encode("want", "unwanted", max_length=6)
    assert one.ids.tolist() == [2, 5, 3, 9, 6, 3]
    assert segments.tolist() == [0, 0, 0, 1, 1, 1]
    assert one.offsets.tolist() == [[0, 0], [0, 4], [0, 0], [0, 2], [2, 6], [0, 0]]


def test_decoding_joins_pieces() -> None:
    assert wordpiece().decode(wordpiece().encode("UNwanted, running x")[0].ids) == "unwanted, running [UNK]"


@given(st.lists(st.text(), max_size=5))
def test_offsets_are_places_in_the_text(texts: list[str]) -> None:
    tokenizer = wordpiece(["a", "##a", "\u4e2d", "##b"])
    made = tokenizer.encode_many(texts)
    for i, text in enumerate(texts):
        one = made.text(i)
        assert (one.offsets[:, 0] < one.offsets[:, 1]).all()
        assert (one.offsets[1:, 0] >= one.offsets[:-1, 0]).all()
        assert one.offsets.size == 0 or one.offsets.max() <= len(text)
        assert (np.diff(one.words) >= 0).all()


def test_surrogates_are_left_out_like_what_replaces_them() -> None:
    for sign in ("\ud800", "\ufffd"):
        made = wordpiece().encode_many([f"wan{sign}t {sign}"])
        assert (made.ids.tolist(), made.offsets.tolist()) == ([5], [[0, 5]])


def test_bundles_hold_it_whole() -> None:
    tokenizer = wordpiece(lower=False, chinese=False, longest_word=7, added=[["[MASK]", True, False]])
    again = Tokenizer.of(*tokenizer.state())
    assert again.state() == tokenizer.state()
    for line in mixed_lines(50):
        assert again.tokenize(line) == tokenizer.tokenize(line)


def test_one_call_for_many_is_many_calls() -> None:
    lines = mixed_lines(200, seed=3)
    many = wordpiece().encode_many(lines)
    for i, line in enumerate(lines):
        alone = wordpiece().encode_many([line])
        assert [each.tolist() for each in many.text(i)] == [
            alone.ids.tolist(),
            alone.offsets.tolist(),
            alone.words.tolist(),
        ]


def test_faults() -> None:
    with pytest.raises(UsageError, match="which token stands for a word without pieces"):
        WordPiece(["a"], special={}, single=(("$A", 0),), pair=(("$A", 0), ("$B", 0)))
    with pytest.raises(UsageError, match="has no '\\[PAD\\]'"):
        WordPiece(["a"])
    with pytest.raises(UsageError, match="a text is a str, not int"):
        wordpiece().encode_many([1])  # type: ignore[list-item]
    plan, several = bert_plan(True, True, True, True)
    given_to: dict[str, Any] = {"prefix": "##", "unknown": 0, "longest": 9, "added": []}
    with pytest.raises(ShapeError, match="plan is for 5 code points"):
        kernels.WordPiece(["a"], plan[:5], several, **given_to)
    with pytest.raises(ShapeError, match="becomes those from"):
        kernels.WordPiece(["a"], plan, several[:5], **given_to)
    with pytest.raises(UsageError, match="unknown token has number 1 of 1"):
        kernels.WordPiece(["a"], plan, several, **{**given_to, "unknown": 1})
    with pytest.raises(UsageError, match="added token '' with number 0 is empty"):
        kernels.WordPiece(["a"], plan, several, **{**given_to, "added": [("", 0, False, False)]})


def test_the_special_tokens_are_those_of_bert() -> None:
    made = wordpiece()
    assert [made.pad, made.unknown, made.cls, made.sep, made.mask] == [0, 1, 2, 3, 4]
    assert made.tokens[:5] == list(BERT.values())
