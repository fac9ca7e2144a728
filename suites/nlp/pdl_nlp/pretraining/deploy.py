"""What of an encoder goes into a bundle: a text with masks in, the most likely tokens for each mask out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.tensor import Tensor
from pdl_nlp.deploy import LETTERS, SAMPLES, TextDeployer
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.pretraining.task import MaskedLanguageModel


class Found(Module):
    """Tokens [N, T] and positions [N, M] to log p of all tokens [N, M, vocabulary]."""

    def __init__(self, net: Any) -> None:
        self.net = net

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return pdl.log_softmax(self.net(tokens, positions), axis=-1)


class MaskedLanguageModelDeployer(TextDeployer):
    """Tokens of texts [N, T] of any length, at positions [N, M]."""

    task: MaskedLanguageModel

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        common = {**settings, "max_length": task.max_length, "masks": True}
        n = Dim.symbol("n", 3)
        return Deployment(
            module=Found(model),
            inputs={"tokens": Spec((n, Dim.symbol("t", 7)), int64), "positions": Spec((n, Dim.symbol("m", 2)), int64)},
            outputs=("scores",),
            pre={"tokens": [{"step": "tokens", **common}], "positions": [{"step": "masks", **common}]},
            post={"scores": [{"step": "fill"}]},
            samples=self.samples(dataset),
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
            net=model,
        )

    def samples(self, dataset: Any) -> list[str]:
        """Texts in which a token in the middle is masked: beginnings of the data's sequences, or made-up ones."""
        task, tokenizer = self.task, self.task.tokenizer
        mask, rng = str(tokenizer.special["mask"]), np.random.default_rng(0)
        source = getattr(dataset, "dataset", dataset)
        texts = [] if source is None else [text for text, _ in zip(task.texts(source), range(SAMPLES), strict=False)]
        most = min(LETTERS, task.max_length // 2)
        found = [tokenizer.tokenize(text)[:most] for text in texts]
        if not any(found):
            names = [name for name, kept in zip(tokenizer.tokens, task.ordinary, strict=True) if kept] or ["?"]
            found = [rng.choice(names, length).tolist() for length in (1, 2, 3)]
        parts = ((each, len(each) // 2) for each in found if each)
        return [f"{tokenizer.joined(e[:at])} {mask} {tokenizer.joined(e[at + 1 :])}".strip() for e, at in parts]

    def card(self, model: Module) -> Card:
        task = self.task
        read = f"{len(task.vocabularies['tokens']):,} {task.unit}, the first {task.max_length} of a text"
        return Card(
            title=f"{type(model).__name__}, an encoder of texts",
            summary=f"An encoder that was pretrained to find masked tokens ({self.recipe.model.target}; masking: "
            f"{task.masking}; {read}). Other tasks begin with it: `model.pretrained=model.pdl`.",
            protocol=f"Accuracy and perplexity at the masked positions ({task.mask_share:.0%} of the tokens).",
            use='    session = pdl.runtime.load("model.pdl")\n'
            f'    session("some {task.tokenizer.special["mask"]} text")["masks"]\n\n'
            f'or `pdl predict model.pdl "some {task.tokenizer.special["mask"]} text" --topk 3`.',
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A text with a mask."""
        import shlex

        split = next(each for each in ("test", "val", "train") if each in loaders)
        return shlex.quote(self.samples(loaders[split].dataset)[0])
