"""What the report says of a net that embeds images: what was found for queries, curves, scores, and a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.data.transforms.numeric import displayed
from pdl.dtype import Array
from pdl.report import Section, escape, image_table, picture
from pdl.train import Evaluation, Reporter
from pdl.train.embeddings import Neighbours, Trials
from pdl.train.sections import of_trials
from pdl_cv.classification.report import small
from pdl_cv.retrieval.check import CALLED
from pdl_cv.steps.nearest import boxed, framed

if TYPE_CHECKING:
    from pdl_cv.retrieval.task import Retrieval

SIDE = 96  # pixels of an image on the page, at most about so many
SHOWN = 6  # nearest images of a query
MAP, MARK, MAPPED = 720, 32, 240  # pixels of the map and of an image on it, and how many images it has


class RetrievalReporter(Reporter):
    """Queries with what is nearest to them, ROC and DET curves, scores, the hardest classes, the worst trials, and the
    embeddings of some classes in a plane."""

    task: Retrieval

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        trials = evaluation.observers.get("trials")
        if not isinstance(trials, Trials) or not len(evaluation.details["trials"].labels):
            return []
        made = of_trials(evaluation, dataset, CALLED, _drawn, self.task.mistakes)
        if not isinstance(dataset, Dataset) or not self.task.mistakes:
            return made
        queries = _queries(trials.neighbours, dataset, self.task.mistakes, evaluation.split)
        return [*queries, *made, _map(trials, dataset, evaluation.split)]


def _queries(found: Neighbours, dataset: Dataset, most: int, split: str) -> list[Section]:
    """Queries whose nearest image is of another class, the surest first; and as many that are spread over the rest."""
    queries = np.flatnonzero(found.others)
    wrong = queries[~found.right[queries, 0]]
    wrong = wrong[np.argsort(-found.scores[wrong, 0], kind="stable")][:most]
    rest = queries[found.right[queries, 0]]
    rest = rest[np.unique(np.linspace(0, len(rest) - 1, min(most, len(rest))).astype(int))] if len(rest) else rest
    head = ["query", *(f"{k + 1}." for k in range(min(SHOWN, found.nearest.shape[1])))]
    return [
        Section(f"{title} ({split})", image_table([_strip(found, dataset, q) for q in rows.tolist()], head=head))
        for title, rows in (("Nearest image is of another class", wrong), ("Nearest images", rest))
        if len(rows)
    ]


def _strip(found: Neighbours, dataset: Dataset, query: int) -> list[tuple[Array, str]]:
    """A query and what is nearest to it, with a green frame where it is of the same class and a red one elsewhere."""
    cells = [(_drawn(dataset, int(found.index[query])), _said(found, dataset, query))]
    for score, near in zip(found.scores[query, :SHOWN].tolist(), found.nearest[query, :SHOWN].tolist(), strict=True):
        image = framed(_drawn(dataset, int(found.index[near])), right=bool(found.labels[near] == found.labels[query]))
        cells.append((image, f"{score:.2f} {_said(found, dataset, near)}"))
    return cells


def _said(found: Neighbours, dataset: Dataset, row: int) -> str:
    return dataset.classes[int(found.labels[row])] if dataset.classes else str(found.labels[row])


def _drawn(dataset: Dataset, index: int) -> Array:
    image = small(np.ascontiguousarray(displayed(dataset[index]["image"], ())), SIDE)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def _map(trials: Trials, dataset: Dataset, split: str) -> Section:
    """Images where their embeddings lie on the two principal axes of all."""
    embeddings, _, index, _ = trials.seen
    points = embeddings.astype(np.float64) - embeddings.mean(axis=0, dtype=np.float64)
    variances, axes = np.linalg.eigh(points.T @ points)  # ascending
    places = points @ axes[:, -2:]
    span = np.maximum(np.ptp(places, axis=0), 1e-12)
    corners = ((places - places.min(axis=0)) / span * (MAP - MARK)).astype(int)
    canvas = np.full((MAP, MAP, 3), 255, np.uint8)
    for row in np.unique(np.linspace(0, len(index) - 1, MAPPED).astype(int)).tolist():
        x, y = corners[row].tolist()
        canvas[y : y + MARK, x : x + MARK] = boxed(_drawn(dataset, int(index[row])), MARK)
    share = float(variances[-2:].sum() / max(variances.sum(), 1e-12))
    said = f"Embeddings on the two axes with most of their variance: {share:.0%} of it."
    return Section(f"Map ({split})", f"<p>{escape(said)}</p>{picture(canvas)}")
