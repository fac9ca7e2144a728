"""Texts with spelling mistakes and the same texts without: lines `wrong<TAB>right`, or the two files of SIGHAN."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from pdl.data import Dataset, Sample, digest
from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.hints import Range
from pdl.runtime import tables
from pdl_nlp.data import standin
from pdl_nlp.data.base import part_of, require_some
from pdl_nlp.data.reading import locate

Pair = tuple[int, str, str]
"""The number of a line, the text as it was written, and as it should be."""


class CorrectionFile(Dataset):
    """Texts with mistakes, which are as long as without them: sample i is {"text": str, "right": str}.

    path     lines `wrong<TAB>right`; with `truth` lines `(id)<TAB>text`. A relative one is also looked for below
             PDL_DATA; .gz, .bz2 and .xz are unpacked
    truth    the second file of SIGHAN's data (Yu et al., CLP 2014): in the same order lines `id, position, character,
             position, character, ...` with positions from 1, or `id, 0` of texts without a mistake
    split    the part to take, where `ratios` cut the file
    ratios   {train: 0.9, val: 0.1}: by a hash of the right text and `seed`, so equal texts stay together
    address  where a missing file can be had, as `pdl.data.to_get` takes it
    """

    foldable = True
    classes: list[str] = []  # noqa: RUF012  of no kind

    def __init__(
        self,
        path: str | Path,
        *,
        truth: str | Path | None = None,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        address: str | None = None,
    ) -> None:
        self.source, self.split = locate(path, address), split
        found = list(_lines(self.source) if truth is None else _sighan(self.source, locate(truth, address)))
        for line, text, right in found:
            if len(text) != len(right):
                what = f"{len(text)} characters, corrected {len(right)}"
                raise fault(self.source, what, "mistakes are single characters: write both equally long", line=line)
        kept = part_of("CorrectionFile", [right for _, _, right in found], split, ratios, seed)
        self.found = found if kept is None else [found[i] for i in kept.tolist()]
        require_some(self.source, len(self.found), split)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, index: int) -> Sample:
        _, text, right = self.found[index]
        return {"text": text, "right": right}

    def path_of(self, index: int) -> str | None:
        return str(self.source)

    def line_of(self, index: int) -> int | None:
        """The line of text `index`."""
        return self.found[index][0]

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Of the texts, wrong and right."""
        return digest(type(self).__name__, *(f"{text}\n{right}" for _, text, right in self.found))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        path, truth = standin.write_mistakes(folder, settings)
        return StandIn({"path": str(path), **({} if truth is None else {"truth": str(truth)})}, standin.WHAT)


def _lines(path: Path) -> Iterator[Pair]:
    with tables.opened(path) as file:
        for number, line in enumerate(tables.lines_of(file, str(path)), 1):
            text, tab, right = line.rstrip("\r\n").partition("\t")
            if not tab and text.strip():
                advice = (
                    "write the text with its mistakes, a tab, and the right one; or name SIGHAN's second file (truth=)"
                )
                raise fault(path, "one text, expected two", advice, line=number)
            if tab:
                yield number, text, right


def _sighan(path: Path, truth: Path) -> Iterator[Pair]:
    with tables.opened(path) as file, tables.opened(truth) as other:
        both = zip_longest(tables.lines_of(file, str(path)), tables.lines_of(other, str(truth)), fillvalue="")
        for number, (line, said) in enumerate(both, 1):
            if not line.strip() and not said.strip():
                continue
            name, _, text = line.rstrip("\r\n").partition("\t")
            called, *cells = (cell.strip() for cell in said.split(","))
            if not called or not name.strip().strip("()").endswith(called.strip("()")):
                what = f"text {name.strip()!r:.40}, but {called!r:.40} in {truth.name}"
                raise fault(path, what, "both files must have the same texts in one order", line=number)
            yield number, text, _put(text, [cell for cell in cells if cell], truth, number)


def _put(text: str, cells: list[str], truth: Path, line: int) -> str:
    """The text with characters put in: [place, character, place, character, ...], places from 1; ["0"] for none."""
    right = list(text)
    for place, character in zip(cells[::2], cells[1::2], strict=False):
        if not place.isdigit() or not 0 < int(place) <= len(text) or len(character) != 1:
            what = f"{place!r:.20}, {character!r:.20} is no place in a text of {len(text)} and a character"
            raise fault(truth, what, "write `id, place, character` with places from 1", line=line)
        right[int(place) - 1] = character
    if len(cells) % 2 and cells != ["0"]:
        raise fault(
            truth, f"{cells[-1]!r:.20} without a character", "write `id, place, character`, or `id, 0`", line=line
        )
    return "".join(right)
