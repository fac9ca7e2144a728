"""The loader: the same batches whatever the threads, a position that can be saved, errors that name the sample."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.data import (
    ArrayDataset,
    Batch,
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedSampler,
)
from pdl.data import transforms as T
from pdl.errors import ConfigError, DataError, UsageError

N = 37


def images(n: int = N) -> ArrayDataset:
    rng = np.random.default_rng(0)
    return ArrayDataset(image=rng.integers(0, 256, (n, 12, 10, 3), dtype=np.uint8), label=np.arange(n) % 4)


class OneByOne(Dataset):
    """The same samples without the fast path; some cannot be read."""

    def __init__(self, bad: tuple[int, ...] = ()) -> None:
        self.arrays, self.bad = images(), bad

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index in self.bad:
            raise ValueError("broken bits")
        return self.arrays[index]

    def path_of(self, index: int) -> str:
        return f"pictures/{index}.png"


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[dict[str, Any]]:
        for i in range(N):
            yield sample(i)


def sample(i: int) -> dict[str, Any]:
    return images()[i]


PIPELINE = [T.RandomCrop(10, padding=2), T.RandomHorizontalFlip(), T.Normalize((0.5, 0.4, 0.3), (0.2, 0.2, 0.2)),
            T.RandomErasing(), T.MixUp(4)]
MIXED = [T.ColorJitter(0.4, 0.4, 0.4, 0.1), *PIPELINE]  # the first works on single pictures only


def threads_left() -> list[str]:
    """Those of loaders; other tests may have some of their own."""
    return [each.name for each in threading.enumerate() if each.name.startswith("pdl-data")]


def same(a: list[Batch], b: list[Batch]) -> None:
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.keys() == y.keys()
        for key in x:
            np.testing.assert_array_equal(x[key], y[key])


@pytest.mark.parametrize("transforms", [PIPELINE, MIXED, None], ids=["batched", "mixed", "none"])
@pytest.mark.parametrize("make", [images, OneByOne, Stream])
def test_workers_change_nothing(make: Any, transforms: Any) -> None:
    def epochs(workers: int) -> list[Batch]:
        shuffle = make is not Stream
        loader = DataLoader(make(), batch_size=8, shuffle=shuffle, transforms=transforms, seed=5, workers=workers)
        return [*loader, *loader]

    reference = epochs(0)
    assert len(reference) == 10
    for workers in (1, 2, 3):
        same(reference, epochs(workers))
    if transforms is not None:
        assert reference[0]["label"].shape == (8, 4)
        assert reference[0]["image"].shape == (8, 10, 10, 3)
    assert not threads_left()


@pytest.mark.parametrize("seed", range(5))
def test_fast_path_is_bit_equal(seed: int) -> None:
    for transforms in (PIPELINE, MIXED):
        fast = DataLoader(images(), batch_size=8, shuffle=True, transforms=transforms, seed=seed)
        slow = DataLoader(OneByOne(), batch_size=8, shuffle=True, transforms=transforms, seed=seed)
        same(list(fast), list(slow))


def test_augmentation_changes_with_epoch_and_seed() -> None:
    def first(seed: int, epoch: int) -> np.ndarray:
        loader = DataLoader(images(), batch_size=N, transforms=T.RandomCrop(10, padding=2), seed=seed)
        loader.set_epoch(epoch)
        return next(iter(loader))["image"]

    assert (first(0, 0) == first(0, 0)).all()
    assert (first(0, 0) != first(0, 1)).any()
    assert (first(0, 0) != first(1, 0)).any()


@pytest.mark.parametrize("make", [images, OneByOne])
def test_samples_are_those_of_the_epoch(make: Any) -> None:
    loader = DataLoader(make(), batch_size=8, shuffle=True, transforms=MIXED[:-1], seed=3)
    loader.set_epoch(2)
    for batch in loader:
        same([loader.samples(batch["index"], 2)], [batch])
    assert (loader.epoch, loader.position) == (3, 0)
    mixing = DataLoader(make(), batch_size=8, shuffle=True, transforms=MIXED, seed=3)
    assert mixing.samples([4, 1], 0)["label"].tolist() == [0, 1], "labels of samples are not mixed"
    broken = DataLoader(OneByOne(bad=(4,)), batch_size=8, on_error="skip")
    assert broken.samples([4, 1], 0)["index"].tolist() == [1]
    with pytest.raises(DataError, match=r"4\.png.*broken bits"):
        broken.samples([4], 0)
    with pytest.raises(UsageError, match="no indices"):
        broken.samples([], 0)
    with pytest.raises(UsageError, match="no sample by index"):
        DataLoader(Stream(), batch_size=8).samples([0], 0)


def _loader(kind: str, workers: int) -> DataLoader:
    common: dict[str, Any] = {"transforms": MIXED, "seed": 2, "workers": workers}
    if kind == "stream":
        return DataLoader(Stream(), batch_size=8, **common)
    if kind == "batches":
        return DataLoader(images(), sampler=BatchSampler(RandomSampler(N, seed=1), 8), **common)
    if kind == "weighted":
        return DataLoader(images(), sampler=WeightedSampler(np.arange(N) + 1.0), batch_size=8, **common)
    return DataLoader(images(), batch_size=8, shuffle=True, **common)


@pytest.mark.parametrize("kind", ["shuffled", "stream", "batches", "weighted"])
@pytest.mark.parametrize("done", [1, 3, 5])
def test_resume_inside_an_epoch(kind: str, done: int) -> None:
    whole = _loader(kind, 0)
    expected = [*whole, *whole]
    first = _loader(kind, 2)
    batches = iter(first)
    got = [next(batches) for _ in range(done)]
    state = first.state_dict()
    assert state["position"] == min(8 * done, N)
    del batches
    second = _loader(kind, 1)
    second.load_state_dict(state)
    second.set_epoch(state["epoch"])
    got += [*second, *second]
    same(expected, got)
    assert second.epoch == 2


def test_resume_with_another_batch_size_goes_on_at_the_same_sample() -> None:
    loader = DataLoader(images(), batch_size=4, shuffle=True)
    loader.load_state_dict({"epoch": 0, "position": 8, "seed": 0, "samples": N})
    seen = np.concatenate([b["index"] for b in loader])
    np.testing.assert_array_equal(seen, RandomSampler(N).order(0)[8:])


@pytest.mark.parametrize(("state", "words"), [
    ({"epoch": 0, "position": 8, "seed": 1}, "seed=1, this loader has seed=0"),
    ({"epoch": 0, "position": 8, "samples": 5}, f"samples=5, this loader has samples={N}"),
])
def test_resume_refuses_another_run(state: dict[str, int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        DataLoader(images(), batch_size=4).load_state_dict(state)


def test_resume_inside_a_batch_of_a_batch_sampler() -> None:
    loader = DataLoader(images(), sampler=BatchSampler(SequentialSampler(N), 8))
    loader.load_state_dict({"epoch": 0, "position": 12})
    with pytest.raises(UsageError, match=r"position 12 lies inside the batch at 8\.\.16"):
        list(loader)


@pytest.mark.parametrize(("drop_last", "world"), [(False, 1), (True, 1), (False, 2), (True, 3)])
def test_lengths_and_ranks(drop_last: bool, world: int) -> None:
    ranks = [DataLoader(images(), batch_size=5, shuffle=True, drop_last=drop_last) for _ in range(world)]
    for rank, loader in enumerate(ranks):
        loader.share(rank, world)
    parts = [list(loader) for loader in ranks]
    whole = N // 5 * 5 if drop_last else N
    for loader, batches in zip(ranks, parts, strict=True):
        assert len(loader) == (whole + 4) // 5
        assert [len(b["index"]) for b in batches] == [
            len(range(loader.rank, min(5, whole - begin), world)) for begin in range(0, whole, 5)
            if loader.rank < min(5, whole - begin)
        ]
    seen = np.concatenate([b["index"] for batches in parts for b in batches])
    assert sorted(seen) == sorted(RandomSampler(N).order(0)[:whole])


def test_a_rank_beyond_the_world() -> None:
    with pytest.raises(UsageError, match=r"rank=2 must lie in 0\.\.1"):
        DataLoader(images(), batch_size=4).share(2, 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_sample_is_an_error_with_path_and_index(workers: int) -> None:
    loader = DataLoader(OneByOne(bad=(9,)), batch_size=4, workers=workers)
    with pytest.raises(DataError, match=r"pictures/9.png \(index 9\): .*ValueError: broken bits.*on_error='skip'"):
        list(loader)
    assert not threads_left()


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_samples_are_skipped_and_counted(workers: int) -> None:
    loader = DataLoader(OneByOne(bad=(4, 5, 6, 7, 9)), batch_size=4, workers=workers, on_error="skip")
    for _ in range(2):
        seen = np.concatenate([b["index"] for b in loader])
        assert seen.tolist() == [i for i in range(N) if i not in (4, 5, 6, 7, 9)]
        assert loader.skipped == 5
    assert sorted(loader.faults) == [4, 5, 6, 7, 9]
    assert loader.faults[9].path == "pictures/9.png"


class InBatches(OneByOne):
    """The same, read in whole batches."""

    def get_batch(self, indices: np.ndarray) -> Batch:
        rows = [self[int(i)] for i in indices]
        return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_samples_are_left_out_of_whole_batches(workers: int) -> None:
    """As out of those that are built sample by sample, augmented with the same random numbers."""
    bad = (4, 5, 6, 7, 9)
    options: dict[str, Any] = {"batch_size": 4, "workers": workers, "on_error": "skip", "transforms": PIPELINE}
    loader = DataLoader(InBatches(bad), **options)
    assert loader.pipeline.stacked
    for _ in range(2):
        seen = np.concatenate([b["index"] for b in loader])
        assert seen.tolist() == [i for i in range(N) if i not in bad]
        assert loader.skipped == 5
    assert sorted(loader.faults) == [4, 5, 6, 7, 9]
    assert loader.faults[9].path == "pictures/9.png"
    same(list(DataLoader(InBatches(bad), **options)), list(DataLoader(OneByOne(bad), **options)))


def test_a_broken_sample_of_a_whole_batch_is_named() -> None:
    with pytest.raises(DataError, match=r"pictures/6.png \(index 6\): .*ValueError: broken bits.*on_error='skip'"):
        list(DataLoader(InBatches(bad=(6, 7)), batch_size=4))


@pytest.mark.parametrize("on_error", ["error", "skip"])
def test_what_fails_only_together_is_no_broken_sample(on_error: Any) -> None:
    class Unequal(InBatches):
        def get_batch(self, indices: np.ndarray) -> Batch:
            if len(indices) > 1:
                raise ValueError("rows of unequal length")
            return super().get_batch(indices)

    with pytest.raises(DataError, match=r"Unequal failed to read the samples 0, 1, 2, 3: .*unequal length"):
        list(DataLoader(Unequal(), batch_size=4, on_error=on_error))


def test_data_errors_of_a_data_set_are_of_a_sample_too() -> None:
    class Refusing(OneByOne):
        def __getitem__(self, index: int) -> dict[str, Any]:
            if index == 3:
                raise DataError("the picture is empty")
            return super().__getitem__(index)

    with pytest.raises(DataError, match=r"pictures/3.png \(index 3\): the picture is empty"):
        list(DataLoader(Refusing(), batch_size=4))
    loader = DataLoader(Refusing(), batch_size=4, on_error="skip")
    assert 3 not in np.concatenate([b["index"] for b in loader])
    assert loader.skipped == 1


def test_faults_in_a_transform_are_not_data_faults() -> None:
    def wrong(sample: Batch, rng: Any) -> Batch:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug") as info:
        list(DataLoader(OneByOne(), batch_size=4, transforms=wrong, on_error="skip"))
    assert "sample 0" in info.value.__notes__[0]
    with pytest.raises(UsageError, match=r"RandomCrop: size 99 x 99 .* 12 x 10 .*\(sample 0\)"):
        list(DataLoader(OneByOne(), batch_size=4, transforms=T.RandomApply([T.RandomCrop(99)], p=1)))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_early_break_leaves_no_threads_and_restarts(workers: int) -> None:
    loader = DataLoader(images(), batch_size=4, workers=workers, transforms=MIXED)
    first = None
    for batch in loader:
        first = batch
        break
    assert not threads_left()
    assert first is not None
    same([first], [next(iter(loader))])
    assert loader.epoch == 0


def test_prefetch_is_bounded() -> None:
    reads: list[int] = []

    class Counting(OneByOne):
        def __getitem__(self, index: int) -> dict[str, Any]:
            reads.append(index)
            return super().__getitem__(index)

    batches = iter(DataLoader(Counting(), batch_size=1, workers=2, prefetch=3))
    for taken in range(1, 6):
        next(batches)
        assert len(reads) <= taken + 2 * 3
    del batches


def test_ragged_pictures_need_a_resize() -> None:
    class Ragged(OneByOne):
        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"image": np.zeros((8 + index % 2, 8, 3), np.uint8), "label": 0}

    with pytest.raises(UsageError, match=r"shape \(9, 8, 3\) in sample 1 .* add a Resize"):
        list(DataLoader(Ragged(), batch_size=4))
    batch = next(iter(DataLoader(Ragged(), batch_size=4, transforms=[T.CenterCrop(6), T.ToFloat()])))
    assert batch["image"].shape == (4, 6, 6, 3)


def test_custom_collate_sees_single_samples() -> None:
    loader = DataLoader(images(), batch_size=3, transforms=T.ToFloat(), collate=lambda samples: {"n": len(samples)})
    assert [b["n"] for b in loader][-2:] == [3, 1]


def test_opencv_threads_are_restored() -> None:
    before = cv2.getNumThreads()
    for _ in DataLoader(images(), batch_size=4, workers=2):
        assert cv2.getNumThreads() == 1
    assert cv2.getNumThreads() == before
    batches = iter(DataLoader(images(), batch_size=4))
    next(batches)
    del batches
    assert cv2.getNumThreads() == before


@pytest.mark.parametrize(("arguments", "words"), [
    ({}, "batch_size is missing"),
    ({"batch_size": 0}, "batch_size=0"),
    ({"batch_size": 4, "workers": -1}, "workers=-1"),
    ({"batch_size": 4, "prefetch": 0}, "prefetch=0"),
    ({"batch_size": 4, "on_error": "ignore"}, "'error' or 'skip'"),
    ({"batch_size": 4, "shuffle": True, "sampler": SequentialSampler(3)}, "give one of them"),
    ({"batch_size": 4, "sampler": BatchSampler(SequentialSampler(3), 2)}, "leave it out"),
    ({"batch_size": 4, "transforms": [T.MixUp(4), T.ToFloat()]}, "ToFloat comes after"),
    ({"batch_size": 4, "transforms": [3]}, "3 is not a transform"),
])
def test_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        DataLoader(images(), **arguments)


def test_streams_have_no_order_and_no_length() -> None:
    with pytest.raises(ConfigError, match="own order"):
        DataLoader(Stream(), batch_size=2, shuffle=True)
    with pytest.raises(ConfigError, match="on_error='skip'"):
        DataLoader(Stream(), batch_size=2, on_error="skip")
    with pytest.raises(TypeError, match="no len"):
        len(DataLoader(Stream(), batch_size=2))
