"""Facts of a knowledge graph: head, relation, tail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Batch, Dataset, Sample, StandIn, Subset, digest
from pdl.errors import ConfigError, DataError, UsageError
from pdl.hints import Range
from pdl.vocabulary import Vocabulary
from pdl_graph.data.triples_file import STEMS, read_triples

Split = Literal["train", "val", "test"]
KINDS = ("entities", "relations")


class Triples(Dataset):
    """Facts from text files: `head<TAB>relation<TAB>tail` a line (commas and the like are recognised, too).

    path       a folder or an archive (tar, tar.gz, zip) that holds train, valid and test as .txt, .tsv or .csv, such as
               WN18RR and FB15k-237 come; or one file. A relative one is also looked for under PDL_DATA and its folder
               graph; the ending of an archive may be left out
    split      train, val or test: which part of it; of a single file without `ratios` all of it
    columns    names of the columns of head, relation and tail, where the first line names columns
    separator  between columns; by default what the first line has of tab, comma, semicolon, bar, else spaces
    ratios     {train: 0.8, val: 0.1, test: 0.1}: cut a single file at random
    seed       of that cut
    few        ask only so many of the facts, spread evenly, to save time; the others stay known (`known`)

    Sample i is {"head", "relation", "tail"}, int64, by the vocabularies "entities" and "relations": names have numbers
    from 1 on and 0 is an unknown one. Until `bind` gives vocabularies, numbers are those of the file's own names.
    """

    unfoldable = "a fact is ranked among those of all splits, which its data set holds; cut one file with other seeds"

    def __init__(
        self,
        path: str | Path,
        *,
        split: Split = "train",
        columns: Sequence[str] | None = None,
        separator: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        few: Annotated[int, Range(1)] | None = None,
    ) -> None:
        if split not in STEMS:
            raise ConfigError(f"Triples: split={split!r} is none of {', '.join(STEMS)}")
        if columns is not None and len(columns) != 3:
            raise ConfigError(f"Triples: columns={list(columns)} must name three: head, relation, tail")
        self.file = read_triples(path, columns=columns, separator=separator)
        parts = dict(self.file.parts)
        if "" in parts and ratios is not None:
            parts = _cut(parts[""], ratios, seed)
        elif "" in parts:
            parts = {split: parts[""]}
        elif ratios is not None:
            raise ConfigError(f"Triples: {self.file.path} has its own parts {', '.join(parts)}; leave out ratios")
        if split not in parts:
            raise DataError(f"{self.file.path} has no part {split}, only {', '.join(parts)}; set data.{split}=null")
        self.split, self.raw = split, parts[split]
        self.names = {"entities": self.file.entities, "relations": self.file.relations}
        count = len(self.raw) if few is None else min(few, len(self.raw))
        self.rows = np.arange(count) * len(self.raw) // count
        self._bound: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        return {name: column[0] for name, column in self.get_batch(np.array([index])).items()}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The columns of these rows, int64."""
        rows = self.triples[indices].astype(np.int64)
        return {"head": rows[:, 0], "relation": rows[:, 1], "tail": rows[:, 2]}

    def bind(self, vocabularies: Mapping[str, Vocabulary]) -> None:
        """Number entities and relations by these vocabularies."""
        entity, relation = (np.append(0, vocabularies[kind].encode(self.names[kind])) for kind in KINDS)
        head, between, tail = self.raw.T
        self._bound = np.stack([entity[head], relation[between], entity[tail]], axis=1).astype(np.int32)

    @property
    def known(self) -> np.ndarray:
        """All facts of the split, int32 [T, 3]: head, relation, tail."""
        return self.raw if self._bound is None else self._bound

    @property
    def triples(self) -> np.ndarray:
        """Those that are samples; all, without `few`."""
        return self.known[self.rows]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the facts by name."""
        return digest(type(self).__name__, *("\n".join(self.names[kind]) for kind in KINDS), self.raw, self.rows)

    def path_of(self, index: int) -> str | None:
        return self.file.path

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        write_stand_in(folder)
        plain = {"columns": None, "separator": None, "ratios": None}
        return StandIn({"path": str(folder), **{key: plain[key] for key in plain if key in settings}}, WHAT)


def _cut(rows: np.ndarray, ratios: Mapping[str, float], seed: int) -> dict[str, np.ndarray]:
    if set(ratios) - set(STEMS) or not 0 < sum(ratios.values()) <= 1 + 1e-9:
        raise ConfigError(f"Triples: ratios={dict(ratios)} must be shares of train, val and test, at most 1 together")
    order = np.random.default_rng(seed).permutation(len(rows))
    ends = np.rint(np.cumsum([0.0, *ratios.values()]) * len(rows)).astype(np.int64)
    return {name: rows[np.sort(order[ends[i] : ends[i + 1]])] for i, name in enumerate(ratios)}


# -- seeing through wrappers -------------------------------------------------------------------------------------------
def triples_of(dataset: Any) -> tuple[Triples, np.ndarray]:
    """The data set under `pdl.data.Subset`s and `Few`s, and the facts int32 [T, 3] that they leave of it."""
    rows = None
    while isinstance(dataset, Subset):
        rows = dataset.indices if rows is None else dataset.indices[rows]
        dataset = dataset.dataset
    if not isinstance(dataset, Triples):
        raise ConfigError(f"{type(dataset).__name__} gives no facts; use pdl_graph.data.Triples")
    return dataset, dataset.triples if rows is None else dataset.triples[rows]


def vocabularies_of(datasets: Sequence[Any]) -> dict[str, Vocabulary]:
    """Entities and relations of all these data sets, in the order of appearance."""
    if not datasets:
        raise UsageError("vocabularies_of: no data set is given")
    bases = [triples_of(dataset)[0] for dataset in datasets]
    return {kind: Vocabulary(dict.fromkeys(name for base in bases for name in base.names[kind])) for kind in KINDS}


# -- stand-in ----------------------------------------------------------------------------------------------------------
ROUND = 48
STEPS = {"next": 1, "before": -1, "third": 3, "fifth": 5, "opposite": ROUND // 2}
WHAT = f"{len(STEPS)} relations between {ROUND} places on a circle, nine in ten of them known"


def write_stand_in(folder: Path) -> None:
    """train.txt, valid.txt and test.txt: who is how many places further on a circle."""
    facts = [f"place{i}\t{name}\tplace{(i + step) % ROUND}" for name, step in STEPS.items() for i in range(ROUND)]
    order = np.random.default_rng(0).permutation(len(facts)).tolist()
    held = len(facts) // 20
    for name, part in (("test", order[:held]), ("valid", order[held : 2 * held]), ("train", order[2 * held :])):
        (folder / f"{name}.txt").write_text("".join(facts[i] + "\n" for i in part))
