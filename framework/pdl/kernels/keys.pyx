"""Tables of rows that are found by 64-bit keys: places of rows, the keys of a batch dealt out to servers, first values.

A table of places is int64 [size, 2]: (~key, place) in each slot; zeros are a table without keys. Calls of one table exclude each other.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp
from libcpp cimport bool as cbool

from pdl.errors import ShapeError

cdef extern from "keys.h" namespace "pdl::keys":
    cdef struct Place:
        pass
    int64_t c_find "pdl::keys::find"(int64_t* places, const Place* slots, int64_t size, const int64_t* keys, int64_t n,
                                     uint64_t seed) noexcept nogil
    void c_put "pdl::keys::put"(Place* slots, int64_t size, const int64_t* keys, const int64_t* places, int64_t n,
                                uint64_t seed) noexcept nogil
    int64_t c_items "pdl::keys::items"(int64_t* keys, int64_t* places, const Place* slots, int64_t size) noexcept nogil
    int64_t c_drop "pdl::keys::drop"(Place* slots, int64_t size, const int64_t* keys, int64_t n, uint64_t seed) noexcept nogil
    void c_grow "pdl::keys::grow"(Place* slots, int64_t before, int64_t size, uint64_t seed) except + nogil
    void c_sum "pdl::keys::sum"(float* values, const int64_t* back, const float* g, int64_t rows, int64_t n, int64_t columns) noexcept nogil
    void c_deal "pdl::keys::deal"(int64_t* keys, int64_t* back, int64_t* order, int64_t* starts, const int64_t* index, int64_t n,
                                  int64_t parts, int64_t left_out, uint64_t seed) except + nogil
    void c_draw "pdl::keys::draw"(float* out, const int64_t* keys, int64_t n, int64_t columns, uint64_t seed, cbool normal, float a,
                                  float b) noexcept nogil


cdef int demand(int64_t got, int64_t n, const int64_t[:, ::1] slots) except -1:
    if got != n or slots.shape[0] < 1 or slots.shape[1] != 2:
        raise ShapeError(f"keys: {got} places for {n} keys, slots {slots.shape[0], slots.shape[1]}; expected [size, 2]")
    return 0


def find(
    int64_t[::1] places not None,           # OUT [n] where the keys lie; -1: not there
    const int64_t[:, ::1] slots not None,   # IN  [size, 2]
    const int64_t[::1] keys not None,       # IN  [n]
    uint64_t seed,
):
    """How many keys are not there."""
    cdef int64_t n = keys.shape[0], lacking
    demand(places.shape[0], n, slots)
    if n == 0:
        return 0
    with nogil:
        lacking = c_find(&places[0], <const Place*>&slots[0, 0], slots.shape[0], &keys[0], n, seed)
    return lacking


def same(
    const int64_t[::1] a not None,  # IN [n]
    const int64_t[::1] b not None,  # IN [n]
):
    """Whether all keys are equal, in their order."""
    cdef int64_t n = a.shape[0]
    cdef int differ
    if b.shape[0] != n:
        return False
    if n == 0:
        return True
    with nogil:
        differ = memcmp(&a[0], &b[0], n * sizeof(int64_t))
    return differ == 0


def put(
    int64_t[:, ::1] slots not None,         # IN/OUT [size, 2], of which more than n are empty
    const int64_t[::1] keys not None,       # IN  [n] that are not there, each once
    const int64_t[::1] places not None,     # IN  [n]
    uint64_t seed,
):
    """Take in keys."""
    cdef int64_t n = keys.shape[0]
    demand(places.shape[0], n, slots)
    if n >= slots.shape[0]:
        raise ShapeError(f"keys: {n} keys do not go into {slots.shape[0]} slots")
    if n:
        with nogil:
            c_put(<Place*>&slots[0, 0], slots.shape[0], &keys[0], &places[0], n, seed)


def items(
    int64_t[::1] keys not None,             # OUT [n], n: `count`
    int64_t[::1] places not None,           # OUT [n]
    const int64_t[:, ::1] slots not None,   # IN  [size, 2]
):
    """All keys and their places."""
    cdef int64_t n = keys.shape[0]
    demand(places.shape[0], n, slots)
    if n != count(slots):
        raise ShapeError(f"keys: there are {count(slots)}, not {n}")
    if n:
        with nogil:
            c_items(&keys[0], &places[0], <const Place*>&slots[0, 0], slots.shape[0])


cdef int64_t count(const int64_t[:, ::1] slots) noexcept:
    return c_items(NULL, NULL, <const Place*>&slots[0, 0], slots.shape[0])


def drop(
    int64_t[:, ::1] slots not None,         # IN/OUT [size, 2]
    const int64_t[::1] keys not None,       # IN  [n]
    uint64_t seed,
):
    """Forget keys, whose slots stay taken. How many were there."""
    cdef int64_t n = keys.shape[0], dropped
    demand(n, n, slots)
    if n == 0:
        return 0
    with nogil:
        dropped = c_drop(<Place*>&slots[0, 0], slots.shape[0], &keys[0], n, seed)
    return dropped


def grow(
    int64_t[:, ::1] slots not None,         # IN/OUT [size, 2], empty from `before` on
    int64_t before,                         # slots that it had
    uint64_t seed,
):
    """A table of `before` slots takes all of `slots`, and forgets which slots were taken by keys that are gone."""
    demand(0, 0, slots)
    if not 0 <= before <= slots.shape[0]:
        raise ShapeError(f"keys: {slots.shape[0]} slots cannot have been {before}")
    with nogil:
        c_grow(<Place*>&slots[0, 0], before, slots.shape[0], seed)


def sum(
    float[:, ::1] values not None,      # OUT [k, C]
    const int64_t[::1] back not None,   # IN  [n] below k; negative ones name no row
    const float[:, ::1] g not None,     # IN  [n, C]
):
    """values[k] = the sum of the g[i] with back[i] = k, in the order of i."""
    cdef int64_t n = back.shape[0], rows = values.shape[0], columns = values.shape[1], i, most = -1
    if g.shape[0] != n or g.shape[1] != columns:
        raise ShapeError(f"sum: g {g.shape[0], g.shape[1]} does not fit {n} places of rows of {columns}")
    with nogil:
        for i in range(n):
            most = max(most, back[i])
    if most >= rows:
        raise ShapeError(f"sum: place {most} is outside the {rows} rows")
    if rows and columns:
        with nogil:
            c_sum(&values[0, 0], &back[0] if n else NULL, &g[0, 0] if n else NULL, rows, n, columns)


def deal(
    int64_t[::1] keys not None,         # OUT [n] the keys in index, each once, by part and in each part in order
    int64_t[::1] back not None,         # OUT [n] where in keys that of index is; -1: none
    int64_t[::1] order not None,        # OUT [n] the number of a key among all of them, in order
    int64_t[::1] starts not None,       # OUT [parts + 1] where in keys the parts begin, and their end
    const int64_t[::1] index not None,  # IN  [n] negative ones name no key
    *,
    int64_t left_out=-1,                # a number that counts as none
    uint64_t seed=0,
):
    """The keys of a batch, dealt out to parts: floor(SplitMix64(key, seed) parts / 2^64) is that of a key."""
    cdef int64_t n = index.shape[0], parts = starts.shape[0] - 1
    if parts < 1 or keys.shape[0] != n or back.shape[0] != n or order.shape[0] != n:
        raise ShapeError(f"deal: keys {keys.shape[0]}, back {back.shape[0]}, order {order.shape[0]}, starts {starts.shape[0]} do not fit "
                         f"an index of {n}")
    if n == 0:
        starts[:] = 0
        return
    with nogil:
        c_deal(&keys[0], &back[0], &order[0], &starts[0], &index[0], n, parts, left_out, seed)


def draw(
    float[:, ::1] out not None,         # OUT [n, C]
    const int64_t[::1] keys not None,   # IN  [n]
    uint64_t seed,
    bint normal,
    float a,
    float b,
):
    """N(a, b^2), or U(a, b): a function of (seed, key, column)."""
    cdef int64_t n = keys.shape[0], columns = out.shape[1]
    if out.shape[0] != n:
        raise ShapeError(f"draw: out has {out.shape[0]} rows for {n} keys")
    if n and columns:
        with nogil:
            c_draw(&out[0, 0], &keys[0], n, columns, seed, normal, a, b)
