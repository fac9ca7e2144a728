"""What of an encoder of texts goes into a bundle: raw text in, its vector out; or the nearest of other texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl_nlp.deploy import TextDeployer
from pdl_nlp.embedding.loader import Pairs
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.embedding.task import Embedding


class EmbeddingDeployer(TextDeployer):
    """Vectors of texts [N, T] of any length."""

    task: Embedding
    numbers = Pairs

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        return Deployment(
            module=model,
            inputs={"tokens": Spec((Dim.symbol("n", 3), Dim.symbol("t", 7)), int64)},
            outputs=("vector",),
            pre={"tokens": [{"step": "tokens", **settings, "max_length": task.max_length}]},
            post={"vector": [{"step": "text_vector"}]},
            samples=self.samples(dataset),
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        task = self.task
        read = f"{len(task.vocabularies['tokens']):,} {task.unit}, the first {task.max_length} of a text"
        return Card(
            title=f"{type(model).__name__}, vectors of texts",
            summary=f"Vectors of texts, near where these mean the same ({self.recipe.model.target}; {read}).",
            protocol="Spearman's rank correlation of the cosine of two vectors with the score of the pair.",
            use='    session = pdl.runtime.load("model.pdl")\n    session("some text")["vector"]\n\n'
            'or `pdl predict model.pdl "some text" --search FILE` for the nearest lines of a file.',
            data=self.learned_from,
        )
