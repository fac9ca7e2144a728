"""Checks of facts before training: repeated ones, leaks, unknown entities and relations, which relations are
inverse to others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from pdl.data.checks import Progress, Source, open_all
from pdl.data.faults import Fault
from pdl.train import Recipe
from pdl_graph.data.triples import Triples, triples_of, vocabularies_of
from pdl_graph.ranges import ranges

INVERSE = 0.8  # of the facts of a relation: so many stand the other way round in its inverse
SHOWN = 5

Finding = tuple[str, str, bool]
"""(what, advice, whether it is an error and no warning)."""


def check_triples(datasets: Mapping[str, Source], *, progress: Progress | None = None) -> list[Fault]:
    """Faults of the facts of these splits; an empty list if there are none.

    An error are facts of val or test that training states, too. Warnings are facts that a split states twice, entities
    and relations that training lacks, and relations whose facts are, for the most part, the inverse ones of another: a
    model then answers by inverting these (Toutanova & Chen, "Observed versus latent features for knowledge base
    and text inference", CVSC 2015; Dettmers et al., arXiv 1707.01476).
    """
    faults: list[Fault] = []
    opened = {split: triples_of(found)[0] for split, found in open_all(datasets, faults).items() if len(found)}
    if not opened:
        return faults
    vocabularies = vocabularies_of(list(opened.values()))
    for dataset in opened.values():
        dataset.bind(vocabularies)
    for split, dataset in opened.items():
        faults += _placed(dataset, split, _twice(dataset))
        if split == "train":
            faults += _placed(dataset, split, _inverse(dataset))
        if progress is not None:
            progress(split, len(dataset.known), len(dataset.known))
    for first, second in combinations(opened, 2):
        faults += _placed(opened[second], second, _same(first, opened[first], opened[second]))
        if first == "train":
            faults += _placed(opened[second], second, _unseen(opened[first], opened[second]))
    return faults


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """`check_triples` of the data sets that a recipe names."""
    return check_triples({split: part.build for split, part in recipe.data.splits.items()}, progress=progress)


def _placed(dataset: Triples, split: str, findings: Iterator[Finding]) -> list[Fault]:
    return [Fault(dataset.file.path, None, what, advice, split=split, severity="error" if hard else "warning")
            for what, advice, hard in findings]  # fmt: skip


def _keys(triples: np.ndarray) -> np.ndarray:
    """One value for each fact."""
    return np.ascontiguousarray(triples).view(np.dtype((np.void, 12))).reshape(-1)


def _fact(dataset: Triples, row: int) -> str:
    head, relation, tail = dataset.raw[row]
    entity = dataset.names["entities"]
    return f"{entity[head - 1]}, {dataset.names['relations'][relation - 1]}, {entity[tail - 1]}"


def _twice(dataset: Triples) -> Iterator[Finding]:
    _, first, counts = np.unique(_keys(dataset.known), return_index=True, return_counts=True)
    if (counts > 1).any():
        more, row = int((counts - 1).sum()), int(first[counts > 1][0])
        yield f"{more} facts too many: stated twice (first: {_fact(dataset, row)})", "keep one of each", False


def _same(first: str, a: Triples, b: Triples) -> Iterator[Finding]:
    both = np.isin(_keys(b.known), _keys(a.known))
    if both.any():
        what = f"{int(both.sum())} of {len(b.known)} facts are in {first}, too (first: {_fact(b, int(both.argmax()))})"
        yield what, "take them out of one of the two, or the measured numbers are memory", first == "train"


def _unseen(train: Triples, later: Triples) -> Iterator[Finding]:
    for kind, columns in (("entities", [0, 2]), ("relations", [1])):
        strange = ~np.isin(later.known[:, columns], train.known[:, columns])
        if strange.any():
            row, at = np.argwhere(strange)[0]
            name = later.names[kind][later.raw[row, columns[at]] - 1]
            count = len(np.unique(later.known[:, columns][strange]))
            what = f"{count} {kind} are not in train, in {int(strange.any(axis=1).sum())} of {len(later.known)} facts"
            yield f"{what} (first: {name})", "nothing is learned of them; state it with the results", False


def _inverse(train: Triples) -> Iterator[Finding]:
    names, found = train.names["relations"], inverse_relations(train.raw)
    if found:
        shown = ", ".join(f"{names[r - 1]} of {names[s - 1]} ({share:.0%})" for r, s, share in found[:SHOWN])
        more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        what = f"{len(found)} relations have {INVERSE:.0%} or more of their facts in an inverse one: {shown}{more}"
        yield what, "facts of val and test may be known the other way round; say so with the results", False


def inverse_relations(triples: np.ndarray) -> list[tuple[int, int, float]]:
    """(r, s, share) for relations r and s != r, where `share` >= INVERSE of the facts (h, r, t) of r stand there as
    (t, s, h), too; the largest share first."""
    head, relation, tail = np.unique(triples, axis=0).astype(np.int64).T
    wide = int(max(head.max(), tail.max())) + 1
    pairs, inverse = head * wide + tail, tail * wide + head
    order = np.argsort(pairs, kind="stable")
    left, right = (np.searchsorted(pairs[order], inverse, side=side) for side in ("left", "right"))
    count = right - left
    at = ranges(left, count)
    of, to = np.repeat(relation, count), relation[order][at]
    size = int(relation.max()) + 1
    keys, times = np.unique(of * size + to, return_counts=True)
    shares = times / np.bincount(relation)[keys // size]
    kept = np.flatnonzero((shares >= INVERSE) & (keys // size != keys % size))
    kept = kept[np.argsort(-shares[kept], kind="stable")]
    return [(int(keys[i] // size), int(keys[i] % size), float(shares[i])) for i in kept]
