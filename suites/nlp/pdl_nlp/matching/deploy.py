"""What of a model of pairs goes into a bundle: two raw texts in, classes by name or a score out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl_nlp.deploy import LETTERS, TextDeployer
from pdl_nlp.matching.loader import Pairs, joined
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.matching.task import Matching

SHOWN = 5


class MatchingDeployer(TextDeployer):
    """Logits of pairs of texts of any length; the best classes afterwards, or of rankings the score."""

    task: Matching
    numbers = Pairs

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, n, t = self.task, Dim.symbol("n", 3), Dim.symbol("t", 7)
        settings, vocabularies, constants = held(task.tokenizer)
        step = {"step": "tokens", **settings, "max_length": task.max_length, "parts": self.columns}
        first, second = self.columns
        if joined(self.recipe):
            both = {"part": first, "pair": second}
            pre = {"tokens": [{**step, **both}], "segments": [{**step, **both, "gives": "segments"}]}
            inputs = {"tokens": Spec((n, t), int64), "segments": Spec((n, t), int64)}
        else:
            pre = {"tokens": [{**step, "part": first}], "pair": [{**step, "part": second}]}
            inputs = {"tokens": Spec((n, t), int64), "pair": Spec((n, Dim.symbol("u", 5)), int64)}
        best: dict[str, Any] = {"step": "top", "k": min(SHOWN, len(task.classes))}
        return Deployment(
            module=model,
            inputs=inputs,
            outputs=("score",) if task.ranked else ("logits",),
            pre=pre,
            post={"score": [{"step": "text_score"}]} if task.ranked else {"logits": [{"step": "softmax"}, best]},
            samples=self.samples(dataset),
            labels=task.classes,
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    @property
    def columns(self) -> list[str]:
        """What the two texts are called in files, as in the data."""
        source = self.recipe.data.source
        return ["text", "pair"] if source is None else [source.get("text", "text"), source.get("pair", "pair")]

    def samples(self, dataset: Any) -> list[Any]:
        """A few pairs of the data, spread over it; made up of tokens where there is none."""
        source = dataset.dataset if isinstance(dataset, Pairs) else dataset
        if source is None or not len(source):
            texts = super().samples(None)
            return [list(pair) for pair in zip(texts, reversed(texts), strict=True)]
        few = [source[int(row)] for row in np.linspace(0, len(source) - 1, min(8, len(source))).astype(int)]
        both = [[sample["text"], sample["pair"]] for sample in few]
        return [each for each in both if all(self.task.tokenizer.tokenize(text) for text in each)]

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The beginnings of the texts of a pair of the test data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        sample = loaders[split].dataset.dataset[0]
        both = (" ".join(sample[side][:LETTERS].split()) or "some text" for side in ("text", "pair"))
        return shlex.quote(json.dumps(dict(zip(self.columns, both, strict=True)), ensure_ascii=False))

    def card(self, model: Module) -> Card:
        task, classes = self.task, self.task.classes
        kinds = (
            "How well a text fits a query" if task.ranked else f"One of the classes {listed(classes, 20)} for a pair"
        )
        read = f"{len(task.vocabularies['tokens']):,} {task.unit}, the first {task.max_length} of a text"
        return Card(
            title=f"{type(model).__name__}, pairs of texts",
            summary=f"{kinds} ({self.recipe.model.target}; {read}).",
            protocol="One pass over each split, in float32.",
            use='    session = pdl.runtime.load("model.pdl")\n    session(["a text", "another"])\n\n'
            "or `pdl predict model.pdl pairs.csv --out answers.csv` for a file with the columns "
            f"{' and '.join(self.columns)}.",
            data=self.learned_from,
        )
