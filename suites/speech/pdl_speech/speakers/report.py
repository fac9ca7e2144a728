"""What the report says of a net that tells voices apart: curves over all thresholds, scores, speakers, worst trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.dtype import Array
from pdl.ranking import equal_error_rate
from pdl.report import Section, charts, detection_sections, figure, image_table, line_chart, table
from pdl.train import Evaluation, Reporter
from pdl_speech.data.recordings import rate_of
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.speakers.metrics import Scored
    from pdl_speech.speakers.task import SpeakerVerification

BINS = np.linspace(-1, 1, 81)


class SpeakerReporter(Reporter):
    """ROC and DET curves, the scores of both kinds of trials, the hardest speakers, the worst trials."""

    task: SpeakerVerification

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        scored, split = evaluation.details["trials"], evaluation.split
        if not 0 < scored.same.sum() < len(scored.same):
            return []
        made = [*detection_sections({"cosine": (scored.scores, scored.same)}, split), _scores(scored, split)]
        if isinstance(dataset, Dataset) and dataset.classes:
            made.append(_speakers(scored, dataset.classes, split))
            if self.task.mistakes:
                made.append(_worst(scored, dataset, self.task.mistakes))
        return made


def _scores(scored: Scored, split: str) -> Section:
    """How often which cosine is reached."""
    series = {}
    for name, kind in (("one speaker", 1), ("two speakers", 0)):
        own = scored.scores[scored.same == kind]
        shares = np.histogram(np.clip(own, -1, 1), BINS)[0] / len(own)
        name = f"{name} ({len(own):,} trials)"
        series[name] = list(zip(((BINS[1:] + BINS[:-1]) / 2).tolist(), shares.tolist(), strict=True))
    chart = line_chart(series, x_label="cosine", y_label="share of the trials")
    note = f"EER at a cosine of {scored.threshold():.3f}"
    return Section(f"Scores ({split})", charts([figure(chart, note)]))


def _speakers(scored: Scored, classes: Sequence[str], split: str) -> Section:
    """A row for each speaker, the hardest first: the EER of trials with a recording of theirs."""
    sides, rows = scored.labels[scored.pairs], []
    for label in np.unique(scored.labels).tolist():
        own = (sides == label).any(axis=1)
        scores, same = scored.scores[own], scored.same[own]
        rate = equal_error_rate(scores, same)[0]
        ends = (f(scores[same == kind], initial=start) for f, kind, start in ((np.min, 1, 1.0), (np.max, 0, -1.0)))
        rows.append((classes[label], int((scored.labels == label).sum()), rate, *map(float, ends)))
    rows.sort(key=lambda row: -np.nan_to_num(row[2], nan=-1.0))
    head = ("speaker", "recordings", "EER", "least cosine to themselves", "largest to another")
    return Section(f"Speakers ({split})", table(rows, head=head, fold=20))


def _worst(scored: Scored, dataset: Dataset, most: int) -> Section:
    """Trials whose scores are farthest on the wrong side of the threshold."""
    threshold = scored.threshold()
    wrong = np.where(scored.same > 0, threshold - scored.scores, scored.scores - threshold)
    worst = [t for t in np.argsort(-wrong, kind="stable")[:most].tolist() if wrong[t] > 0]
    rows = [[_said(scored, t), *(_cell(scored, dataset, i) for i in scored.pairs[t].tolist())] for t in worst]
    if not rows:
        return Section("Worst trials", "<p>none is on the wrong side of the threshold</p>")
    return Section("Worst trials", image_table(rows, head=["", "recording", "recording"]))


def _said(scored: Scored, trial: int) -> tuple[Array, str]:
    """A mark, and what is wrong."""
    colour = (200, 60, 60) if scored.same[trial] else (60, 90, 200)
    kind = "one speaker" if scored.same[trial] else "two speakers"
    return np.full((24, 24, 3), colour, np.uint8), f"{kind}, cosine {scored.scores[trial]:.3f}"


def _cell(scored: Scored, dataset: Dataset, index: int) -> tuple[Array, str]:
    speaker = dataset.classes[int(scored.labels[index])]
    return picture(dataset[index]["audio"], rate_of(dataset)), f"{speaker}, {scored.names[index]}"
