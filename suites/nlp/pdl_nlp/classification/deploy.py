"""What of a classifier of texts goes into a bundle: raw text in, classes by name out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl_nlp.classification.loader import Tokens
from pdl_nlp.deploy import TextDeployer
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.classification.task import TextClassification

SHOWN = 5


class TextClassificationDeployer(TextDeployer):
    """Logits of texts [N, T] of any length; the five best classes afterwards, or all labels from 0.5 on."""

    task: TextClassification
    numbers = Tokens

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        source = self.recipe.data.source
        column = "text" if source is None else source.get("text", "text")
        tokens = {"step": "tokens", **settings, "max_length": task.max_length, "part": column}
        best: dict[str, Any] = {"step": "top", "k": min(SHOWN, len(task.classes))}
        post = [{"step": "sigmoid"}, {"step": "threshold"}] if task.several else [{"step": "softmax"}, best]
        return Deployment(
            module=task.answering(model),
            inputs={"tokens": Spec((Dim.symbol("n", 3), Dim.symbol("t", 7)), int64)},
            outputs=("logits",),
            pre={"tokens": [tokens]},
            post={"logits": post},
            samples=self.samples(dataset),
            labels=task.classes,
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        task, classes = self.task, self.task.classes
        kinds = "Any number of the classes" if task.several else "One of the classes"
        read = f"{len(task.vocabularies['tokens']):,} {task.unit}, the first {task.max_length} of a text"
        return Card(
            title=f"{type(model).__name__}, {len(classes)} classes of texts",
            summary=f"{kinds} {listed(classes, 20)} for a text ({self.recipe.model.target}; {read}).",
            protocol="One pass over each split, in float32.",
            use='    session = pdl.runtime.load("model.pdl")\n    session("some text")\n\n'
            'or `pdl predict model.pdl "some text"`; `pdl predict model.pdl texts.csv --out answers.csv` for a file.',
            data=self.learned_from,
        )
