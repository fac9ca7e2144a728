"""Random draws of items, counted and not drawn in turn: uniform, or by weights; what a row excludes is left out."""

from libc.stdint cimport int64_t, uint64_t

from pdl.errors import ShapeError, UsageError
from pdl.kernels.launch import now

cdef extern from "sampling.h" namespace "pdl::sampling":
    cdef cppclass Draws:
        uint64_t key
        int64_t rows, k, first, count
        const int64_t* streams
        const double* keep
        const double* weights
        const int64_t* other
        const int64_t* lists
        const int64_t* start
        const int64_t* excluded
    void make_alias "pdl::sampling::alias"(double* keep, int64_t* other, const double* weights, int64_t n) nogil
    void make_draws "pdl::sampling::sample"(int64_t* out, const Draws& d) noexcept nogil


def alias(
    double[::1] keep not None,              # OUT [n]
    int64_t[::1] other not None,            # OUT [n]
    const double[::1] weights not None,     # IN  [n] not negative, sum 1
):
    """Tables for draws in proportion to weights: a place i by equal chances, and there i itself with chance keep[i], else other[i]."""
    cdef int64_t n = weights.shape[0]
    if keep.shape[0] != n or other.shape[0] != n:
        raise ShapeError(f"alias: tables of {keep.shape[0]} and {other.shape[0]} for {n} weights")
    if n:
        with nogil:
            make_alias(&keep[0], &other[0], &weights[0], n)


cdef int check_lists(const int64_t[::1] start, const int64_t[::1] excluded, const int64_t[::1] lists, int64_t rows, int64_t first,
                     int64_t count) except -1:
    """Raise `ShapeError` unless every row has a list in ascending order of items that can be drawn."""
    cdef int64_t i, own, before, r
    if (start is None) != (excluded is None) or (start is None and lists is not None):
        raise ShapeError("sample: start and excluded come together, and lists with both")
    if start is None:
        return 0
    if start.shape[0] < 1 or start[0] != 0 or start[start.shape[0] - 1] != excluded.shape[0] or \
            (lists is None and start.shape[0] != rows + 1) or (lists is not None and lists.shape[0] != rows):
        raise ShapeError(f"sample: {start.shape[0]} starts, {excluded.shape[0]} excluded items and "
                         f"{'no' if lists is None else lists.shape[0]} lists do not fit {rows} rows")
    for r in range(rows):
        own = r if lists is None else lists[r]
        if own < 0 or own + 1 >= start.shape[0]:
            raise ShapeError(f"sample: list {own} of row {r} is none of the {start.shape[0] - 1}")
        if start[own + 1] < start[own] or start[own] < 0 or start[own + 1] > excluded.shape[0]:
            raise ShapeError(f"sample: list {own} begins at {start[own]} and ends at {start[own + 1]}")
        before = first - 1
        for i in range(start[own], start[own + 1]):
            if excluded[i] <= before or excluded[i] >= first + count:
                raise ShapeError(f"sample: item {excluded[i]} in list {own} stands behind {before}; lists are in ascending order, each "
                                 f"item once, of [{first}, {first + count})")
            before = excluded[i]
    return 0


cdef inline const int64_t* integers(const int64_t[::1] array) noexcept:
    if array is None or array.shape[0] == 0:
        return NULL
    return &array[0]


cdef inline const double* reals(const double[::1] array) noexcept:
    if array is None or array.shape[0] == 0:
        return NULL
    return &array[0]


def sample(
    int64_t[:, ::1] out not None,       # OUT [N, k]
    uint64_t key,                       # of the random stream
    *,
    int64_t first,                      # the lowest item
    int64_t count,                      # how many items there are
    const int64_t[::1] streams=None,    # IN  [N] the rows' own streams; 0, 1, ... if not given
    const double[::1] keep=None,        # IN  [count] from `alias`, with
    const int64_t[::1] other=None,      # IN  [count] and
    const double[::1] weights=None,     # IN  [count] what it was made from; all items are as likely if not given
    const int64_t[::1] start=None,      # IN  [L + 1] and
    const int64_t[::1] excluded=None,   # IN  [E]: list l is excluded[start[l]:start[l + 1]], in ascending order
    const int64_t[::1] lists=None,      # IN  [N] the list of items that a row never draws; 0, 1, ... if not given
):
    """Items drawn independently: draw j of a row is a function of (key, its stream, j). Raises `UsageError` where a row excludes all."""
    cdef Draws d
    cdef int64_t rows = out.shape[0], r
    now("sample: lists are checked")
    if count <= 0 or (streams is not None and streams.shape[0] != rows):
        raise ShapeError(f"sample: {count} items, {rows if streams is None else streams.shape[0]} streams for {rows} rows")
    if (keep is None) != (other is None) or (keep is None) != (weights is None) or \
            (keep is not None and not (keep.shape[0] == other.shape[0] == weights.shape[0] == count)):
        raise ShapeError(f"sample: keep, other and weights come together, one for each of the {count} items")
    check_lists(start, excluded, lists, rows, first, count)
    if rows == 0 or out.shape[1] == 0:
        return
    d.key, d.rows, d.k, d.first, d.count = key, rows, out.shape[1], first, count
    d.streams, d.other, d.lists = integers(streams), integers(other), integers(lists)
    d.start, d.excluded = integers(start), integers(excluded)
    d.keep, d.weights = reals(keep), reals(weights)
    with nogil:
        make_draws(&out[0, 0], d)
    for r in range(rows):
        if out[r, 0] < first:
            raise UsageError(f"sample: row {r} excludes every item that could be drawn")
