"""What a corrector should beat: nothing changed, and a dictionary of mistakes with their neighbours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl_nlp.correction.loader import pairs_of
from pdl_nlp.correction.metrics import correction_metrics

SEEN = 2  # times that a mistake must be corrected in the same way


def baselines(datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Texts as they are; and each character exchanged that training corrects in most cases, and at least twice, where
    it stands beside the same neighbour."""
    known = _dictionary(pairs_of(datasets["train"]))
    pairs = pairs_of(datasets[split])
    answers = {
        "nothing changed": [text for text, _ in pairs],
        "dictionary": [_corrected(text, known) for text, _ in pairs],
    }

    def points(texts: list[str]) -> np.ndarray:
        made = np.full((len(texts), max(map(len, texts))), -1)
        for row, text in zip(made, texts, strict=True):
            row[: len(text)] = list(map(ord, text))
        return made

    given, right = points([text for text, _ in pairs]), points([right for _, right in pairs])

    def measured(texts: list[str]) -> dict[str, float]:
        metrics, found = correction_metrics(), points(texts)
        for metric in metrics.values():
            metric.update(given, found, right)
        scores = {name: metric.compute() for name, metric in metrics.items()}
        return {name: score for name, score in scores.items() if isinstance(score, float)}

    return {name: measured(texts) for name, texts in answers.items()}


def _neighbours(text: str, at: int) -> list[tuple[str, str, int]]:
    """A character with the one before it, and with the one behind it."""
    padded = f"\n{text}\n"
    return [(padded[at + 1], padded[at], 0), (padded[at + 1], padded[at + 2], 1)]


def _dictionary(pairs: list[tuple[str, str]]) -> dict[tuple[str, str, int], str]:
    counts: defaultdict[tuple[str, str, int], Counter[str]] = defaultdict(Counter)
    for text, right in pairs:
        for at, own in enumerate(right):
            for key in _neighbours(text, at):
                counts[key][own] += 1
            if own != text[at]:  # without its mistake the text is one more that is right
                for key in _neighbours(right, at):
                    counts[key][own] += 1
    best = ((key, min(each, key=lambda own: (-each[own], own)), each) for key, each in counts.items())
    return {key: own for key, own, each in best if own != key[0] and each[own] >= SEEN and each[own] > each.total() / 2}


def _corrected(text: str, known: Mapping[tuple[str, str, int], str]) -> str:
    found = list(text)
    for at in range(len(text)):
        found[at] = next((known[key] for key in _neighbours(text, at) if key in known), text[at])
    return "".join(found)
