"""What of vectors of words goes into a bundle: words in, the words nearest to them out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import Array, int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.tensor import Tensor
from pdl_nlp.deploy import TextDeployer
from pdl_nlp.models.word2vec import Word2Vec
from pdl_nlp.steps.tokens import held
from pdl_nlp.vectors import table_of
from pdl_nlp.word_vectors.loader import Windows

if TYPE_CHECKING:
    from pdl_nlp.word_vectors.task import WordVectors

NEAREST, WORDS = 10, {"one": "word", "many": "words"}
NONE = 1e-12  # the length of what has no vector


class Nearest(Module):
    """Tokens int64 [N, T], and their letters, to the cosine of the mean of their vectors with that of every token,
    float32 [N, V + 1]: column i + 1 is token i. What is no answer is -inf: the words themselves, padding, the unknown
    token, and everything where no word has a vector."""

    table: Tensor

    def __init__(self, net: Word2Vec, table: Array) -> None:
        self.net = net
        lengths = np.linalg.norm(table, axis=1).astype(np.float32)
        self.lengths = np.maximum(lengths, NONE)
        if net.letters:  # otherwise these are the vectors of words that the net has
            self.register_buffer("table", pdl.Tensor(table))

    def forward(self, tokens: Tensor, letters: Tensor | None = None) -> Tensor:
        total = self.net(tokens, letters).sum(axis=1)
        length = pdl.norm(total, axis=-1, keepdims=True)
        table = self.table if self.net.letters else self.net.words.weight
        found = pdl.matmul(total / pdl.maximum(length, NONE), pdl.swapaxes(table, 0, 1)) / pdl.as_tensor(self.lengths)
        asked = pdl.equal(pdl.expand_dims(tokens, axis=2), pdl.arange(self.net.vocab_size))
        own = pdl.astype(asked, pdl.float32).sum(axis=1)
        answers = pdl.equal(own, 0) & pdl.greater(length, 0) & pdl.greater(pdl.as_tensor(self.lengths), NONE)
        found = pdl.where(answers, found, float("-inf"))
        return pdl.concat([found[:, :1] * 0.0, found], axis=1)


class WordVectorsDeployer(TextDeployer):
    """The words nearest to one, or to the mean of several."""

    task: WordVectors
    numbers = Windows

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        assert isinstance(model, Word2Vec)
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        common = {**settings, "max_length": task.length}
        n, t = Dim.symbol("n", 3), Dim.symbol("t", 7)
        inputs, pre = {"tokens": Spec((n, t), int64)}, {"tokens": [{"step": "tokens", **common}]}
        if task.letters:
            inputs["letters"] = Spec((n, t, task.letters), int64)
            spelled = {"letters": "letters", "width": task.letters, "lower": task.lower}
            pre["letters"] = [{"step": "letters", **common, **spelled}]
            vocabularies = {**vocabularies, "letters": task.vocabularies["letters"]}
        return Deployment(
            module=Nearest(model, table_of(model, task.tokenizer.tokens, task.speller)),
            inputs=inputs,
            outputs=("similarity",),
            pre=pre,
            post={"similarity": [{"step": "top_names", "vocabulary": "tokens", "k": NEAREST, **WORDS}]},
            samples=self.samples(dataset),
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
            net=model,
        )

    def samples(self, dataset: Any) -> list[str]:
        """Words: the texts may be a stream."""
        return super().samples(None)

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A word that is frequent."""
        names = [name for name in self.task.tokenizer.tokens[2:1000] if name.isalpha()]
        return shlex.quote(max(names, key=len, default="word"))

    def card(self, model: Module) -> Card:
        names = self.task.tokenizer.tokens
        return Card(
            title=f"{type(model).__name__}, vectors of words",
            summary=f"The words nearest to one, or to the mean of several, by cosine; of {len(names):,} words.",
            protocol="AUC: the share of contexts that score above a word drawn as none; of the run, not of this file.",
            use='    session = pdl.runtime.load("model.pdl")\n    session("some words")["words"]\n\n'
            "or `pdl predict model.pdl WORD`; `task.vectors=RUN` begins other tasks on texts with them.",
            data=self.learned_from,
        )
