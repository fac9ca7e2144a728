"""Schemes of tags: what may follow what, and spans, against sequences made of spans and a reader of strings."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from pdl_nlp.schemes import Scheme, Tags, scheme_of, segmented

LETTERS = {"BIO": "BI", "BIOES": "BIES", "BMES": "BMES"}


def tags_of(scheme: Scheme) -> Tags:
    names = [f"{letter}-{kind}" for kind in ("LOC", "PER") for letter in LETTERS[scheme]]
    return Tags([*names, "O"], scheme)


def written(scheme: Scheme, length: int, spans: list[tuple[int, int, str]]) -> list[str]:
    made = ["O"] * length
    for begin, end, kind in spans:
        made[begin:end] = segmented([end - begin], [kind], scheme)
    return made


def read(names: list[str]) -> list[tuple[int, int, str]]:
    """conlleval's rules, one tag after another."""
    found: list[tuple[int, int, str]] = []
    open_at, kind = -1, ""
    for at, name in enumerate([*names, "O"]):
        letter, _, own = name.partition("-")
        ends_before = open_at >= 0 and (letter in "OBS" or own != kind or names[at - 1][0] in "ES")
        if ends_before:
            found.append((open_at, at, kind))
            open_at = -1
        if letter != "O" and open_at < 0:
            open_at, kind = at, own
    return found


@pytest.mark.parametrize("scheme", LETTERS)
def test_spans_of_all_short_sequences(scheme: Scheme) -> None:
    """The spans are conlleval's; a sequence is allowed where it is how its spans are written."""
    tags = tags_of(scheme)
    moves, starts, ends = tags.forbidden
    for length in (1, 2, 3, 4):
        for row in product(range(len(tags.names)), repeat=length) if length < 4 else _drawn(len(tags.names)):
            names = [tags.names[number] for number in row]
            spans = [(a, b, tags.kinds[k]) for a, b, k in tags.spans(np.array(row)).tolist()]
            assert spans == read(names), names
            score = starts[row[0]] + ends[row[-1]] + sum(moves[a, b] for a, b in pairwise(row))
            legal = written(scheme, len(row), spans) == names
            assert (score == 0) == legal, names
            assert (len(tags.wrong(np.array(row))) == 0) == legal


def _drawn(count: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in np.random.default_rng(0).integers(0, count, (300, 7)).tolist()]


def test_schemes_are_seen_in_the_tags() -> None:
    assert scheme_of(["B-LOC", "I-LOC", "O"]) == "BIO"
    assert scheme_of(["B-LOC", "E-LOC", "O"]) == scheme_of(["S-a", "O"]) == "BIOES"
    assert scheme_of(["B", "M", "E", "S"]) == "BMES"
    assert scheme_of(["LOC", "O"]) == "IO"
    assert scheme_of(["NOUN", "VERB", "X"]) == scheme_of(["O"]) == "none"


def test_tags_without_letters() -> None:
    io = Tags(["LOC", "O", "PER"])
    assert io.spans(np.array([0, 0, 2, 1, 2, -1])).tolist() == [[0, 2, 0], [2, 3, 1], [4, 5, 1]]
    assert not any(each.any() for each in io.forbidden)
    words = Tags(["B", "M", "E", "S"])
    assert words.spans(np.array([0, 1, 2, 3, 3])).tolist() == [[0, 3, 0], [3, 4, 0], [4, 5, 0]]
    assert words.kinds == [""]
    assert len(Tags(["NOUN", "VERB"]).spans(np.array([0, 1]))) == 0


def test_words_become_tags_of_characters() -> None:
    assert segmented([1, 2, 3], ["a", "b", "c"], "BMES") == ["S-a", "B-b", "E-b", "B-c", "M-c", "E-c"]
    assert segmented([1, 3], ["a", "c"], "BIO") == ["B-a", "B-c", "I-c", "I-c"]


def test_mixed_spans_go_on_where_the_kind_changes() -> None:
    """As LAC reads its tags: a span goes on until another begins, its kind is that of its first tag."""
    tags = Tags(["B-n", "I-n", "B-v", "I-v", "O"], "BIO")
    row = np.array([0, 3, 1, 2, 4, 1, 3, 0])  # n v n | v | O | n v | n
    assert tags.spans(row, mixed=True).tolist() == [[0, 3, 0], [3, 4, 1], [5, 7, 0], [7, 8, 0]]
    assert tags.spans(row).tolist() == [[0, 1, 0], [1, 2, 1], [2, 3, 0], [3, 4, 1], [5, 6, 0], [6, 7, 1], [7, 8, 0]]
