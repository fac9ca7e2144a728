"""Batches by length."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pdl.data import BucketBatchSampler, DataLoader, Dataset, bucket_sizes
from pdl.errors import UsageError

LENGTHS = np.random.default_rng(0).geometric(0.02, 5000).clip(1, 400)


def padding(lengths: np.ndarray, sizes: list[int]) -> float:
    taken = np.asarray(sizes)[np.searchsorted(sizes, lengths)]
    return float(1 - lengths.sum() / taken.sum())


def test_no_other_sizes_have_less_padding() -> None:
    lengths = np.array([1, 1, 2, 5, 5, 6, 9, 14, 14, 20])
    for count in range(1, 6):
        found = bucket_sizes(lengths, padding=0, most=count)
        others = [[*few, 20] for few in combinations([1, 2, 5, 6, 9, 14], count - 1)]
        assert padding(lengths, found) == min(padding(lengths, each) for each in others)


def test_no_more_sizes_than_needed() -> None:
    found = bucket_sizes(LENGTHS, padding=0.08)
    assert padding(LENGTHS, found) <= 0.08 < padding(LENGTHS, bucket_sizes(LENGTHS, most=len(found) - 1))
    assert bucket_sizes([7, 7, 7]) == [7]
    assert bucket_sizes([]) == bucket_sizes([0]) == [1]
    many = np.arange(1, 3000)
    assert padding(many, bucket_sizes(many)) <= 0.08


@pytest.mark.parametrize("shuffle", [True, False])
def test_all_batches_are_full_but_one(shuffle: bool) -> None:
    sizes = bucket_sizes(LENGTHS)
    sampler = BucketBatchSampler(LENGTHS, 32, sizes, shuffle=shuffle, seed=3)
    made = sampler.batches(5)
    assert len(made) == len(sampler)
    assert np.array_equal(np.sort(np.concatenate(made)), np.arange(len(LENGTHS)))
    assert sorted(map(len, made))[:2] == [len(LENGTHS) % 32, 32]
    taken = sum(len(batch) * sizes[np.searchsorted(sizes, LENGTHS[batch].max())] for batch in made)
    assert 1 - LENGTHS.sum() / taken < 0.1
    assert len({(len(batch), int(np.searchsorted(sizes, LENGTHS[batch].max()))) for batch in made}) <= len(sizes) + 1


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        sampler = BucketBatchSampler(LENGTHS, 32, [50, 400], shuffle=True, seed=seed)
        sampler.batches(9)
        return np.concatenate(sampler.batches(epoch)).tolist()

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)
    sampler = BucketBatchSampler(LENGTHS, 32, [50, 400], shuffle=True, sorted_epochs=1)
    first, second = ([int(LENGTHS[batch].max() > 50) for batch in sampler.batches(epoch)] for epoch in (0, 1))
    assert first == sorted(first), "from short to long"
    assert second not in (sorted(second), sorted(second, reverse=True)), "batches of a size do not come together"
    assert np.concatenate(sampler.batches(0)).tolist() != np.concatenate(
        BucketBatchSampler(LENGTHS, 32, [50, 400]).batches(0)
    ).tolist(), "the samples of a size are in random order"


def test_a_loader_goes_on_where_it_was() -> None:
    class Samples(Dataset):
        def __len__(self) -> int:
            return 300

        def __getitem__(self, index: int) -> dict[str, int]:
            return {"length": int(LENGTHS[index])}

    def loader() -> DataLoader:
        return DataLoader(Samples(), sampler=BucketBatchSampler(LENGTHS[:300], 16, [60, 400], shuffle=True))

    whole = [batch["index"].tolist() for batch in loader()]
    first = loader()
    for _, batch in zip(range(7), first, strict=False):
        last = batch["index"].tolist()
    again = loader()
    again.load_state_dict(first.state_dict())
    assert last == whole[6]
    assert [batch["index"].tolist() for batch in again] == whole[7:]


def test_sizes_that_do_not_reach() -> None:
    with pytest.raises(UsageError, match=r"sizes \[4, 8\] must ascend and reach the longest sample's 9"):
        BucketBatchSampler([1, 9], 2, [4, 8])
