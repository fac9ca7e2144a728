"""Numbers for names that no vocabulary holds: hashes, the same on every machine and in every run."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from pdl.dtype import Array
from pdl.errors import DtypeError, UsageError
from pdl.kernels import hashing as kernels


def hash_buckets(values: Any, buckets: int, *, seed: int = 0) -> Array:
    """The bucket of each value, int64 [n] in [0, buckets).

    values   integers (an array or a list), strings (a list, or an array of NumPy's), or a pyarrow array of strings or
             integers without nulls, chunked or not; strings are hashed in place, without copies

    A string's bucket is floor(h buckets / 2^64) with h = XXH64 of its UTF-8 bytes, an integer's with h = SplitMix64.
    Collisions are the price of a table of fixed size (Weinberger et al., arXiv 0902.2206); `seed` chooses another
    function, so that two tables collide in different places.
    """
    if buckets < 1:
        raise UsageError(f"hash_buckets: {buckets} buckets; there must be at least one")
    if hasattr(values, "chunks"):
        parts = [hash_buckets(chunk, buckets, seed=seed) for chunk in values.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)
    if hasattr(values, "buffers"):
        return _of_arrow(values, buckets, seed)
    array = np.asarray(values)
    if array.dtype.kind in "iu" or array.size == 0:
        return _of_numbers(array, buckets, seed)
    if array.dtype.kind not in "UO":
        raise DtypeError(f"hash_buckets: values of dtype {array.dtype}; expected integers or strings")
    encoded = [cast(str, v).encode() for v in array.reshape(-1).tolist()]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(e) for e in encoded], out=offsets[1:])
    return _of_strings(offsets, np.frombuffer(b"".join(encoded), np.uint8), buckets, seed)


def splitmix64(z: Array) -> Array:
    """The output function of SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA
    2014) on numbers uint64 [...]: 64 bits that look random, the same for the same number."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _of_numbers(values: Array, buckets: int, seed: int) -> Array:
    out = np.empty(values.size, np.int64)
    kernels.hash_numbers(out, np.ascontiguousarray(values, np.int64).reshape(-1), buckets, seed)
    return out


def _of_strings(offsets: Array, data: Array, buckets: int, seed: int) -> Array:
    out = np.empty(len(offsets) - 1, np.int64)
    kernels.hash_strings(out, offsets, data, buckets, seed)
    return out


def _of_arrow(values: Any, buckets: int, seed: int) -> Array:
    """A pyarrow array, by its buffers."""
    if values.null_count:
        raise UsageError(f"hash_buckets: {values.null_count} of {len(values)} values are null; fill them first")
    widths = {"string": np.int32, "large_string": np.int64, "binary": np.int32, "large_binary": np.int64}
    width = widths.get(str(values.type))
    if width is None:
        return hash_buckets(values.to_numpy(zero_copy_only=False), buckets, seed=seed)
    _, places, data = values.buffers()
    if not len(values):
        return np.empty(0, np.int64)
    offsets = np.frombuffer(places, width)[values.offset : values.offset + len(values) + 1]
    found = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return _of_strings(offsets, found, buckets, seed)
