"""What of a click-through model goes into a bundle."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import float32, int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.runtime.fields import Number, to_plain
from pdl.train import Recipe
from pdl_rec.data.click_file import ClickFile
from pdl_rec.data.reading import CRITEO

if TYPE_CHECKING:
    from pdl_rec.ctr.task import ClickThrough

SAMPLES, EXAMPLES = 16, 3


def steps(task: ClickThrough, recipe: Recipe) -> dict[str, list[dict[str, Any]]]:
    """The first step of each input: which fields it is made of, and how files of rows are written."""
    encoding = task.encoding
    parts: dict[str, dict[str, Any]] = {"ids": {}, "numbers": {}}
    for name, encoder in encoding.fields.encoders.items():
        part = "numbers" if isinstance(encoder, Number) and encoder.edges is None else "ids"
        vocabulary = encoding.specs[name].like or name
        parts[part][name] = to_plain(encoder, encoding.fields.column(name), vocabulary)
    written = {"known": encoding.inputs_from, **_written(recipe)}
    return {part: [{"step": "fields", "part": part, "fields": each, **written}] for part, each in parts.items() if each}


def _written(recipe: Recipe) -> dict[str, Any]:
    """How files in the form of the recipe's data are read, beyond csv with a header."""
    *_, source = recipe.data.splits.values()
    if source.get("form") == "criteo":
        return {"columns": list(CRITEO), "separator": "\t"}
    names, separator = source.get("names"), source.get("separator")
    found: dict[str, Any] = {} if names is None else {"columns": list(names)}
    return found if separator is None else {**found, "separator": separator}


def deployment(
    task: ClickThrough,
    model: Module,
    recipe: Recipe,
    *,
    dataset: Any = None,
    metrics: Mapping[str, float | None] | None = None,
    licence: str = "",
) -> Deployment:
    """Logits of rows; the pipeline finds the numbers of their names before, and tells probabilities after."""
    encoding, schema = task.encoding, task.encoding.schema
    n = Dim.symbol("n", 3)
    inputs = {"ids": Spec((n, schema.width), int64)} if schema.ids else {}
    inputs |= {"numbers": Spec((n, len(schema.numbers)), float32)} if schema.numbers else {}
    used = {spec.like or name for name, spec in encoding.specs.items()}
    return Deployment(
        module=model,
        inputs=inputs,
        outputs=("logits",),
        pre=steps(task, recipe),
        post={"logits": [{"step": "probabilities"}]},
        samples=_samples(task, dataset),
        prepare=_prepare(task),
        labels=list(task.labels),
        vocabularies={name: v for name, v in task.vocabularies.items() if name in used},
        card=_card(task, model, recipe, metrics or {}, licence),
        licence=licence,
        about={**recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
    )


def _prepare(task: ClickThrough) -> Callable[[Any], dict[str, Any]]:
    fields = task.encoding.fields
    return lambda row: {name: array[0] for name, array in fields.encode([row]).items()}


def _samples(task: ClickThrough, dataset: Any) -> list[dict[str, Any]]:
    """A few rows of the data, or of names that the vocabularies have."""
    inner, rows = dataset, np.arange(SAMPLES)
    while hasattr(inner, "indices"):
        inner, rows = inner.dataset, inner.indices[rows[rows < len(inner)]]
    wanted = set(task.encoding.inputs_from)
    if isinstance(inner, ClickFile):
        found = [inner.record(int(i)) for i in rows[rows < len(inner)]]
        return [{name: value for name, value in row.items() if name in wanted} for row in found]
    rng = np.random.default_rng(0)
    return [{name: _made_up(task, name, rng) for name in wanted} for _ in range(4)]


def _made_up(task: ClickThrough, column: str, rng: np.random.Generator) -> Any:
    encoding = task.encoding
    name = next(each for each in encoding.specs if encoding.fields.column(each) == column)
    spec = encoding.specs[name]
    if not spec.is_text:
        return float(np.round(rng.normal(), 3))
    names: Sequence[str] = task.vocabularies.get(spec.like or name) or ["a", "b", "c"]
    return str(names[int(rng.integers(len(names)))])


def _card(task: ClickThrough, model: Module, recipe: Recipe, metrics: Mapping[str, float | None], licence: str) -> str:
    """The model card, in markdown."""
    source = recipe.data.splits["train"]
    rows = [
        f"| {k} | {'-' if v is None else f'{v:.4f}'} |" for k, v in metrics.items() if k.startswith(("test/", "val/"))
    ]
    columns = task.encoding.inputs_from
    some = ", ".join(f"{name}=..." for name in columns[:3])
    return "\n".join([
        f"# {type(model).__name__}: {', '.join(task.labels)}",
        "",
        f"The probability of {' and of '.join(task.labels)} for a row of {len(columns)} columns "
        f"({recipe.model.target}): {', '.join(columns[:40])}.",
        "",
        "## Data",
        "",
        f"Trained on {source.get('path', 'data that the recipe names')}; config.yaml in this bundle holds the whole "
        "recipe, with splits and fields.",
        "",
        "## Metrics",
        "",
        *(["| metric | value |", "|---|---|", *rows] if rows else ["Not measured."]),
        "",
        "## Licence",
        "",
        licence or "Not stated: ask whoever gave you this file.",
        "",
        "## Use",
        "",
        "    session = pdl.runtime.load('model.pdl')",
        "    session({'column': 'value', ...})",
        "",
        f"or `pdl predict model.pdl --row {some}`, or a csv file of rows. A column that is not given is missing.",
    ]) + "\n"  # fmt: skip


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


__all__ = ["deployment", "example", "steps"]
