"""What of a net that finds fields goes into a bundle."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import float32, int64
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.train import Deployer

if TYPE_CHECKING:
    from pdl_ocr.extraction.task import InformationExtraction

SAMPLES = 4


class ExtractionDeployer(Deployer):
    """Lines of a page in, the values of its fields out."""

    task: InformationExtraction

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        task = self.task
        n, p = Dim.symbol("n", 3), Dim.symbol("p", 8)
        common = {"step": "page_lines", "width": task.width}
        return Deployment(
            module=model,
            inputs={"characters": Spec((n, p, task.width), int64), "boxes": Spec((n, p, 4), float32)},
            outputs=("logits",),
            pre={name: [{**common, "gives": name}] for name in ("characters", "boxes")},
            post={"logits": [{"step": "field_values", **task.step_arguments}]},
            samples=self.samples(dataset),
            vocabularies={"characters": task.vocabularies["characters"]},
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
            net=model,
        )

    def samples(self, dataset: Any) -> list[Any]:
        """Lines of a few pages, spread over the data; made up where there is none."""
        if dataset is None or not len(dataset):
            from pdl.runtime.steps import Resources
            from pdl_ocr.steps.fields import PageLines

            step = PageLines("characters")
            step.bind(Resources([], {"characters": self.task.vocabularies["characters"]}, {}))
            return step.samples(np.random.default_rng(0))
        rows = np.unique(np.arange(SAMPLES) * len(dataset) // SAMPLES)
        return [_plain(dataset[int(row)]) for row in rows]

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A file with the lines of a page of the test data, written beside the model."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        file = folder / "page.json"
        file.write_text(json.dumps(_plain(loaders[split].dataset[0]), ensure_ascii=False) + "\n", encoding="utf-8")
        return shlex.quote(str(file))

    def card(self, model: Module) -> Card:
        task = self.task
        return Card(
            title=f"{type(model).__name__}, {len(task.fields)} fields",
            summary=f"Finds {listed(task.fields, 20)} in the lines of a page, by what they say and where they stand.",
            protocol="One pass over each split, in float32, on the lines as they are given. F1 of all fields together: "
            "a value is right if its letters and digits are those of the label; exact: if every character is.",
            use='    session = pdl.runtime.load("model.pdl")\n    session({"lines": [{"text", "polygon"}, ...]})\n\n'
            "or `pdl predict model.pdl pages.json` for what a reader of pages wrote with `--json`; or as the "
            "part `extract` of a `pdl_ocr.Reader`.",
            data=self.learned_from,
        )


def _plain(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "lines": [{"text": line["text"], "polygon": np.asarray(line["polygon"]).tolist()} for line in sample["lines"]]
    }
