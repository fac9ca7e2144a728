"""What of a tagger goes into a bundle: raw text in, its tagged pieces out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.tensor import Tensor
from pdl.train import Deployer
from pdl_nlp.models.base import real
from pdl_nlp.steps.tokens import held
from pdl_nlp.tagging.loader import Tagged

if TYPE_CHECKING:
    from pdl_nlp.tagging.task import Tagging

SAMPLES, LETTERS = 8, 60


class Decoded(Module):
    """Tokens (and letters) to the best tags int64 [N, T] that the scheme allows, -1 behind the last one."""

    def __init__(self, net: Any, forbidden: Any) -> None:
        self.net, self.forbidden = net, forbidden

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Tensor:
        emissions = self.net(tokens) if letters is None else self.net(tokens, letters)
        lengths = pdl.astype(real(tokens).sum(axis=(1, 2)), pdl.int64)
        made: Tensor = self.net.decode(emissions, lengths, self.forbidden)
        return made


class TaggingDeployer(Deployer):
    """Tags of texts [N, T] of any length, decoded in the program; as pieces of the text afterwards."""

    task: Tagging

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
        return Deployment(
            module=Decoded(model, task.tags.forbidden),
            inputs=inputs,
            outputs=("tags",),
            pre=pre,
            post={"tags": [{"step": "spans", "scheme": task.tags.scheme}]},
            samples=samples(task, dataset),
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

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The beginning of a text of the test data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        return shlex.quote(self.task.text_of(loaders[split].dataset.dataset[0])[:LETTERS] or "some text")


def samples(task: Tagging, dataset: Any) -> list[str]:
    """A few texts of the data, spread over it; made up of tokens where there is none."""
    source = dataset.dataset if isinstance(dataset, Tagged) else dataset
    if source is None or not len(source):
        rng, names = np.random.default_rng(0), task.tokenizer.tokens[2:] or ["?"]
        return [task.tokenizer.joined(rng.choice(names, length).tolist()) for length in (1, 2, 5, 12)]
    count = min(SAMPLES, len(source))
    texts = [task.text_of(source[int(row)]) for row in np.arange(count) * len(source) // count]
    return [text for text in texts if task.tokenizer.tokenize(text)]
