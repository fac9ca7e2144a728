"""What of a tagger goes into a bundle: raw text in, its tagged pieces out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pdl.data import Sample
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl_nlp.deploy import TextDeployer
from pdl_nlp.models.rnn_tagger import Decoded, Emitted
from pdl_nlp.steps.tokens import held
from pdl_nlp.tagging.loader import Tagged

if TYPE_CHECKING:
    from pdl_nlp.tagging.task import Tagging


EMITTED = ("emissions", "transitions", "starts", "ends")


class TaggingDeployer(TextDeployer):
    """Tags of texts [N, T] of any length, decoded in the program; as pieces of the text afterwards."""

    task: Tagging
    numbers = Tagged
    forms: ClassVar[Mapping[str, str]] = {
        "emissions": "scores of tags and of their transitions, for a Viterbi of one's own; ONNX has none",
    }

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        common = {**settings, "max_length": task.max_length}
        n, t = Dim.symbol("n", 3), Dim.symbol("t", 7)
        inputs, pre = {"tokens": Spec((n, t), int64)}, {"tokens": [{"step": "tokens", **common}]}
        if task.letters:
            inputs["letters"] = Spec((n, t, task.letters), int64)
            pre["letters"] = [{"step": "letters", **common, "letters": "letters", "width": task.letters}]
            vocabularies = {**vocabularies, "letters": task.vocabularies["letters"]}
        spans = {"step": "spans", "scheme": task.tags.scheme, **({"scores": "scores"} if task.scores else {})}
        post = {"tags": [{"step": "marks", "marks": task.marks} if task.marks else spans]}
        outputs: tuple[str, ...] = ("tags", "scores") if task.scores else ("tags",)
        module: Module = Decoded(model, task.tags.forbidden, scores=task.scores)
        if self.chosen == "emissions":
            module, outputs, post = Emitted(model, task.tags.forbidden), EMITTED, {}
        return Deployment(
            module=module,
            inputs=inputs,
            outputs=outputs,
            pre=pre,
            post=post,
            samples=self.samples(dataset),
            labels=task.classes,
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
            net=model,
        )

    def card(self, model: Module) -> Card:
        task = self.task
        kinds = task.tags.kinds
        what = (
            "Words and their tags"
            if task.segment
            else "A tag for each token"
            if task.tags.scheme == "none"
            else "Spans"
        )
        read = f"{len(task.vocabularies['tokens']):,} {task.kind}, the first {task.max_length} of a text"
        return Card(
            title=f"{type(model).__name__}, {len(task.classes)} tags",
            summary=f"{what} ({listed(kinds, 20)}) of a text ({self.recipe.model.target}; {read}).",
            protocol="One pass over each split, in float32; of spans F1 as conlleval counts it.",
            use='    session = pdl.runtime.load("model.pdl")\n    session("some text")["spans"]\n\n'
            'or `pdl predict model.pdl "some text"`; `pdl predict model.pdl texts.txt --out answers.csv` for a file.',
            data=self.learned_from,
        )

    def text_of(self, sample: Sample) -> str:
        return self.task.text_of(sample)
