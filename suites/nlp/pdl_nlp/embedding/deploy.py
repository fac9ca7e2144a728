"""What of an encoder of texts goes into a bundle: raw text in, its vector out; or the nearest of other texts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.train import Deployer
from pdl_nlp.embedding.loader import Pairs
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.embedding.task import Embedding

SAMPLES, LETTERS = 8, 60


class EmbeddingDeployer(Deployer):
    """Vectors of texts [N, T] of any length."""

    task: Embedding

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        return Deployment(
            module=model,
            inputs={"tokens": Spec((Dim.symbol("n", 3), Dim.symbol("t", 7)), int64)},
            outputs=("vector",),
            pre={"tokens": [{"step": "tokens", **settings, "max_length": task.max_length}]},
            post={"vector": [{"step": "text_vector"}]},
            samples=samples(task, dataset),
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

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The beginning of a text of the test data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        text = " ".join(loaders[split].dataset.dataset[0]["text"][:LETTERS].split())
        return shlex.quote(text or "some text")


def samples(task: Embedding, dataset: Any) -> list[str]:
    """A few texts of the data, spread over it; made up of tokens where there is none."""
    source = dataset.dataset if isinstance(dataset, Pairs) else dataset
    if source is None or not len(source):
        special = set(task.tokenizer.special.values())
        rng, names = np.random.default_rng(0), [name for name in task.tokenizer.tokens if name not in special] or ["?"]
        return [task.tokenizer.joined(rng.choice(names, length).tolist()) for length in (1, 2, 5, 12)]
    count = min(SAMPLES, len(source))
    texts = [source[int(row)]["text"] for row in np.arange(count) * len(source) // count]
    return [text for text in texts if task.tokenizer.tokenize(text)]
