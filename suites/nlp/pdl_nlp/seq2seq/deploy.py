"""What of a net that writes goes into a bundle: raw text in, the text that is written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.runtime.decoding import Writing
from pdl_nlp.deploy import TextDeployer
from pdl_nlp.seq2seq.loader import Translations, marks
from pdl_nlp.steps.tokens import held

if TYPE_CHECKING:
    from pdl_nlp.seq2seq.task import Seq2Seq


class Seq2SeqDeployer(TextDeployer):
    """Texts [N, T] of any length are read once, and a search writes token by token; texts again afterwards."""

    task: Seq2Seq
    numbers = Translations

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        settings, vocabularies, constants = held(task.tokenizer)
        begin, end, pad = marks(task.tokenizer)
        sign = task.tokenizer.special["sep"]
        read = {**settings, "tokenizer": {**settings["tokenizer"], "single": [["$A", 0], [sign, 0]]}}
        return Deployment(
            module=model,
            inputs={"tokens": Spec((Dim.symbol("n", 3), Dim.symbol("s", 7)), int64)},
            outputs=("tokens", "scores", "ended"),
            pre={"tokens": [{"step": "tokens", **read, "max_length": task.max_length}]},
            post={"tokens": [{"step": "written_text", **settings, "strip": True}]},
            writing=Writing(ends=(end,), begin=(begin,), pad=pad, options=task.options(task.beams)),
            samples=self.samples(dataset),
            vocabularies=vocabularies,
            constants=constants,
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        task = self.task
        read = f"{len(task.vocabularies['tokens']):,} {task.unit}, the first {task.max_length} of a text"
        how = "greedily" if task.beams == 1 else f"with {task.beams} hypotheses"
        return Card(
            title=f"{type(model).__name__}, texts for texts",
            summary=f"Writes a text for one that it reads ({self.recipe.model.target}; {read}), token by token, {how}.",
            protocol=f"BLEU (tokens {task.scoring}) and chrF2 as sacrebleu counts them, ROUGE-L, in float32.",
            use='    session = pdl.runtime.load("model.pdl")\n    session("some text")["text"]\n\n'
            'or `pdl predict model.pdl "some text"`; `pdl predict model.pdl texts.txt --out answers.csv` for a file.',
            data=self.learned_from,
        )
