"""Pages as text, with the values of their fields marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Few, sample_name
from pdl.report import Section, escape, table
from pdl.train import Look, Previewer
from pdl_ocr.extraction.alignment import spans_of
from pdl_ocr.steps.fields import PageText, Span

if TYPE_CHECKING:
    from pdl_ocr.extraction.task import InformationExtraction

SAID = "<p>Where a value stands it is marked, with the name of its field; every such place is learned.</p>"


class ExtractionPreviewer(Previewer):
    """The text of each page, in reading order."""

    task: InformationExtraction

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        few = Few(dataset, look.samples)
        samples = [few[row] for row in range(len(few))]
        names = [sample_name(dataset, index) for index in few.indices.tolist()]
        made = (
            f"<p><b>{escape(name)}</b></p><pre>{self._page(sample)}</pre>"
            for name, sample in zip(names, samples, strict=True)
        )
        return [Section("Pages", SAID + "".join(made)), Section("Fields", self._fields(names, samples))]

    def _fields(self, names: Sequence[str], samples: Sequence[Any]) -> str:
        """The values, and how often each stands on its page."""
        pages = [(sample["fields"], PageText.of(sample["lines"], self.task.width).lines) for sample in samples]
        rows = [[name, *(_placed(fields.get(name, ""), lines) for fields, lines in pages)] for name in self.task.fields]
        return table(rows, head=("field", *names))

    def _page(self, sample: Any) -> str:
        lines = PageText.of(sample["lines"], self.task.width).lines
        fields = np.full(sum(map(len, lines)) + len(lines), "", object)
        starts = np.cumsum([0, *(len(line) + 1 for line in lines)])
        for name in self.task.fields:
            for span in spans_of(sample["fields"].get(name, ""), lines):
                fields[_slice(span, starts)] = name
        made, before = [], ""
        for c, name in zip("".join(line + "\n" for line in lines), fields, strict=True):
            if name != before:
                made.append((f"<sub>{escape(before)}</sub></mark>" if before else "") + ("<mark>" if name else ""))
            made.append(escape(c))
            before = name
        return "".join(made) + ("</mark>" if before else "")


def _placed(value: str, lines: Sequence[str]) -> str:
    """A value with the number of places where it stands."""
    places = len(spans_of(value, lines)) if value else 0
    return value and f"{value} ({'nowhere' if not places else 'once' if places == 1 else f'{places} times'})"


def _slice(span: Span, starts: np.ndarray) -> slice:
    return slice(int(starts[span.first.line]) + span.first.at, int(starts[span.last.line]) + span.last.at + 1)
