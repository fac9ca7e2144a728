"""Vocabularies that are trained and written here, and read again by pdl and, where it is installed, by HF."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.cli import main
from pdl.errors import DataError, ShapeError, UsageError
from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers import BERT, Characters, Words, read
from pdl_nlp.tokenizers.training import normalised, train
from pdl_nlp.tokenizers.unicode import bert_plan
from pdl_nlp.tokenizers.writing import write

TEXTS = ["low lower lowest \u4eca\u5929\u597d", "Low new newer newest", "low \u4eca\u5929 wide wider"] * 3
SPECIAL = list(BERT.values())


def test_characters_and_words() -> None:
    """By hand: counts of TEXTS, of equal ones the first by code point."""
    made = train("characters", ["abca", "ab", "b c d"], size=8, least=2)
    assert made.tokens == [*SPECIAL, "a", "b", "c"]
    assert isinstance(made, Characters)
    words = train("words", ["B a, a", "b c"], size=9, least=1, lower=True)
    assert words.tokens == [*SPECIAL, "a", "b", ",", "c"]
    assert isinstance(words, Words)
    assert words.encode("A x")[0].ids.tolist() == [2, 5, 1, 3]


def restated(words: dict[str, int], most: int, least: int) -> list[str]:
    """Merges as Sennrich et al. have them, counted afresh for each."""
    held = {word: list(word) for word in words}
    made: list[str] = []
    order = {letter: i for i, letter in enumerate(sorted({x for word in words for x in word}))}
    while len(made) < most:
        counts: Counter[tuple[str, str]] = Counter()
        for word, symbols in held.items():
            for pair in pairwise(symbols):
                counts[pair] += words[word]
        if not counts or max(counts.values()) < least:
            break
        best = min(counts, key=lambda pair: (-counts[pair], order[pair[0]], order[pair[1]]))
        whole = "".join(best)
        if whole not in order:
            order[whole] = len(order)
            made.append(whole)
        for word, symbols in held.items():
            i = 0
            while i + 1 < len(symbols):
                if (symbols[i], symbols[i + 1]) == best:
                    symbols[i : i + 2] = [whole]
                i += 1
            held[word] = symbols
    return made


@given(st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 5), min_size=1, max_size=6))
def test_merges_are_those_of_counting_afresh(words: dict[str, int]) -> None:
    order = sorted(words)
    letters = sorted({letter for word in order for letter in word})
    symbols = np.array([letters.index(letter) for word in order for letter in word], np.int32)
    starts = np.cumsum([0, *map(len, order)], dtype=np.int64)
    counts = np.array([words[word] for word in order], np.int64)
    tokens = list(letters)
    for a, b, made in kernels.learn_merges(symbols, starts, counts, base=len(letters), most=8, least=2).tolist():
        if made == len(tokens):
            tokens.append(tokens[a] + tokens[b])
        assert tokens[made] == tokens[a] + tokens[b]
    assert tokens[len(letters) :] == restated(words, 8, 2)


def test_wordpiece() -> None:
    made = train("wordpiece", TEXTS, size=60, lower=True)
    assert {"low", "new", "##er", "\u4eca"} <= set(made.tokens)
    assert made.unknown not in made.encode_many(["LOWER newest"]).ids
    assert len(made.tokens) <= 60
    assert len(train("wordpiece", TEXTS, size=12).tokens) == 12, "the rarest letters are left out"


def test_words_of_bert_in_numpy_are_those_of_the_kernel() -> None:
    found = normalised("\u00c9t\u00e9!\u4e2d \ud55c\x00a", *bert_plan(True, True, True, True))
    assert found.split() == ["ete", "!", "\u4e2d", "\u1112\u1161\u11aba"]


def test_bpe_and_back() -> None:
    made = train("bpe", TEXTS, size=290)
    assert "\u0120low" in made.tokens
    assert len(made.tokens) <= 290
    assert made.decode(made.encode("low \u4eca\u5929 \U0001f600")[0].ids) == "low \u4eca\u5929 \U0001f600"


@pytest.mark.parametrize("kind", ["characters", "words", "wordpiece", "bpe"])
def test_what_is_written_is_read(kind: str, tmp_path: Path) -> None:
    made = train(kind, TEXTS, size=300, least=1, lower=kind == "words")
    write(made, tmp_path)
    again = read(tmp_path)
    assert again.tokens == made.tokens
    for text in [*TEXTS, "lowish [MASK] \u00e9"]:
        for ours, other in zip(made.encode(text, "new"), again.encode(text, "new"), strict=True):
            assert [np.asarray(x).tolist() for x in ours] == [np.asarray(x).tolist() for x in other]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_hf_reads_what_is_written(kind: str, tmp_path: Path) -> None:
    library = pytest.importorskip("tokenizers", reason="HF tokenizers is not installed")
    made = train(kind, TEXTS, size=300)
    write(made, tmp_path)
    theirs = library.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS[:3]:
        assert theirs.encode(text, "new low").ids == made.encode(text, "new low")[0].ids.tolist()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "texts.tsv"
    table.write_text("\n".join(["id\treview", *(f"{i}\t{text}" for i, text in enumerate(TEXTS))]) + "\n")
    how = ["--column", "review", "--size", "50", "--lower", "--out", str(tmp_path / "v")]
    arguments = ["vocab", "wordpiece", str(table), *how]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["tokens"] == len(read(tmp_path / "v").tokens) <= 50
    assert main(arguments) == 0
    assert "tokens" in capsys.readouterr().out
    assert main(["vocab", "wordpieces", str(table), "--out", "x"]) == 2
    assert "there is no kind of vocabulary 'wordpieces'; did you mean 'wordpiece'?" in capsys.readouterr().err


def test_faults() -> None:
    with pytest.raises(UsageError, match="kind='x' must be one of characters"):
        train("x", TEXTS)
    with pytest.raises(UsageError, match="size=100 is too small; bpe has at least 261"):
        train("bpe", TEXTS, size=100)
    with pytest.raises(DataError, match="the texts are empty"):
        train("words", [" "])
    good = np.zeros(2, np.int32), np.array([0, 2]), np.ones(1, np.int64)
    with pytest.raises(ShapeError, match="symbol 0 at 0 is none of the 0"):
        kernels.learn_merges(*good, base=0, most=1, least=1)
    with pytest.raises(ShapeError, match="2 starts for 1 words of 1 symbols"):
        kernels.learn_merges(good[0][:1], *good[1:], base=1, most=1, least=1)
