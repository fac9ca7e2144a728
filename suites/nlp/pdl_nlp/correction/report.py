"""What the report says of a corrector: counts, mistakes that are often missed, and the worst sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, escape, table
from pdl.train import Evaluation, Reporter
from pdl_nlp.classification.report import lengths
from pdl_nlp.correction.loader import Mistakes
from pdl_nlp.correction.metrics import WrongCorrection

if TYPE_CHECKING:
    from pdl_nlp.correction.task import Correction


class CorrectionReporter(Reporter):
    """Sentences and characters, lengths, the worst mistakes."""

    task: Correction

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        counts, details = evaluation.details["counts"], evaluation.details
        rows = [(of, name, *counts[of][name].tolist()) for of in ("sentences", "characters") for name in counts[of]]
        head = ("of", "what", "hits", "false alarms", "missed")
        made = [Section(f"Corrections ({evaluation.split})", table(rows, head=head))]
        if not isinstance(dataset, Mistakes):
            return made
        whole = np.diff(np.append(dataset.starts, len(dataset.ids) - 1))
        made.append(Section(f"Tokens of a text ({evaluation.split})", lengths(whole, dataset.counts)))
        if wrong := details["mistakes"]:
            how = "What was changed rightly is green, wrongly red; mistakes that were missed are brown."
            made.append(Section("Worst mistakes", f"<p>{how}</p>{''.join(map(self._mistake, wrong))}"))
        return made

    def _mistake(self, mistake: WrongCorrection) -> str:
        names = self.task.tokenizer.tokens
        texts = [[names[number] for number in part.tolist()] for part in mistake[2:]]
        said = f"sentence {mistake.sentence}, loss {mistake.loss:.1f}"
        return f"<p><b>{escape(said)}</b><br>{highlighted(*texts)}</p>"


def highlighted(tokens: list[str], found: list[str], right: list[str]) -> str:
    """Tokens as HTML: those that were changed with what they were, those that are wrong with what is right."""
    made = []
    for token, ours, own in zip(tokens, found, right, strict=True):
        if token == ours == own:
            made.append(escape(ours))
            continue
        tint = "0,140,60,0.3" if ours == own else "150,110,0,0.4" if ours == token else "200,30,30,0.35"
        note = token if ours == own else f"{token}, {own}" if ours != token else own
        made.append(f'<span style="background:rgba({tint})">{escape(ours)}<sub>{escape(note)}</sub></span>')
    return "".join(made)
