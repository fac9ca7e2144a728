"""Look pages over before training: values that stand nowhere, fields that are rare, pages without text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from pdl.data.checks import Progress, check, open_all, shorten
from pdl.data.faults import Fault
from pdl.train import Recipe
from pdl_ocr.data.fields import PageFields
from pdl_ocr.extraction.alignment import spans_of
from pdl_ocr.steps.fields import PIECES, PageText

SHOWN = 5  # faults of a kind and split
MOST = 1000  # faults of a kind that are gathered
SHOWN_LETTERS = 60  # of a value
RARE = 5  # values of a field in training


def check_recipe(recipe: Recipe, fields: Sequence[str], progress: Progress | None = None) -> list[Fault]:
    """Faults of the pages of a recipe."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    faults = check(sources, progress=progress)
    for split, data in open_all(sources, []).items():
        if isinstance(data, PageFields):
            names = fields or data.names
            for kind in (
                _unreadable(data),
                _nowhere(data, names),
                _rare(data, names) if split == "train" else iter(()),
            ):
                faults += shorten(list(islice(kind, MOST)), SHOWN, split)
    return faults


def _unreadable(data: PageFields) -> Iterator[Fault]:
    for index in range(len(data)):
        lines = data[index]["lines"]
        if not any(line["text"].strip() for line in lines):
            what = "has no line with a text"
            yield Fault(data.path_of(index), index, what, "fine, if the page is empty", severity="warning")
        elif (count := len(PageText.of(lines).pieces)) > PIECES[-1]:
            what = f"has {count} pieces of lines, of which the first {PIECES[-1]} are read"
            yield Fault(data.path_of(index), index, what, "fine, if the fields are not at the end", severity="warning")


def _nowhere(data: PageFields, names: Sequence[str]) -> Iterator[Fault]:
    for index in range(len(data)):
        sample = data[index]
        if not any(line["text"].strip() for line in sample["lines"]):
            continue
        lines = PageText.of(sample["lines"]).lines
        for name in names:
            value = sample["fields"].get(name, "")
            if value and not spans_of(value, lines):
                shown = value if len(value) <= SHOWN_LETTERS else value[: SHOWN_LETTERS - 3] + "..."
                what = f"the {name} {shown!r} does not stand on the page"
                how = "correct it, or the lines; it teaches nothing, and counts as missed"
                yield Fault(data.path_of(index), index, what, how, severity="warning")


def _rare(data: PageFields, names: Sequence[str]) -> Iterator[Fault]:
    there = Counter(name for index in range(len(data)) for name in data[index]["fields"])
    for name in names:
        if there[name] < RARE:
            what = f"{there[name]} of {len(data)} pages have a value of {name!r}"
            yield Fault(
                str(data.path), None, what, "give more, or leave the field out (task.fields)", severity="warning"
            )
