"""Texts with their translations: two files with a line each, or a table with a row for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from pdl.data import Dataset, Sample, digest
from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.runtime import tables
from pdl_nlp.data import standin
from pdl_nlp.data.base import part_of, require_some
from pdl_nlp.data.reading import Normal, Row, locate, normalised, rows, text_of

Pair = tuple[int, str, str]
"""The number of a line, the text that is read, and the one that is to be written."""


class ParallelText(Dataset):
    """Texts and what is to be written for each, such as translations: sample i is {"text": str, "target": str}.

    path       with `target` a file of texts, one a line; without it a table with a row for each pair (*.csv, *.tsv,
               *.jsonl, or lines of `columns`). A relative one is also looked for below PDL_DATA; .gz is unpacked
    target     the file of what is to be written, its lines in the same order
    text, to   the columns of a table (of JSON the keys) with the one and the other
    columns    of a table without a header, in their order; the last one has the rest of the line: [text, target, about]
    separator  between columns; by default a comma in .csv, else a tab
    split      the part to take, where `ratios` cut the data
    ratios     {train: 0.9, val: 0.1}: by a hash of the text and `seed`, so all pairs with one text stay together
    normalise  a form of Unicode that both texts are brought into, such as NFKC; by default they stay as they are
    address    where missing files can be had, as `pdl.data.to_get` takes it
    """

    foldable = True
    classes: list[str] = []  # noqa: RUF012  of no kind

    def __init__(
        self,
        path: str | Path,
        *,
        target: str | Path | None = None,
        text: str = "text",
        to: str = "target",
        columns: Sequence[str] | None = None,
        separator: str | None = None,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        if target is not None and (columns is not None or separator is not None):
            raise ConfigError("ParallelText: columns and separator are of one table; with target there are two files")
        self.source, self.split = locate(path, address), split
        self.columns = None if target is not None else {"text": text, "to": to}
        if target is not None:
            found = list(_lines(self.source, locate(target, address), normalise))
        else:
            table = rows(self.source, columns, separator)
            found = [(row[0], *_both(row, text, to, self.source, normalise)) for row in table]
        kept = part_of("ParallelText", [pair[1] for pair in found], split, ratios, seed)
        self.found: list[Pair] = found if kept is None else [found[i] for i in kept.tolist()]
        require_some(self.source, len(self.found), split)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, index: int) -> Sample:
        _, text, target = self.found[index]
        return {"text": text, "target": target}

    @property
    def texts(self) -> list[str]:
        """What is read."""
        return [text for _, text, _ in self.found]

    @property
    def targets(self) -> list[str]:
        """What is to be written."""
        return [target for _, _, target in self.found]

    def path_of(self, index: int) -> str | None:
        return str(self.source)

    def line_of(self, index: int) -> int | None:
        """The line of pair `index`."""
        return self.found[index][0]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Of both texts."""
        return digest(type(self).__name__, *(f"{text}\n{target}" for _, text, target in self.found))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        return StandIn(standin.write_parallel(folder, settings), standin.WHAT)


def _both(row: Row, text: str, to: str, path: Path, normalise: Normal | None) -> tuple[str, str]:
    return text_of(row, text, path, normalise).strip(), text_of(row, to, path, normalise).strip()


def _lines(path: Path, target: Path, normalise: Normal | None) -> Iterator[Pair]:
    """Lines of two files with the same number of them; a pair of blank lines is left out."""
    with tables.opened(path) as file, tables.opened(target) as other:
        both = zip_longest(tables.lines_of(file, str(path)), tables.lines_of(other, str(target)))
        for number, (text, wanted) in enumerate(both, 1):
            if text is None or wanted is None:
                short, long = (path, target) if text is None else (target, path)
                what = f"ends after {number - 1:,} lines, {long.name} goes on"
                raise fault(short, what, "both files must have the same lines in one order", line=number)
            made = normalised(text.strip(), normalise), normalised(wanted.strip(), normalise)
            if any(made):
                yield number, *made
