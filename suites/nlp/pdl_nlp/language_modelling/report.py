"""What the report says of a language model: what it writes, as training goes and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, escape
from pdl.train import Evaluation, Reporter
from pdl_nlp.language_modelling.loader import Windows

if TYPE_CHECKING:
    from pdl_nlp.language_modelling.task import LanguageModel

SHOWN, BEGINNING = 4, 48  # samples, and tokens that each begins with


class LanguageModelReporter(Reporter):
    """Samples of the first evaluations and of the last one, and how texts of the data go on."""

    task: LanguageModel

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task, made = self.task, list[Section]()
        if task.history:
            rows = "".join(
                f"<h4>evaluation {number}, loss {loss:.3f}</h4><pre>{escape(text)}</pre>"
                for number, loss, text in task.history
            )
            made.append(Section("What it wrote as training went", rows))
        if task.net is not None and isinstance(dataset, Windows):
            places = np.linspace(0, max(0, len(dataset.ids) - 2 * BEGINNING), SHOWN).astype(int)
            begins = [dataset.ids[at : at + BEGINNING] for at in places]
            found = task.write(task.net, begins)
            shown = "".join(
                f"<pre><b>{escape(task.tokenizer.decode(begin))}</b>{escape(text)}</pre>"
                for begin, text in zip(begins, found, strict=True)
            )
            how = "How texts of the data (bold) go on: tokens are drawn from their probabilities, temperature 0.8."
            made.append(Section(f"Samples ({evaluation.split})", f"<p>{how}</p>{shown}"))
        return made
