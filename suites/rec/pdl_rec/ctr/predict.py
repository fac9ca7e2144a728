"""From rows as people give them to probabilities."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.nn import Module
from pdl.runtime.fields import Chances, known_row
from pdl.tensor import no_grad
from pdl_rec.data.click_file import ClickFile

if TYPE_CHECKING:
    from pdl_rec.ctr.task import ClickThrough

EXAMPLES = 3


def predict(task: ClickThrough, model: Module, inputs: Sequence[Any], *, batch_size: int) -> Iterator[dict[str, Any]]:
    """{"input", label: probability, ...} for each row, in order: {column: value}, JSON, or "column=value,..."."""
    encoding, chances = task.encoding, Chances()
    fields, columns = encoding.fields, encoding.inputs_from
    chances.labels = list(task.labels)
    for begin in range(0, len(inputs), batch_size):
        group = inputs[begin : begin + batch_size]
        with no_grad():
            logits = model(*task.inputs(fields.rows([known_row(item, columns) for item in group]))).numpy()
        for item, row in zip(group, logits, strict=True):
            yield {"input": item if isinstance(item, str) else str(item), **chances(row)}


def example(task: ClickThrough, loaders: Mapping[str, Any], folder: Path) -> str:
    """A few rows of the test data, as a file."""
    inner: Any = getattr(loaders.get("test") or loaders.get("val"), "dataset", None)
    rows = np.arange(EXAMPLES)
    while hasattr(inner, "indices"):
        inner, rows = inner.dataset, inner.indices[rows[rows < len(inner)]]
    if not isinstance(inner, ClickFile) or inner.source.form == "slots":
        return "ROWS.csv"
    encoding = task.encoding
    with (folder / "example.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(encoding.inputs_from)
        for index in rows[rows < len(inner)].tolist():
            row = inner.record(index)
            writer.writerow([row[name] for name in encoding.inputs_from])
    return str(folder / "example.csv")


__all__ = ["example", "predict"]
