"""What the report says of a classifier of texts: classes, confusions, curves, lengths, and the worst mistakes with what
mattered in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dtype import Array
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.report import Section, bar_chart, escape, table
from pdl.runtime.steps.labels import sigmoid
from pdl.train import Evaluation, Reporter
from pdl.train.metrics import Mistake, log_softmax
from pdl.train.sections import of_classes
from pdl_nlp.classification.loader import Tokens

if TYPE_CHECKING:
    from pdl_nlp.classification.task import TextClassification

LETTERS = 400  # of a text that are shown
BINS = 20


class TextClassificationReporter(Reporter):
    """Classes, confusions, curves, calibration; how long texts are; the worst mistakes, their tokens coloured by how
    much they count for the answer."""

    task: TextClassification

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task, wrong = self.task, evaluation.details["mistakes"]
        if task.several:
            made = [Section(f"Labels ({evaluation.split})", label_table(evaluation.details["labels"], task.classes))]
        else:
            made = of_classes(evaluation, task.classes)
        if not isinstance(dataset, Tokens):
            return made
        made.append(Section(f"Tokens of a text ({evaluation.split})", lengths(dataset.whole, dataset.counts)))
        if wrong and task.net is not None:
            how = "Green tokens speak for the answer, red ones against it: the change of its log-odds without them."
            shown = "".join(self._mistake(each, dataset, task.net) for each in wrong)
            made.append(Section("Worst mistakes", f"<p>{how}</p>{shown}"))
        return made

    def _mistake(self, mistake: Mistake | tuple[float, int], data: Tokens, net: Module) -> str:
        task = self.task
        index = mistake.index if isinstance(mistake, Mistake) else mistake[1]
        text = data.dataset[index]["text"]
        made = task.tokenizer.framed([text], max_length=task.max_length)
        scores, changes = without_each(net, made.ids, task.tokenizer.unknown or 0)
        if isinstance(mistake, Mistake):
            at = mistake.predicted
            said = f"{task.classes[mistake.label]} taken for {task.classes[at]} ({mistake.p:.0%})"
        else:
            found, true = scores > 0, data.targets[index] > 0
            at = int(np.argmax(np.where(found != true, np.abs(scores), -1)))
            names = [", ".join(name for name, on in zip(task.classes, each, strict=True) if on) or "none"
                     for each in (true, found)]  # fmt: skip
            said = f"{names[0]} taken for {names[1]}; coloured for {task.classes[at]} ({sigmoid(scores[at]):.0%})"
        real = made.words >= 0
        shown = highlighted(text, made.offsets[real], changes[real, at])
        return f"<p><b>{escape(said)}</b>, text {index}<br>{shown}</p>"


def without_each(net: Module, ids: Array, unknown: int) -> tuple[Array, Array]:
    """The logits [C] of a text, and [T, C]: by how much each class's log-odds fall when a token becomes the unknown one
    (occlusion; Zeiler & Fergus, arXiv 1311.2901)."""
    rows = np.tile(ids.astype(np.int64) if len(ids) else np.zeros(1, np.int64), (len(ids) + 1, 1))
    rows[np.arange(1, len(rows)), np.arange(len(ids))] = unknown
    with evaluating(net):
        logits = net(pdl.as_tensor(rows)).numpy()
    odds = logits.astype(np.float64)
    if odds.shape[1] > 1:
        log_p = log_softmax(odds)
        odds = log_p - np.log(np.maximum(-np.expm1(log_p), 1e-12))
    return logits[0], odds[0] - odds[1:]


def highlighted(text: str, offsets: Array, weights: Array) -> str:
    """The text as HTML, tokens above 0 green and those below 0 red, the deeper the further from 0."""
    scale, at, made = float(np.abs(weights).max(initial=0)) or 1.0, 0, list[str]()
    for (begin, end), weight in zip(offsets.tolist(), weights.tolist(), strict=True):
        if begin >= LETTERS:
            break
        colour = "0,140,60" if weight > 0 else "200,30,30"
        depth = round(abs(weight) / scale * 0.6, 2)
        style = f'<span style="background:rgba({colour},{depth})">'
        made.append(f"{escape(text[at:begin])}{style}{escape(text[begin:end])}</span>")
        at = end
    rest = text[at:LETTERS] if at < LETTERS else ""
    return "".join(made) + escape(rest) + (" ..." if len(text) > max(LETTERS, at) else "")


def label_table(counts: Array, classes: Sequence[str]) -> str:
    """A row for each label: how often it is present and found, precision, recall and F1."""
    rows = []
    for name, (present, found, hits) in zip(classes, np.asarray(counts).reshape(-1, 3).tolist(), strict=True):
        precision, recall = hits / found if found else 0.0, hits / present if present else 0.0
        rows.append((name, present, found, precision, recall, 2 * hits / (present + found) if present + found else 0.0))
    return table(rows, head=("label", "texts", "found", "precision", "recall", "F1"))


def lengths(whole: Array, counts: Array) -> str:
    """A histogram of the tokens of texts, int [N], and how many texts are cut, given the tokens of each that count."""
    heights, edges = np.histogram(whole, BINS)
    spans = zip(edges, edges[1:], heights, strict=False)
    said = [[f"{int(begin)} to {int(end)} tokens", f"{count:,} texts"] for begin, end, count in spans]
    cut = float((whole > counts).mean())
    words = f"median {int(np.median(whole))}, longest {int(whole.max())}; {cut:.1%} are cut"
    return bar_chart(edges, heights.astype(np.float64), said, x_label="tokens", y_label="texts") + f"<p>{words}</p>"
