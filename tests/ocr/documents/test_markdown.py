"""Pages as text and Markdown."""

from __future__ import annotations

import pytest

from pdl_ocr.documents.markdown import escaped, joined, to_markdown, to_text
from tests.ocr.documents.answers import ARTICLE, page, turned


def test_text_keeps_rows_and_cells() -> None:
    row = "running text that fills it exam-"
    assert to_text(ARTICLE) == (
        f"A heading\n\nple of a row\n{row}\nple of a row\n{row}\nthe end.\n\nTotal\t12.50\nCash\t20.00\n"
    )


def test_markdown_has_headings_paragraphs_and_lines() -> None:
    part = "ple of a row running text that fills it exam"
    assert to_markdown(ARTICLE) == f"# A heading\n\n{part}{part}the end.\n\nTotal 12.50  \nCash 20.00\n"


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_turned_page_says_the_same(degrees: int) -> None:
    assert to_text(turned(ARTICLE, degrees)) == to_text(ARTICLE)
    assert to_markdown(turned(ARTICLE, degrees)) == to_markdown(ARTICLE)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("exam-", "ple", "example"), ("Jean-", "Luc", "Jean- Luc"), ("3-", "4", "3- 4"), ("a", "b", "a b"),
        ("你好", "世界", "你好世界"), ("abc", "世界", "abc 世界"),
    ],
)  # fmt: skip
def test_rows_are_joined(before: str, after: str, expected: str) -> None:
    assert joined(before, after) == expected


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("# 5 *new*", r"\# 5 \*new\*"), ("#5", "#5"), ("• milk", "- milk"), ("a_b [c](d) <e>", r"a\_b \[c\](d) \<e>"),
        ("> x", r"\> x"), ("----", r"\----"), ("- item", "- item"), ("1. first", "1. first"), (r"a\b", r"a\\b"),
    ],
)  # fmt: skip
def test_characters_mean_themselves(row: str, expected: str) -> None:
    assert escaped(row) == expected


def test_empty_pages() -> None:
    assert to_text(page()) == to_markdown(page()) == "\n"
