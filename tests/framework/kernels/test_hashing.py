"""Hashes of names and numbers: XXH64 and SplitMix64 by their published values, and how full buckets get."""

from __future__ import annotations

import numpy as np
import pytest

from pdl import threads
from pdl.errors import DtypeError, ShapeError, UsageError
from pdl.hashing import hash_buckets
from pdl.kernels import hashing as kernels

MANY = 1 << 62


@pytest.mark.parametrize(
    ("text", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
        (b"xxhash", 20141025, 0xB559B98D844E0635),
    ],
)
def test_xxh64(text: bytes, seed: int, expected: int) -> None:
    assert kernels.xxh64(np.frombuffer(text, np.uint8), seed) == expected


def test_splitmix64() -> None:
    """The first numbers of the generator from state 1234567, as its authors' C code gives them."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    gamma = 0x9E3779B97F4A7C15
    states = [(1234567 + i * gamma) % 2**64 for i in range(3)]
    found = hash_buckets(np.array(states, np.uint64).view(np.int64), MANY)
    np.testing.assert_array_equal(found, [e >> 2 for e in expected])


def test_strings_are_one_value_whatever_holds_them() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    names = ["", "x", "item 17", "größer", "a rather long name of an item, over thirty-two bytes of it"] * 3
    want = [kernels.xxh64(np.frombuffer(n.encode(), np.uint8)) * 1000 >> 64 for n in names]
    arrays = [
        names, np.array(names), np.array(names, object), pyarrow.array(names), pyarrow.array(names).slice(0),
        pyarrow.array(names, pyarrow.large_string()), pyarrow.chunked_array([names[:4], names[4:]]),
    ]  # fmt: skip
    for array in arrays:
        np.testing.assert_array_equal(hash_buckets(array, 1000), want)
    np.testing.assert_array_equal(hash_buckets(pyarrow.array(names).slice(3, 5), 1000), want[3:8])
    np.testing.assert_array_equal(hash_buckets(pyarrow.array([5, 6]), 1000), hash_buckets([5, 6], 1000))
    for empty in ([], pyarrow.array([], pyarrow.string()), pyarrow.chunked_array([], pyarrow.string())):
        assert hash_buckets(empty, 3).shape == (0,)


def test_buckets_fill_evenly_and_seeds_differ() -> None:
    numbers = np.arange(200_000)
    for values in (numbers, numbers * 4096, [f"user{i}" for i in numbers[:50_000]]):
        found = hash_buckets(values, 50)
        assert found.min() == 0
        assert found.max() == 49
        counts = np.bincount(found, minlength=50)
        assert abs(counts / counts.mean() - 1).max() < 0.15
        assert np.mean(found == hash_buckets(values, 50, seed=1)) < 0.03


def test_the_number_of_threads_changes_nothing() -> None:
    found = []
    for count in (1, 2):
        with threads.num_threads(count):
            found.append(hash_buckets(np.arange(100_000), 1 << 40))
    np.testing.assert_array_equal(*found)


def test_errors() -> None:
    with pytest.raises(UsageError, match="0 buckets"):
        hash_buckets([1], 0)
    with pytest.raises(DtypeError, match="float64; expected integers or strings"):
        hash_buckets([1.5], 3)
    with pytest.raises(ShapeError, match="offset 9 at place 1 falls, or leaves the 4 bytes"):
        kernels.hash_strings(np.empty(1, np.int64), np.array([0, 9]), np.zeros(4, np.uint8), 3)
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(UsageError, match="1 of 2 values are null"):
        hash_buckets(pyarrow.array(["a", None]), 3)
