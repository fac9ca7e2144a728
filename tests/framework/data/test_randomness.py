"""The counted random numbers: one sample and many give the same, and they look uniform."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.data import BatchRandom, SampleRandom

INDICES = [0, 1, 2, 17, 59_999, 2**40]


@pytest.mark.parametrize("seed", [0, 1, -5, 2**70])
def test_batch_equals_single(seed: int) -> None:
    single = [SampleRandom(seed, 3, i).fork(2).fork("crop") for i in INDICES]
    batch = BatchRandom(seed, 3, INDICES).fork(2).fork("crop")
    for draw in (lambda r: r.uniform(-2, 5), lambda r: r.integers(3, 90), lambda r: r.chance(0.4), lambda r: r.bits()):
        assert [draw(r) for r in single] == draw(batch).tolist()
    assert [r.uniform() for r in single] == [batch[i].uniform() for i in range(len(batch))]


def test_published_values() -> None:
    """SplitMix64 from state 0: the first outputs of the reference implementation."""
    rng = SampleRandom._at(0, 0, 0)
    assert [rng.bits() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_every_coordinate_counts() -> None:
    keys = [(s, e, i) for s in range(3) for e in range(3) for i in range(3)]
    draws = {SampleRandom(*key).bits() for key in keys}
    draws |= {SampleRandom(*key).fork(k).bits() for key in keys for k in (0, 1, "batch")}
    assert len(draws) == 4 * len(keys)


def test_uniform_over_indices_and_draws() -> None:
    rng = BatchRandom(7, 0, np.arange(20_000))
    a, b = rng.uniform(), rng.uniform()
    for values in (a, b):
        counts = np.histogram(values, 20, (0, 1))[0]
        assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi-square with 19 degrees: 1e-4 quantile 50
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.03
    assert abs(np.corrcoef(a[:-1], a[1:])[0, 1]) < 0.03


def test_permutation_and_generator() -> None:
    assert sorted(SampleRandom(0, 0, 0).permutation(9)) == list(range(9))
    assert SampleRandom(0, 0, 4).generator().random() == SampleRandom(0, 0, 4).generator().random()
