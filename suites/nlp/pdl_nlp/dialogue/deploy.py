"""What of a model of dialogues goes into a bundle: turns in, the best of the replies that it holds out."""

from __future__ import annotations

import json
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
from pdl.nn.module import evaluating
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.train import Deployer
from pdl_nlp.dialogue.loader import Exchanges
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.dialogue.task import Dialogue

SAMPLES, TOGETHER = 8, 64


class DialogueDeployer(Deployer):
    """Vectors of turns [N, T] of any length, compared with those of replies of training."""

    task: Dialogue

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        step: dict[str, Any] = {"step": "turns", **settings, "max_length": task.max_length, "most": task.context}
        shape = Spec((Dim.symbol("n", 3), Dim.symbol("t", 7)), int64)
        return Deployment(
            module=model,
            inputs={"tokens": shape, "segments": shape},
            outputs=("vector",),
            pre={"tokens": [step], "segments": [{**step, "gives": "segments"}]},
            post={"vector": [{"step": "replies", "vocabulary": "replies"}]},
            samples=self.samples(dataset),
            vocabularies={**vocabularies, "replies": task.vocabularies["replies"]},
            constants={**constants, "vectors.replies": self.vectors(model)},
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def vectors(self, model: Module) -> Array:
        """Of the replies that the bundle holds, float16 [R, C]."""
        texts = list(self.task.vocabularies["replies"].names)
        data = Exchanges([[text] for text in texts], texts, self.task.tokenizer, self.task.max_length)
        order, found = np.argsort(data.sides["reply"][3], kind="stable"), list[Array]()
        with evaluating(model), pdl.no_grad():
            for begin in range(0, len(order), TOGETHER):
                batch = data.get_batch(order[begin : begin + TOGETHER])
                sides = (pdl.as_tensor(batch[name]) for name in ("reply", "reply_segments"))
                found.append(model(*sides).numpy())
        made = np.zeros((len(texts), found[0].shape[1]), np.float16)
        made[order] = np.concatenate(found)
        return made

    def samples(self, dataset: Any) -> list[list[str]]:
        """The turns before a few replies, spread over the data; made-up ones without data."""
        if not isinstance(dataset, Exchanges):
            texts = self.task.vocabularies["replies"].names
            return [list(texts[at : at + 2]) for at in range(min(SAMPLES, len(texts)))]
        count = min(SAMPLES, len(dataset))
        return [list(dataset.before[at]) for at in (np.arange(count) * len(dataset) // count).tolist()]

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A turn of the test data."""
        split = next(each for each in ("test", "val", "train") if each in loaders)
        turn = " ".join(loaders[split].dataset.before[0][-1].split())
        return shlex.quote(json.dumps([turn], ensure_ascii=False) if "\t" in turn else turn)

    def card(self, model: Module) -> Card:
        task = self.task
        size = len(task.vocabularies["replies"].names)
        return Card(
            title=f"{type(model).__name__}, replies to turns of a dialogue",
            summary=f"Finds the best of {size:,} replies ({self.recipe.model.target}; {task.unit}; the last "
            f"{task.context} turns, {task.max_length} tokens of them). It repeats what people said in its data.",
            protocol=f"Recall@k and MRR of the reply that was given among it and {task.candidates - 1} others of the "
            f"split, drawn with seed {task.seed}.",
            use='    session = pdl.runtime.load("model.pdl")\n    session(["Hello!", "How are you?"])["found"]\n\n'
            "or `pdl chat model.pdl`; `--search FILE` answers with lines of a file instead.",
            data=self.learned_from,
        )
