"""From rows as people give them to probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.errors import DataError, UsageError
from pdl.nn import Module
from pdl.runtime.fields import as_row
from pdl.tensor import no_grad
from pdl_rec.data.columns import Columns, length, take
from pdl_rec.data.reading import Source

if TYPE_CHECKING:
    from pdl_rec.ctr.task import ClickThrough


def predict(
    task: ClickThrough, model: Module, inputs: Sequence[Any], cfg: Any, *, batch_size: int
) -> Iterator[dict[str, Any]]:
    """{"input", label: probability, ...} for each row, in order.

    An input is a row ({column: value}, the same as JSON, or the text "column=value,column=value"), or the path of a
    file of rows in the form of the recipe's data (a csv file with a header needs no more). Columns that only tell the
    labels may be absent.
    """
    if not len(inputs):
        raise UsageError('predict: no input; give a row ("age=39,workclass=Private", or JSON) or a file of rows')
    for number, item in enumerate(inputs):
        if _is_file(item) and Path(item).suffix != ".json":
            yield from _of_file(task, model, Path(item).expanduser(), cfg, batch_size)
        else:
            row = as_row(Path(item).read_text(encoding="utf-8") if _is_file(item) else item)
            arrays = task.encoding.fields.rows([row])
            name = item if isinstance(item, str) else f"row {number}"
            yield from _answers(task, model, arrays, [name])


def _is_file(item: Any) -> bool:
    try:
        return isinstance(item, str | Path) and Path(item).expanduser().is_file()
    except OSError:  # too long for a name: a row
        return False


def _of_file(task: ClickThrough, model: Module, path: Path, cfg: Any, batch_size: int) -> Iterator[dict[str, Any]]:
    encoding, row = task.encoding, 1
    source = _source(path, cfg)
    have = source.columns()
    absent = [name for name in encoding.inputs_from if name not in have and source.form != "slots"]
    if absent:
        raise DataError(f"{path}: has no column {absent[0]!r}; it has {', '.join(have[:40])}")
    for block in source.blocks(encoding.numeric, encoding.inputs_from):
        for part in _pieces(block, batch_size):
            n = length(part)
            yield from _answers(task, model, encoding.inputs(part), [f"{path}:{row + i}" for i in range(n)])
            row += n


def _source(path: Path, cfg: Any) -> Source:
    """The file in the form of the recipe's data."""
    nodes: Mapping[str, Any] = cfg.get("data") or {}
    node: Mapping[str, Any] = next((nodes[s] for s in ("test", "val", "train") if nodes.get(s) is not None), {})
    names = node.get("names")
    return Source(path, node.get("form") or "csv", None if names is None else tuple(names), node.get("separator"))


def _pieces(block: Columns, size: int) -> Iterator[Columns]:
    rows = iter(range(length(block)))
    while piece := list(islice(rows, size)):
        yield take(block, np.array(piece))


def _answers(
    task: ClickThrough, model: Module, arrays: Mapping[str, np.ndarray], names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    with no_grad():
        logits = model(*task.inputs(arrays)).data.astype(np.float64).reshape(len(names), -1)
    chances = 0.5 * (1 + np.tanh(0.5 * logits))
    for name, row in zip(names, chances, strict=True):
        yield {"input": name, **{label: float(p) for label, p in zip(task.labels, row, strict=True)}}


def example(task: ClickThrough, loaders: Mapping[str, Any], folder: Path) -> str:
    """A row of the test data, as a file of JSON."""
    loader = loaders.get("test") or loaders.get("val")
    dataset = getattr(loader, "dataset", None)
    if not isinstance(dataset, Dataset):
        return "ROW"
    index = 0
    inner: Any = dataset
    while hasattr(inner, "indices"):
        index, inner = int(inner.indices[index]), inner.dataset
    wanted = set(task.encoding.inputs_from)
    row = {name: value for name, value in inner.record(index).items() if name in wanted}
    (folder / "example.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return str(folder / "example.json")


__all__ = ["example", "predict"]
