"""What of a classifier goes into a bundle: how inputs become numbers, and classes of scores."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data.pipeline import deployed_steps, prepares
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card, png
from pdl.runtime.fields import Number, to_plain
from pdl.train import Deployer
from pdl.train.task import first_samples

if TYPE_CHECKING:
    from pdl_quantum.classifier.task import QuantumClassifier

SAMPLES, EXAMPLES = 8, 3


class ClassifierDeployer(Deployer):
    """Scores of rows or images; softmax and the best classes afterwards."""

    task: QuantumClassifier

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, batch = self.task, Dim.symbol("n", 3)
        samples: Sequence[Any]
        if task.columns:
            name, spec, steps = "numbers", Spec((batch, len(task.columns)), float32), [row_step(task)]
            prepare, samples = _prepared_rows(task), _rows(task, dataset)
        else:
            transforms = self.recipe.data.transforms(training=False)
            name, prepare = "image", prepares(transforms)
            steps = [{"step": "image", "mode": task.mode or "gray"}, *deployed_steps(transforms)]
            samples = _images(dataset, 1 if task.mode == "gray" else 3)
            spec = Spec((batch, *prepare(samples[0])["image"].shape), float32)
        return Deployment(
            module=model,
            inputs={name: spec},
            outputs=("scores",),
            pre={name: steps},
            post={"scores": [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]},
            samples=samples,
            prepare=prepare,
            labels=task.classes,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        classes = self.task.classes
        row = "a row (`session({'x': 0.1, ...})`), or `pdl predict model.pdl --row x=0.1,...`, or a csv file of rows"
        image = "an image (`session('digit.png')`), or `pdl predict model.pdl digit.png`"
        return Card(
            title=f"{type(model).__name__}, {len(classes)} classes",
            summary=f"Classes {', '.join(classes[:20])}, by the simulated circuits of {self.recipe.model.target}.",
            protocol="All samples of a split, exact expectations (no shots).",
            use=f"`session = pdl.runtime.load('model.pdl')` takes {row if self.task.columns else image}.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """An image, or a few rows, of the test data as a file."""
        loader: Any = loaders.get("test") or loaders.get("val") or loaders.get("train")
        if loader is None:
            return "INPUT"
        path = folder / ("example.csv" if self.task.columns else "example.png")
        if not self.task.columns:
            path.write_bytes(png(loader.dataset[0]["image"]))
            return shlex.quote(str(path))
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, self.task.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(_rows(self.task, loader.dataset)[:EXAMPLES])
        return shlex.quote(str(path))


def row_step(task: QuantumClassifier) -> dict[str, Any]:
    """The step that makes the model's numbers of a row."""
    scaling = zip(task.columns, task.scaling.shift.tolist(), task.scaling.factor.tolist(), strict=True)
    fields = {name: to_plain(Number(mean=shift, std=factor), name, None) for name, shift, factor in scaling}
    return {"step": "fields", "part": "numbers", "fields": fields, "known": task.columns, "complete": True}


# -- rows --------------------------------------------------------------------------------------------------------------
def _rows(task: QuantumClassifier, dataset: Any) -> list[dict[str, Any]]:
    """A few rows of the data as people write them; made up ones in the range of the columns where there is none."""
    if dataset is not None and len(dataset):
        values = [dataset[i]["features"] for i in range(min(SAMPLES, len(dataset)))]
    else:
        random_values = np.random.default_rng(0).uniform(-1, 1, (SAMPLES, len(task.columns)))
        values = list(random_values * task.scaling.factor + task.scaling.shift)
    return [dict(zip(task.columns, map(float, each), strict=True)) for each in values]


def _prepared_rows(task: QuantumClassifier) -> Callable[[Any], dict[str, Any]]:
    def prepare(row: Mapping[str, float]) -> dict[str, Any]:
        values = np.array([row[name] for name in task.columns])
        return {"numbers": task.scaling(values)}

    return prepare


# -- images ------------------------------------------------------------------------------------------------------------
def _images(dataset: Any, channels: int) -> Sequence[np.ndarray]:
    if dataset is not None and len(dataset):
        few = first_samples(dataset, min(SAMPLES, len(dataset)))
        return [few[i]["image"] for i in range(len(few))]
    random_values = np.random.default_rng(0).integers(0, 256, (4, 8, 8, channels))
    return list(random_values.astype(np.uint8))
