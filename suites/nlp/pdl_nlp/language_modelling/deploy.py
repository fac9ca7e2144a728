"""What of a language model goes into a bundle: the beginning of a text in, how it goes on out."""

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
from pdl.runtime.decoding import Writing
from pdl.train import Deployer
from pdl_nlp.language_modelling.loader import Windows, texts_of
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.language_modelling.task import LanguageModel

SAMPLES, LETTERS = 4, 40
WRITTEN = 128  # tokens of an answer, unless more are asked for


class LanguageModelDeployer(Deployer):
    """Texts of any length begin it; what follows is drawn, token by token."""

    task: LanguageModel

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task: Any = self.task
        net: Any = model
        settings, vocabularies, constants = held(task.tokenizer)
        most = max(1, net.max_length // 2)
        return Deployment(
            module=model,
            inputs={"prompt": Spec((Dim.symbol("n", 3), Dim.symbol("t", 7)), int64)},
            outputs=("tokens", "scores", "ended"),
            pre={"prompt": [{"step": "prompt", **settings, "max_length": net.max_length - most}]},
            post={"tokens": [{"step": "written_text", **settings}]},
            samples=self.samples(dataset),
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
            writing=Writing(
                ends=task.ends,
                prompt="prompt",
                pad=-1,
                options=task.options(min(most, WRITTEN)),
            ),
        )

    def samples(self, dataset: Any) -> list[str]:
        """Beginnings of a few texts, or of places in them; of made-up ones without data."""
        tokenizer = self.task.tokenizer
        source = getattr(dataset, "dataset", dataset)
        if isinstance(dataset, Windows):
            starts = np.linspace(0, max(0, len(dataset.ids) - 64), SAMPLES).astype(int)
            found = [tokenizer.decode(dataset.ids[at : at + 12]) for at in starts]
        elif source is not None:
            found = [text[:LETTERS] for text, _ in zip(texts_of(source), range(SAMPLES), strict=False)]
        else:
            special = set(tokenizer.special.values())
            names, rng = [name for name in tokenizer.tokens if name not in special], np.random.default_rng(0)
            found = [tokenizer.joined(rng.choice(names, length).tolist()) for length in (2, 5, 9)]
        return [text for text in found if tokenizer.tokenize(text)]

    def card(self, model: Module) -> Card:
        task = self.task
        net: Any = model
        return Card(
            title=f"{type(model).__name__}, a model that writes texts",
            summary=f"A language model ({self.recipe.model.target}, {sum(p.size for p in model.parameters()):,} "
            f"parameters; {task.vocabulary_note}). It writes what follows the beginning of a text, and what it writes "
            "is neither true nor anybody's opinion.",
            protocol="Perplexity and bits per character of all tokens but the first, in windows of "
            f"{task.max_length} tokens that begin {task.stride or task.max_length} after each other. It reads at most "
            f"{net.max_length} tokens.",
            use='    session = pdl.runtime.load("model.pdl")\n    session("Once upon a time")["text"]\n\n'
            'or `pdl predict model.pdl "Once upon a time" --sample --temperature 0.8`.',
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The beginning of a text of the data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        found = self.samples(loaders[split].dataset)
        return shlex.quote(" ".join(found[-1].split()) if found else "Once")
