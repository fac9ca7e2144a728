"""What of a corrector goes into a bundle: raw text in, the corrected text and its changes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.tensor import Tensor
from pdl_nlp.correction.loader import Mistakes
from pdl_nlp.deploy import TextDeployer
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.correction.task import Correction


def chosen(scores: Tensor, detect: Tensor) -> tuple[Tensor, Tensor]:
    """What a token most likely should be if it is wrong, int64 [N, T], and the probability that it is wrong and should
    be that, [N, T]; of scores [N, T, V] and logits [N, T]."""
    best = pdl.astype(pdl.argmax(scores, axis=-1), pdl.int64)
    highest = pdl.max(scores, axis=-1, keepdims=True)
    return best, pdl.sigmoid(detect) / pdl.exp(scores - highest).sum(axis=-1)


class Chosen(Module):
    """Tokens int64 [N, T] to `chosen`."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return chosen(*self.net(tokens))


class CorrectionDeployer(TextDeployer):
    """What tokens should be, of texts [N, T] of any length; as a text and a list of changes afterwards."""

    task: Correction
    numbers = Mistakes

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        unframed = {**settings, "tokenizer": {**settings["tokenizer"], "single": [["$A", 0]]}}
        return Deployment(
            module=Chosen(model),
            inputs={"tokens": Spec((Dim.symbol("n", 3), Dim.symbol("t", 7)), int64)},
            outputs=("best", "p"),
            pre={"tokens": [{"step": "tokens", **unframed, "max_length": task.max_length}]},
            post={"best": [{"step": "corrections", "p": "p", "threshold": task.threshold}]},
            samples=self.samples(dataset),
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
            net=model,
        )

    def card(self, model: Module) -> Card:
        task = self.task
        read = f"{len(task.vocabularies['tokens']):,} {task.unit}, the first {task.max_length} of a text"
        return Card(
            title=f"{type(model).__name__}, spelling correction",
            summary=f"Characters exchanged for the right ones ({self.recipe.model.target}; {read}).",
            protocol="Sentences as the tool of SIGHAN's bake-offs counts them, in float32.",
            use='    session = pdl.runtime.load("model.pdl")\n    session("some text")["corrected"]\n\n'
            'or `pdl predict model.pdl "some text"`; `pdl predict model.pdl texts.txt --out answers.csv` for a file.',
            data=self.learned_from,
        )
