"""Characters and words: numbers, offsets, special tokens, cutting, and how bundles hold them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import DataError, UsageError
from pdl_nlp.tokenizers import BERT, BERT_PAIR, BERT_SINGLE, Characters, Tokenizer, Words

TOKENS = [*BERT.values(), "a", "b", "中", "é", "good", "day", "!"]
SIMPLE = {
    "characters": Characters(TOKENS, special=BERT, single=BERT_SINGLE, pair=BERT_PAIR, lower=True),
    "spaces": Characters([*TOKENS, " "], special=BERT, spaces=True),
    "words": Words(TOKENS, special=BERT, single=BERT_SINGLE, pair=BERT_PAIR, lower=True),
    "split": Words(TOKENS, special=BERT, split="space"),
}
EVERY = pytest.mark.parametrize("tokenizer", SIMPLE.values(), ids=SIMPLE)


@pytest.mark.parametrize(
    ("name", "text", "tokens", "offsets", "words"),
    [
        ("characters", "a B\u3000中x", ["a", "b", "中", "[UNK]"], [[0, 1], [2, 3], [4, 5], [5, 6]], [0, 1, 2, 3]),
        ("spaces", "a É", ["a", " ", "[UNK]"], [[0, 1], [1, 2], [2, 3]], [0, 1, 2]),
        ("words", "Good-day!", ["good", "[UNK]", "day", "!"], [[0, 4], [4, 5], [5, 8], [8, 9]], [0, 1, 2, 3]),
        ("split", " good day! ", ["good", "[UNK]"], [[1, 5], [6, 10]], [0, 1]),
        ("words", "", [], [], []),
        ("characters", " \n", [], [], []),
    ],
)
def test_tokens_offsets_and_words(
    name: str, text: str, tokens: list[str], offsets: list[list[int]], words: list[int]
) -> None:
    made = SIMPLE[name].encode_many(["a", text])
    assert made.starts.tolist() == [0, 1, 1 + len(tokens)]
    one = made.text(1)
    assert [SIMPLE[name].tokens[i] for i in one.ids] == tokens == SIMPLE[name].tokenize(text)
    assert (one.offsets.tolist(), one.words.tolist()) == (offsets, words)
    assert [str(each.dtype) for each in made] == ["int32", "int32", "int32", "int64"]


def test_special_tokens_and_segments_of_a_pair() -> None:
    one, segments = SIMPLE["words"].encode("good", "day !")
    assert [TOKENS[i] for i in one.ids] == ["[CLS]", "good", "[SEP]", "day", "!", "[SEP]"]
    assert one.offsets.tolist() == [[0, 0], [0, 4], [0, 0], [0, 3], [4, 5], [0, 0]]
    assert one.words.tolist() == [-1, 0, -1, 0, 1, -1]
    assert segments.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("first", "second", "most", "kept"),
    [(5, 2, 7, (2, 2)), (2, 5, 7, (2, 2)), (4, 4, 8, (2, 3)), (5, 1, 7, (3, 1)), (9, 9, 3, (0, 0)), (3, None, 4, (2,))],
)
def test_the_longer_one_is_cut_first(first: int, second: int | None, most: int, kept: tuple[int, ...]) -> None:
    """As HF's "longest_first": checked by hand against tokenizers 0.22."""
    one, segments = SIMPLE["characters"].encode("a" * first, None if second is None else "b" * second, max_length=most)
    assert len(one.ids) == len(segments) == most
    assert [(one.ids == SIMPLE["characters"].number(c)).sum() for c in "ab"[: len(kept)]] == list(kept)


def test_a_length_that_holds_no_special_tokens() -> None:
    with pytest.raises(UsageError, match=r"max_length=1 is less than the special tokens need \(2\)"):
        SIMPLE["words"].encode("a", max_length=1)


@EVERY
@given(texts=st.lists(st.text(), max_size=4))
def test_offsets_are_places_of_the_text(tokenizer: Tokenizer, texts: list[str]) -> None:
    made = tokenizer.encode_many(texts)
    for i, text in enumerate(texts):
        one = made.text(i)
        ends = [0, *one.offsets[:, 1].tolist()]
        assert all(end <= begin < after for end, (begin, after) in zip(ends, one.offsets.tolist(), strict=False))
        known = [
            (text[b:e], n) for (b, e), n in zip(one.offsets.tolist(), one.ids, strict=True) if n != tokenizer.unknown
        ]
        assert all(tokenizer.tokens[n] in (part, part.lower()) for part, n in known)


@EVERY
def test_bundles_hold_it_whole(tokenizer: Tokenizer) -> None:
    again = Tokenizer.of(*tokenizer.state())
    assert again.state() == tokenizer.state()
    one, other = (each.encode("Good a b", "中") for each in (tokenizer, again))
    assert [each.tolist() for each in (*one[0], one[1])] == [each.tolist() for each in (*other[0], other[1])]


def test_decoding() -> None:
    assert SIMPLE["words"].decode(SIMPLE["words"].encode("Good day x")[0].ids) == "good day [UNK]"
    assert SIMPLE["spaces"].decode(SIMPLE["spaces"].encode("a b")[0].ids) == "a b"
    with pytest.raises(DataError, match="number 12 is no token; they run from 0 to 11"):
        SIMPLE["words"].decode([12])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Words(TOKENS), "which token stands for a word without one"),
        (lambda: Characters(TOKENS), "which token stands for a character without one"),
        (lambda: Words(TOKENS, special=BERT, split="x"), "split='x' must be one of space, signs"),
        (lambda: Words(TOKENS, special={"unknown": "<unk>"}), "has no '<unk>'"),
        (lambda: Words(TOKENS, special={"begin": "a"}), "special: begin; parts are pad"),
        (lambda: Words(TOKENS, special=BERT, single=[("[CLS]", 0)]), r"must have \$A once each"),
        (lambda: Words(["a", "a"], special={"unknown": "a"}), "'a' is there twice"),
        (lambda: Tokenizer.of({"kind": "x"}, {}, {}), "kind='x' is no tokenizer"),
        (lambda: Tokenizer.of({"kind": "words"}, {}, {}), "needs the vocabulary 'tokens'; there are: none"),
        (lambda: Tokenizer.of({**SIMPLE["words"].state()[0], "x": 1}, SIMPLE["words"].state()[1], {}), "'x'"),
    ],
)
def test_what_cannot_be_a_tokenizer(make: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()  # type: ignore[operator]
