"""Where values stand on a page, checked against edit distances of all pieces."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.train.texts import edit_distance
from pdl_ocr.extraction.alignment import nearest, spans_of
from pdl_ocr.steps.fields import squashed

LINES = [
    "ALPHA (M) SDN BHD",
    "12, MILL LANE,",
    "81100 TOWN.",
    "DATE:25/12/2018 8:13",
    "TOTAL RM19.00",
    "9.00",
    "CASH 9.00",
]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("Alpha (M) Sdn Bhd", ["ALPHA (M) SDN BHD"]),
        ("12, MILL LANE, 81100 TOWN.", ["12, MILL LANE, 81100 TOWN."]),
        ("12 mill lane 81100 town", ["12, MILL LANE, 81100 TOWN"]),
        ("25/12/2018", ["25/12/2018"]),
        ("9.00", ["9.00", "9.00"]),  # not within 19.00
        ("RM19.00", ["RM19.00"]),
        ("19.00", ["19.00"]),
        ("8:13", ["8:13"]),
        ("13", []),  # a part of a time
        ("2018", []),  # a part of a date
        ("13, MILL LANE, 81100 TOWN", ["12, MILL LANE, 81100 TOWN"]),  # similar
        ("12, MIL LANE, 8I100 TOWN", ["12, MILL LANE, 81100 TOWN"]),  # two of twenty letters are others
        ("ALFA", []),
        ("5/12/2018", ["5/12/2018"]),  # no whole one is there
        ("?!", []),
    ],
)
def test_values_are_found(value: str, found: list[str]) -> None:
    assert [span.text(LINES) for span in spans_of(value, LINES)] == found


def test_the_nearest_piece_has_the_least_edit_distance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        page = "".join("abc"[i] for i in rng.integers(0, 3, 12))
        wanted = "".join("abc"[i] for i in rng.integers(0, 3, 5))
        begin, end, distance = nearest(wanted, page)
        best = min(edit_distance(wanted, page[i:j]) for i in range(13) for j in range(i, 13))
        assert distance == best == edit_distance(wanted, page[begin:end])


def test_letters_and_digits_are_compared() -> None:
    assert squashed("Jalan 7/118B, Ü.") == "jalan7118bü"
