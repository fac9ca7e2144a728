"""The data of the suite's recipes: the real files where they are at hand, and what stands in for them where not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import pdl_rec
from pdl.config import build
from pdl.data import DataFault
from pdl.suites import locate
from pdl_rec.data import InteractionData, bind, check, interactions_of, sessions_of, vocabulary_of

FOLDER = Path(pdl_rec.__file__).parent / "parts/rec/data"
STORE = Path(os.environ.get("PDL_DATA", "nowhere")) / "rec"

#: samples of each split, and how many targets (or interactions) of known and unknown items these hold
COUNTS: dict[str, dict[str, tuple[int, int, int]]] = {
    "yoochoose100k": {"train": (17794, 52484, 0), "test": (3416, 10152, 0)},
    "yoochoose64": {"train": (104521, 332551, 0), "val": (11646, 37308, 482), "test": (55898, 55898, 463)},
    "ml100k": {"train": (80808, 80808, 0), "val": (9596, 9596, 18), "test": (9596, 9596, 14)},
    "ml100k_sequences": {"train": (943, 97171, 0), "val": (943, 943, 1), "test": (943, 943, 3)},
}


def nodes(part: str) -> dict[str, Any]:
    tree = yaml.safe_load((FOLDER / f"{part}.yaml").read_text())
    return {split: tree[split] for split in ("train", "val", "test") if tree.get(split)}


def size(dataset: Any) -> tuple[int, int, int]:
    """(samples, targets, those of items that training does not have)."""
    if isinstance(dataset, InteractionData):
        items = interactions_of(dataset).items
    else:
        held = sessions_of(dataset)
        items = held.items[held.targets()[1]]
    return len(dataset), len(items), int((items == 0).sum())


def bound(part: str) -> dict[str, Any]:
    datasets = {split: build(node) for split, node in nodes(part).items()}
    kinds = ("users", "items") if isinstance(datasets["train"], InteractionData) else ("items",)
    vocabularies = {kind: vocabulary_of(datasets["train"], kind) for kind in kinds}
    for dataset in datasets.values():
        bind(dataset, vocabularies)
    return datasets


@pytest.mark.parametrize("part", COUNTS)
def test_counts_of_the_real_data(part: str) -> None:
    try:
        found = {split: size(dataset) for split, dataset in bound(part).items()}
    except DataFault as error:
        if error.fault.path is not None and Path(error.fault.path).exists():
            raise
        pytest.skip(f"the data is not under PDL_DATA ({STORE})")
    assert found == COUNTS[part]


def session_parts() -> list[str]:
    parts = sorted(path.stem for path in FOLDER.glob("*.yaml"))
    return [part for part in parts if "train" in nodes(part)]  # the data of clicks is global, with its task


@pytest.mark.parametrize("part", session_parts())
def test_stand_ins_are_read_by_the_same_rules(part: str, tmp_path: Path) -> None:
    datasets = {}
    for split, node in nodes(part).items():
        arguments = {key: value for key, value in node.items() if key != "_target_"}
        kind = locate(node["_target_"])
        stand = kind.stand_in(tmp_path, arguments)
        assert "Markov chain" in stand.what
        datasets[split] = kind(**{**arguments, **stand.settings})
        again = kind.stand_in(tmp_path, arguments)
        assert kind(**{**arguments, **again.settings}).fingerprint == datasets[split].fingerprint
    assert [fault for fault in check(datasets) if fault.severity == "error"] == []


def test_the_chain_can_be_learned(tmp_path: Path) -> None:
    """What most often follows an item in train follows it in test too: far more often than by chance (1 in 60)."""
    node = nodes("yoochoose100k")
    kind = locate(node["train"]["_target_"])
    train, test = (
        kind(**{**arguments, **kind.stand_in(tmp_path, arguments).settings})
        for arguments in ({k: v for k, v in node[split].items() if k != "_target_"} for split in ("train", "test"))
    )
    vocabulary = vocabulary_of(train)
    follows = np.zeros((len(vocabulary) + 1, len(vocabulary) + 1))
    hits = []
    for data in (train, test):
        data.bind({"items": vocabulary})
        sessions = sessions_of(data)
        ends = sessions.targets()[1]
        before, after = sessions.items[ends - 1], sessions.items[ends]
        if data is train:
            np.add.at(follows, (before, after), 1)
        hits.append((follows.argmax(axis=1)[before] == after).mean())
    assert hits[1] > 0.5
