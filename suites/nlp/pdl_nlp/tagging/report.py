"""What the report says of a tagger: kinds of spans, confusions of tags, lengths, and the worst mistakes with their
tokens coloured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.report import Section, escape, table
from pdl.train import Evaluation, Reporter
from pdl_nlp.classification.report import label_table, lengths
from pdl_nlp.schemes import Tags
from pdl_nlp.tagging.loader import Tagged, pieces
from pdl_nlp.tagging.metrics import WrongSentence

if TYPE_CHECKING:
    from pdl_nlp.tagging.task import Tagging

CONFUSIONS = 25
TOKENS = 120  # of a sentence that are shown


class TaggingReporter(Reporter):
    """Kinds of spans, confusions, lengths, the worst mistakes."""

    task: Tagging

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task, details, made = self.task, evaluation.details, list[Section]()
        if "spans" in details and task.tags.kinds:
            shown = label_table(details["spans"][:-1], [kind or "span" for kind in task.tags.kinds])
            made.append(Section(f"Spans ({evaluation.split})", shown.replace("<th>texts", "<th>spans")))
        made.append(Section(f"Confusions of tags ({evaluation.split})", confusions(details["confusions"], task.tags)))
        if not isinstance(dataset, Tagged):
            return made
        made.append(Section(f"Tokens of a text ({evaluation.split})", lengths(np.diff(dataset.starts), dataset.counts)))
        if wrong := details["mistakes"]:
            how = "Tokens with a wrong tag are red, with the tag found and the right one; others that are tagged green."
            shown = "".join(self._mistake(each, dataset) for each in wrong)
            made.append(Section("Worst mistakes", f"<p>{how}</p>{shown}"))
        return made

    def _mistake(self, mistake: WrongSentence, data: Tagged) -> str:
        source = data.dataset
        tokens, names = pieces(source[mistake.sentence], source.classes, self.task.segment)
        found = [self.task.classes[tag] for tag in mistake.found.tolist()]
        wrong = sum(a != b for a, b in zip(found, names, strict=False))
        said = f"{wrong} of {len(tokens)} tags, loss {mistake.loss:.1f}, sentence {mistake.sentence}"
        between = "" if self.task.kind == "characters" else " "
        return f"<p><b>{escape(said)}</b><br>{between.join(highlighted(tokens, found, names))}</p>"


def highlighted(tokens: list[str], found: list[str], names: list[str]) -> list[str]:
    """Each token as HTML: red where its tag is wrong, green where it is right and not O."""
    made = []
    for token, ours, right in list(zip(tokens, found, names, strict=False))[:TOKENS]:
        if ours != right:
            style = '<span style="background:rgba(200,30,30,0.35)">'
            made.append(f"{style}{escape(token)}<sub>{escape(ours)} ({escape(right)})</sub></span>")
        elif right != "O":
            made.append(f'<span style="background:rgba(0,140,60,0.2)">{escape(token)}</span>')
        else:
            made.append(escape(token))
    return [*made, "..."] if len(tokens) > TOKENS else made


def confusions(counts: Array, tags: Tags) -> str:
    """The tags that are most often taken for another."""
    wrong = np.array(counts)
    total = np.maximum(wrong.sum(axis=1), 1)
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSIONS]
    places = [divmod(int(at), len(tags.names)) for at in order]
    rows = [
        (tags.names[a], tags.names[b], int(wrong[a, b]), float(wrong[a, b] / total[a]))
        for a, b in places
        if wrong[a, b]
    ]
    if not rows:
        return "<p>none</p>"
    return table(rows, head=("tag", "taken for", "tokens", "share of the tag"))
