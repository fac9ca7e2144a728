"""Pages as text, with the values of their fields marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Few, sample_name
from pdl.report import Section, escape
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
        made = []
        for row in range(len(few)):
            name = escape(sample_name(dataset, int(few.indices[row])))
            made.append(f"<p><b>{name}</b></p><pre>{self._page(few[row])}</pre>")
        return [Section("Pages", SAID + "".join(made))]

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


def _slice(span: Span, starts: np.ndarray) -> slice:
    return slice(int(starts[span.first.line]) + span.first.at, int(starts[span.last.line]) + span.last.at + 1)
