"""`Card`: the model card of a bundle, in markdown (Mitchell et al., arXiv 1810.03993)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Card:
    """What a task says of a model; the metrics, and how the weights were chosen, come from the run.

    title     such as "LeNet, 10 classes"
    summary   what it answers, in a few sentences
    protocol  how its metrics are measured
    use       how to use it, in Python and on the command line
    data      what it was learned from
    """

    title: str
    summary: str
    protocol: str = ""
    use: str = ""
    data: str = ""

    def markdown(
        self,
        *,
        metrics: Mapping[str, float | None] | None = None,
        selection: str = "",
        baselines: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None,
        licence: str = "",
    ) -> str:
        """The whole card. Of `metrics` those of training are left out; `baselines` are the head and rows of a table."""
        measured = {name: value for name, value in (metrics or {}).items() if not name.startswith("train/")}
        rows = [[name, value] for name, value in measured.items()]
        metric_table = [_table(["metric", "value"], rows)] if rows else ["Not measured."]
        fitted = "Fitted on the same training data, on the same split and protocol."
        sections = {
            "Data": [self.data, "config.yaml in this bundle holds the whole recipe, with splits and preparation."],
            "Metrics": [selection, self.protocol, *metric_table],
            "Baselines": [fitted, _table(*baselines)] if baselines else [],
            "Licence": [licence or "Not stated: ask whoever gave you this file."],
            "Use": [self.use],
        }
        parts = [f"# {self.title}", self.summary]
        for name, paragraphs in sections.items():
            if any(paragraphs):
                parts += [f"## {name}", *filter(None, paragraphs)]
        return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [list(head), ["---"] * len(head), *([_cell(value, row[0]) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any, name: str) -> str:
    """Metrics of a split with four digits; summary metrics, which are compared with exact values, with all significant
    ones; None and NaN as a dash."""
    if isinstance(value, str):
        return value
    return "-" if value is None or value != value else f"{value:.4f}" if "/" in name else f"{value:.9g}"
