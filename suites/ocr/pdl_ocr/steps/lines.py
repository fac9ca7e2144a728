"""Lines of text as an answer: listed, drawn, written one a row."""

from __future__ import annotations

from typing import Any

from pdl.runtime.steps import Mark, PostStep, Sample


class Lines(PostStep):
    """{"lines": [{"text", "score", "polygon"}]}: the lines of an image, as `Reader` found them."""

    any_script = True

    def __call__(self, value: Any, sample: Sample) -> Any:
        return {"lines": value}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return list(answer["lines"])

    def caption(self, answer: Any) -> str:
        count = len(answer["lines"])
        return f"{count} {'line' if count == 1 else 'lines'}"

    def marks(self, answer: Any) -> list[Mark]:
        return [Mark(line["polygon"], line["text"]) for line in answer["lines"]]
