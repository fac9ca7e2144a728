"""Data sets, samplers, collation and splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdl.data import (
    ArrayDataset,
    BatchSampler,
    ConcatDataset,
    Dataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    WeightedSampler,
    check_ratios,
    collate,
    stable_split,
    stratified_split,
)
from pdl.errors import ConfigError, UsageError


def arrays(n: int = 10, start: int = 0) -> ArrayDataset:
    values = np.arange(start, start + n)
    return ArrayDataset(image=values.astype(np.uint8)[:, None, None, None], label=values % 3, classes=["a", "b", "c"])


DATASETS: dict[str, Callable[[], Dataset]] = {
    "array": arrays,
    "subset": lambda: Subset(arrays(), [9, 0, 4, 4]),
    "concat": lambda: ConcatDataset([arrays(4), arrays(1, 4), Subset(arrays(6, 5), [3, 1])]),
}


@pytest.mark.parametrize("name", DATASETS)
def test_batch_equals_collated_samples(name: str) -> None:
    dataset: Any = DATASETS[name]()
    indices = np.array([len(dataset) - 1, 0, 1, 0])
    batch, single = dataset.get_batch(indices), collate([dataset[i] for i in indices.tolist()])
    assert batch.keys() == single.keys()
    for key in batch:
        np.testing.assert_array_equal(batch[key], single[key])
    np.testing.assert_array_equal(dataset.labels, [dataset[i]["label"] for i in range(len(dataset))])
    assert dataset.fingerprint == DATASETS[name]().fingerprint


def test_fingerprint_follows_content() -> None:
    assert len({arrays().fingerprint, arrays(start=1).fingerprint, Subset(arrays(), [0, 1]).fingerprint}) == 3


def test_concat_without_get_batch() -> None:
    class Plain(Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"label": index}

    both = ConcatDataset([Plain(), Plain()])
    assert not hasattr(both, "get_batch")
    assert both.labels is None
    assert [both[i]["label"] for i in range(4)] == [0, 1, 0, 1]
    with pytest.raises(IndexError, match="index 4 is outside of a data set of 4"):
        both[4]


@pytest.mark.parametrize(("make", "words"), [
    (lambda: ArrayDataset(), "no arrays"),
    (lambda: ArrayDataset(a=np.zeros(2), b=np.zeros(3)), "'a': 2, 'b': 3"),
    (lambda: Subset(arrays(), [0, 10]), "index 10 is outside of a data set of 10"),
    (lambda: Subset(arrays(), [[0]]), r"shape \(1, 1\)"),
    (lambda: ConcatDataset([]), "empty"),
    (lambda: ConcatDataset([arrays(), ArrayDataset(x=np.zeros(1), classes=["z"])]), r"classes \['z'\]"),
    (lambda: WeightedSampler([0.0, 0.0]), "all 2 weights are zero"),
    (lambda: WeightedSampler([1.0, -1.0]), "non-negative"),
    (lambda: WeightedSampler([1.0, 0.0], num_samples=2, replacement=False), "2 draws without replacement from 1"),
    (lambda: BatchSampler(SequentialSampler(3), 0), "batch_size=0"),
    (lambda: collate([{"x": np.zeros(2)}, {"x": np.zeros(3)}]), r"shape \(3,\) in sample 1 of the batch and \(2,\)"),
    (lambda: collate([{"x": 1}, {"y": 1}]), "has keys"),
    (lambda: check_ratios("X", {"train": 0.9, "val": 0.2}), "sum to 1.1"),
    (lambda: check_ratios("X", {"train": 0.0}), r"\(0, 1\]"),
])
def test_errors(make: Callable[[], Any], words: str) -> None:
    with pytest.raises((UsageError, ConfigError), match=words):
        make()


def test_samplers() -> None:
    random = RandomSampler(50, seed=3)
    assert sorted(random.order(0)) == list(range(50))
    assert (random.order(1) == RandomSampler(50, seed=3).order(1)).all()
    assert (random.order(0) != random.order(1)).any()
    assert (random.order(0) != RandomSampler(50, seed=4).order(0)).any()
    labels = np.array([0] * 90 + [1] * 10)
    drawn = labels[WeightedSampler.balanced(labels, num_samples=2000).order(0)]
    assert 0.45 < drawn.mean() < 0.55
    assert set(WeightedSampler([1, 0, 2], replacement=False, num_samples=2).order(5).tolist()) == {0, 2}
    batches = BatchSampler(SequentialSampler(7), 3, drop_last=True).batches(0)
    assert [b.tolist() for b in batches] == [[0, 1, 2], [3, 4, 5]]


def test_collate_kinds() -> None:
    out = collate([{"a": np.ones(2, np.uint8), "i": 1, "f": 0.5, "b": True, "s": "x", "l": [1, 2]}] * 2)
    assert [out[k].dtype for k in "aifb"] == [np.uint8, np.int64, np.float32, np.bool_]
    assert out["a"].shape == (2, 2)
    assert out["s"] == ["x", "x"]
    assert out["l"] == [[1, 2], [1, 2]]


RATIOS = {"train": 0.7, "val": 0.1, "test": 0.2}


def test_stable_split_is_stable() -> None:
    keys = [f"cat/{i}.png" for i in range(2000)]
    parts = {split: stable_split(keys, RATIOS, split, seed=1) for split in RATIOS}
    assert sorted(np.concatenate(list(parts.values()))) == list(range(2000))
    assert abs(len(parts["train"]) - 1400) < 100
    more = stable_split([*keys, "dog/new.png"], RATIOS, "train", seed=1)
    assert set(parts["train"]) == set(more) - {2000}
    assert set(parts["train"]) != set(stable_split(keys, RATIOS, "train", seed=2))


def test_stratified_split_keeps_shares() -> None:
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    parts = {split: stratified_split(labels, RATIOS, split) for split in RATIOS}
    assert sorted(np.concatenate(list(parts.values()))) == list(range(160))
    assert [np.bincount(labels[rows]).tolist() for rows in parts.values()] == [[70, 35, 7], [10, 5, 1], [20, 10, 2]]


@pytest.mark.parametrize("count", range(1, 40))
def test_every_split_has_of_every_class(count: int) -> None:
    labels, keys = np.repeat([0, 1], count), [f"{i}.png" for i in range(2 * count)]
    parts = {split: stratified_split(labels, RATIOS, split, keys=keys, seed=3) for split in RATIOS}
    assert sorted(np.concatenate(list(parts.values()))) == list(range(2 * count))
    assert all(set(labels[rows]) == {0, 1} for rows in parts.values()) or count < 3
    back = {split: stratified_split(labels[::-1], RATIOS, split, keys=keys[::-1], seed=3) for split in RATIOS}
    assert all({keys[i] for i in parts[s]} == {keys[::-1][i] for i in back[s]} for s in RATIOS), "order does not matter"
