"""Names and numbers to buckets, the same on every machine."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from pdl.errors import ShapeError

ctypedef fused offset:
    int32_t
    int64_t

cdef extern from "hashing.h" namespace "pdl::hashing":
    uint64_t of_bytes(const char* p, int64_t n, uint64_t seed) noexcept nogil
    void numbers "pdl::hashing::numbers"(int64_t* out, const int64_t* values, int64_t n, int64_t buckets, uint64_t seed) noexcept nogil
    void strings[O](int64_t* out, const O* offsets, const char* data, int64_t n, int64_t buckets, uint64_t seed) noexcept nogil
    int64_t first_bad_offset[O](const O* offsets, int64_t n, int64_t size) noexcept nogil


cdef int demand(int64_t got, int64_t n, int64_t buckets) except -1:
    if got != n:
        raise ShapeError(f"hash: out has {got} places for {n} values")
    if buckets < 1:
        raise ShapeError(f"hash: {buckets} buckets; there must be at least one")
    return 0


def hash_numbers(
    int64_t[::1] out not None,              # OUT [n] in [0, buckets)
    const int64_t[::1] values not None,     # IN  [n]
    int64_t buckets,
    uint64_t seed=0,
):
    """out[i] = floor(SplitMix64(values[i], seed) buckets / 2^64)."""
    demand(out.shape[0], values.shape[0], buckets)
    if values.shape[0]:
        with nogil:
            numbers(&out[0], &values[0], values.shape[0], buckets, seed)


def hash_strings(
    int64_t[::1] out not None,              # OUT [n] in [0, buckets)
    const offset[::1] offsets not None,     # IN  [n + 1] rising, int32 or int64
    const unsigned char[::1] data not None,  # IN  the bytes of all strings
    int64_t buckets,
    uint64_t seed=0,
):
    """out[i] = floor(XXH64(data[offsets[i]:offsets[i + 1]], seed) buckets / 2^64): the layout of Arrow's string arrays."""
    cdef int64_t n = offsets.shape[0] - 1, bad
    cdef const char* start = NULL
    demand(out.shape[0], n, buckets)
    if n < 1:
        return
    bad = first_bad_offset(&offsets[0], n, data.shape[0])
    if bad:
        raise ShapeError(f"hash: offset {offsets[bad - 1]} at place {bad - 1} falls, or leaves the {data.shape[0]} bytes")
    if data.shape[0]:
        start = <const char*>&data[0]
    with nogil:
        strings(&out[0], &offsets[0], start, n, buckets, seed)


def xxh64(const unsigned char[::1] data not None, uint64_t seed=0):
    """The XXH64 of some bytes."""
    cdef const char* start = NULL
    if data.shape[0]:
        start = <const char*>&data[0]
    return of_bytes(start, data.shape[0], seed)
