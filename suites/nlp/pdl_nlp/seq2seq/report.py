"""What the report says of a net that writes: samples, best and worst, as training went, and what it attended to."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dtype import Array
from pdl.nn.module import evaluating
from pdl.report import Section, escape, table
from pdl.train import Evaluation, Reporter
from pdl.train.classical import spread
from pdl_nlp.seq2seq.loader import Translations, marks
from pdl_nlp.seq2seq.metrics import Written
from pdl_nlp.written import bleu, chrf

if TYPE_CHECKING:
    from pdl_nlp.seq2seq.task import Seq2Seq

EDGES = (1, 6, 11, 16, 21, 31, 51, 1 << 30)
PICTURES = 4
CELL = 18  # pixels of a weight


class Seq2SeqReporter(Reporter):
    """Scores by length, samples with their references, samples of every evaluation in training, and attention."""

    task: Seq2Seq

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        found: list[Written] = evaluation.details["written"]
        made = [Section(f"Scores by length ({evaluation.split})", self._lengths(found))]
        scores = [chrf([each.written], [each.target]) for each in found]
        order = np.argsort(scores, kind="stable")[: self.task.shown].tolist()
        drawn = spread(len(found), self.task.shown).tolist()
        for title, rows in ((f"Samples ({evaluation.split})", drawn), ("Furthest from their references", order)):
            made.append(Section(title, samples([(found[row], scores[row]) for row in rows])))
        if self.task.history:
            made.append(Section("Samples as training went", self._history()))
        if isinstance(dataset, Translations) and self.task.net is not None:
            made.append(Section(f"Attention ({evaluation.split})", self._attention(found)))
        return made

    def _lengths(self, found: list[Written]) -> str:
        sizes, rows = np.array([len(each.text.split()) for each in found]), []
        if self.task.scoring in ("zh", "char"):
            sizes = np.array([len(each.target) for each in found])
        for first, stop in pairwise(EDGES):
            kept = [each for each, size in zip(found, sizes, strict=True) if first <= size < stop]
            if kept:
                name = f"{first} and more" if stop == EDGES[-1] else f"{first} to {stop - 1}"
                written, targets = [each.written for each in kept], [each.target for each in kept]
                score = bleu(written, targets, tokens=self.task.scoring or "13a")
                ratio = score.length[0] / max(score.length[1], 1)
                rows.append((name, len(kept), score.score, chrf(written, targets), ratio))
        unit = "characters of the target" if self.task.scoring in ("zh", "char") else "words of the text"
        return table(rows, head=(unit, "texts", "BLEU", "chrF2", "length"))

    def _history(self) -> str:
        """What was written for some texts of the validation data, evaluation by evaluation."""
        made = []
        for row, one in enumerate(self.task.history[-1][1]):
            lines = [("text", one.text), ("reference", one.target)]
            lines += [(f"evaluation {number}", each[row].written) for number, each in self.task.history]
            made.append(table(lines))
        return "".join(made)

    def _attention(self, found: list[Written]) -> str:
        how = "Rows are the tokens that were written, columns those that were read; the darker, the more attention."
        drawn = [found[row] for row in spread(len(found), PICTURES).tolist()]
        return f"<p>{how}</p>" + "".join(picture(*attention(self.task, each)) for each in drawn)


def samples(rows: list[tuple[Written, float]]) -> str:
    """Texts with what is right and what was written."""
    lines = [(each.text, each.target, each.written, round(score, 1)) for each, score in rows]
    return table(lines, head=("text", "reference", "written", "chrF2"))


def attention(task: Seq2Seq, one: Written) -> tuple[list[str], list[str], Array]:
    """Tokens that are read, tokens that were written, and how much these attend to those [T, S]."""
    tokenizer, (begin, end, _) = task.tokenizer, marks(task.tokenizer)
    most = task.max_length - 1
    read, wrote = (tokenizer.encode_many([text]).ids[:most] for text in (one.text, one.written))
    with pdl.no_grad(), evaluating(task.net):
        weights = task.net.attention(*(pdl.tensor(np.array([each])) for each in ([*read, end], [begin, *wrote])))
    names = [[tokenizer.joined([tokenizer.tokens[number]]).strip() or " " for number in each] for each in (read, wrote)]
    return [*names[0], "end"], [*names[1], "end"], weights.numpy()[0]


def picture(read: list[str], wrote: list[str], weights: Array) -> str:
    """Weights [T, S] as an SVG, with names for rows and columns."""
    left, top = (7 * max(map(len, names)) + 10 for names in (wrote, read))
    size = left + CELL * len(read), top + CELL * len(wrote)
    drawn = [f'<svg width="{size[0]}" height="{size[1]}" style="font:11px sans-serif" fill="currentColor">']
    for row, name in enumerate(wrote):
        drawn.append(f'<text x="{left - 4}" y="{top + CELL * row + 13}" text-anchor="end">{escape(name)}</text>')
    for column, name in enumerate(read):
        x = left + CELL * column + 12
        drawn.append(f'<text transform="translate({x},{top - 4}) rotate(-90)">{escape(name)}</text>')
    for (row, column), weight in np.ndenumerate(weights):
        if weight > 0.02:
            place = f'x="{left + CELL * column}" y="{top + CELL * row}" width="{CELL - 1}" height="{CELL - 1}"'
            drawn.append(f'<rect {place} fill="rgba(30,90,200,{min(float(weight), 1.0):.2f})"/>')
    return "".join(drawn) + "</svg>"
