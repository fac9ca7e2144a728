"""What of a net that reads goes into a bundle: a question and a paragraph in, a piece of the paragraph out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.files import write_atomic
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.runtime.tables import csv_line
from pdl.tensor import Tensor
from pdl_nlp.deploy import SAMPLES, TextDeployer
from pdl_nlp.models.base import ReadingModel
from pdl_nlp.span_extraction.loader import Windows
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.span_extraction.task import SpanExtraction


SHOWN = 3


class OfWindows(Module):
    """Tokens int64 [N, W, T], and segments or question of each window, to logits [N, W, T, 2]."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def forward(self, tokens: Tensor, other: Tensor) -> Tensor:
        n, w, t = tokens.shape
        logits = self.net(pdl.reshape(tokens, (n * w, t)), pdl.reshape(other, (n * w, other.shape[2])))
        made: Tensor = pdl.reshape(logits, (n, w, t, 2))
        return made


class SpanExtractionDeployer(TextDeployer):
    """Logits of where answers begin and end, of any number of windows of any length; the best piece afterwards."""

    task: SpanExtraction
    numbers = Windows

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        assert isinstance(model, ReadingModel)
        reading = task.reading(together=model.together)
        common = {"step": "windows", **settings, **reading._asdict()}
        other = "segments" if model.together else "question"
        n, w, t = Dim.symbol("n", 3), Dim.symbol("w", 2), Dim.symbol("t", 13)
        last = t if model.together else Dim.symbol("q", 7)
        return Deployment(
            module=OfWindows(model),
            inputs={"tokens": Spec((n, w, t), int64), other: Spec((n, w, last), int64)},
            outputs=("logits",),
            pre={name: [{**common, "gives": name}] for name in ("tokens", other)},
            post={
                "logits": [{"step": "answer_span", "max_answer": task.max_answer, "unanswerable": task.unanswerable}]
            },
            samples=self.samples(dataset),
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
            net=model,
        )

    def card(self, model: Module) -> Card:
        task = self.task
        read = f"{len(task.vocabularies['tokens']):,} {task.unit}, {task.max_length} in a window"
        script = {"squad": "SQuAD 2.0", "cmrc": "CMRC 2018"}[str(task.scoring)]
        return Card(
            title=f"{type(model).__name__}, answers out of paragraphs",
            summary=f"The piece of a paragraph that answers a question ({self.recipe.model.target}; {read}).",
            protocol=f"Exact match and F1 as the evaluation script of {script} counts them, in float32.",
            use='    session = pdl.runtime.load("model.pdl")\n    session(["a question", "a paragraph"])["answer"]\n\n'
            'or `pdl predict model.pdl "question<TAB>paragraph"`; '
            "`pdl predict model.pdl questions.csv --out answers.csv` for a file with these two columns.",
            data=self.learned_from,
        )

    def samples(self, dataset: Any) -> list[Any]:
        source = dataset.dataset if isinstance(dataset, Windows) else dataset
        if source is None or not len(source):
            made = super().samples(None)
            return [[question, paragraph] for question, paragraph in zip(made, reversed(made), strict=True)]
        rows = np.arange(min(SAMPLES, len(source))) * len(source) // min(SAMPLES, len(source))
        return [[source[int(row)][part] for part in ("question", "paragraph")] for row in rows]

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A file with the first questions of the test data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        source, parts = loaders[split].dataset.dataset, ("question", "paragraph")
        rows = [parts, *([source[row][part] for part in parts] for row in range(min(SHOWN, len(source))))]
        path = folder / "questions.csv"
        write_atomic(path, "".join(f"{csv_line(row)}\n" for row in rows))
        return shlex.quote(str(path))
