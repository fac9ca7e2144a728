"""Pages and lines of text as inputs and answers: listed, drawn, written one a row or as documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

from pdl.errors import UsageError
from pdl.runtime.documents import DPI, DPIS
from pdl.runtime.steps import Flag, Mark, PostStep, Sample
from pdl.runtime.steps.images import ImageInput
from pdl.runtime.steps.outputs import Form
from pdl_ocr.steps.fields import caption_of, rows_of

RESOLUTION = Flag("--dpi", "N", f"Pixels an inch at which pages of PDF files are drawn, {DPI} by default.")


class PageInput(ImageInput):
    """The image of a page. They are large, and their lines go through the nets together: one is read at a time."""

    batch_size = 1

    def configured(self, values: Mapping[str, Sequence[str]]) -> PageInput:
        if not (given := values.get(RESOLUTION.name)):
            return self
        if not given[-1].isdecimal() or not DPIS[0] <= int(given[-1]) <= DPIS[1]:
            raise UsageError(f"--dpi {given[-1]}: expected a whole number from {DPIS[0]} to {DPIS[1]}")
        made = copy(self)
        made.dpi = int(given[-1])
        return made


class Lines(PostStep):
    """{"lines": [{"text", "score", "polygon", "block", "paragraph", "row"}], "width", "height"}: the lines of an image,
    as `Reader` found them, and its size in pixels; "rectified", too, where the page was."""

    any_script = True

    def __call__(self, value: Any, sample: Sample) -> Any:
        frame = sample.framed("lines")
        return {"lines": value["lines"], "width": frame.width, "height": frame.height} | value

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        if "fields" in answer:
            return rows_of(answer["fields"])
        return [{name: line[name] for name in ("text", "score", "polygon")} for line in answer["lines"]]

    def caption(self, answer: Any) -> str:
        count = len(answer["lines"])
        said = f"{count} {'line' if count == 1 else 'lines'}"
        return f"{said}; {caption_of(answer['fields'])}" if "fields" in answer else said

    def marks(self, answer: Any) -> list[Mark]:
        if "fields" in answer:
            lines = {i: name for name, each in answer["fields"].items() for i in each["lines"]}
            return [Mark(answer["lines"][i]["polygon"], name) for i, name in sorted(lines.items())]
        return [Mark(line["polygon"], line["text"]) for line in answer["lines"]]

    @property
    def flags(self) -> Sequence[Flag]:
        return [RESOLUTION]

    @property
    def forms(self) -> Sequence[Form]:
        from pdl_ocr.documents.forms import FORMS

        return FORMS
