"""What of a click-through model goes into a bundle."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import float32, int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.runtime.fields import Number, to_plain
from pdl.train import Deployer, Recipe
from pdl_rec.data.click_file import ClickFile
from pdl_rec.data.reading import CRITEO

if TYPE_CHECKING:
    from pdl_rec.click_through.task import ClickThrough

SAMPLES, EXAMPLES = 16, 3


class ClickThroughDeployer(Deployer):
    """Logits of rows; the pipeline encodes their values before, and gives probabilities after."""

    task: ClickThrough

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, encoding, n = self.task, self.task.encoding, Dim.symbol("n", 3)
        schema = encoding.schema
        inputs = {"ids": Spec((n, schema.width), int64)} if schema.ids else {}
        inputs |= {"numbers": Spec((n, len(schema.numbers)), float32)} if schema.numbers else {}
        used = {spec.like or name for name, spec in encoding.specs.items()}
        return Deployment(
            module=model,
            inputs=inputs,
            outputs=("logits",),
            pre=steps(task, self.recipe),
            post={"logits": [{"step": "probabilities"}]},
            samples=_samples(task, dataset),
            prepare=_prepare(task),
            labels=list(task.labels),
            vocabularies={name: v for name, v in task.vocabularies.items() if name in used},
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        labels, columns = self.task.labels, self.task.encoding.inputs_from
        some = ", ".join(f"{name}=..." for name in columns[:3])
        return Card(
            title=f"{type(model).__name__}: {', '.join(labels)}",
            summary=f"The probability of {' and of '.join(labels)} for a row of {len(columns)} columns "
            f"({self.recipe.model.target}): {', '.join(columns[:40])}.",
            use="    session = pdl.runtime.load('model.pdl')\n    session({'column': 'value', ...})\n\n"
            f"or `pdl predict model.pdl --row {some}`, or a csv file of rows. A column that is not given is missing.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A few rows of the test data, as a file."""
        inner: Any = getattr(loaders.get("test") or loaders.get("val"), "dataset", None)
        rows = np.arange(EXAMPLES)
        while hasattr(inner, "indices"):
            inner, rows = inner.dataset, inner.indices[rows[rows < len(inner)]]
        if not isinstance(inner, ClickFile) or inner.source.form == "slots":
            return "ROWS.csv"
        columns = self.task.encoding.inputs_from
        with (folder / "example.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            for index in rows[rows < len(inner)].tolist():
                row = inner.record(index)
                writer.writerow([row[name] for name in columns])
        return shlex.quote(str(folder / "example.csv"))


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
    *_, part = recipe.data.splits.values()
    source = part.node
    while "datasets" in source:  # of a fold: those it is dealt from
        source = source["datasets"][0]
    if source.get("form") == "criteo":
        return {"columns": list(CRITEO), "separator": "\t"}
    names, separator = source.get("names"), source.get("separator")
    found: dict[str, Any] = {} if names is None else {"columns": list(names)}
    return found if separator is None else {**found, "separator": separator}


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
