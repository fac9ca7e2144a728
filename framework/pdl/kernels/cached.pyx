"""Attention to what a row has kept, which the new positions join; see cached.h. float32, float64, bfloat16 (sums in float32)."""

include "stored.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef struct CachedCall:
        int64_t rows, t, room, heads, kv_heads, e, d
        void* y
        void* keys
        void* values
        const void* q
        const void* k
        const void* v
        const int64_t* lengths
        const int64_t* counts
        double scale

cdef extern from "stored.h":
    int64_t launch_attend "PDL_STORED(cached, attend)"(int kind, ...) except + nogil


def attend(
    cnp.ndarray y not None,         # OUT [R, T, heads D]
    cnp.ndarray keys not None,      # IN OUT [R, room, kv_heads E]: positions behind lengths + counts are neither read nor written
    cnp.ndarray values not None,    # IN OUT [R, room, kv_heads D]
    cnp.ndarray q not None,         # IN  [R, T, heads E]
    cnp.ndarray k not None,         # IN  [R, T, kv_heads E]
    cnp.ndarray v not None,         # IN  [R, T, kv_heads D]
    cnp.ndarray lengths not None,   # IN  int64 [R] positions that are kept
    cnp.ndarray counts not None,    # IN  int64 [R] how many of the T are real
    int64_t heads,
    int64_t kv_heads,
    double scale,
):
    """k and v of the first `counts` positions go behind the `lengths` first of their row; y = softmax(scale q keys^T) values of those up to
    each position, 0 behind `counts`. ShapeError where they do not fit the room."""
    cdef CachedCall c
    cdef int kind = stored_type("cached_attention", q)
    if q.ndim != 3 or keys.ndim != 3 or kv_heads < 1 or heads < 1 or heads % kv_heads or q.shape[2] % heads or values.ndim != 3 \
            or values.shape[2] % kv_heads:
        raise ShapeError(f"cached_attention: q {(<object>q).shape} and keys {(<object>keys).shape} with {heads} heads, {kv_heads} of keys")
    c.rows, c.t, c.room, c.heads, c.kv_heads = q.shape[0], q.shape[1], keys.shape[1], heads, kv_heads
    c.e, c.d, c.scale = q.shape[2] // heads, values.shape[2] // kv_heads, scale
    c.q = data_of("cached_attention", "q", q, kind, c.rows * c.t * heads * c.e)
    c.k = data_of("cached_attention", "k", k, kind, c.rows * c.t * kv_heads * c.e)
    c.v = data_of("cached_attention", "v", v, kind, c.rows * c.t * kv_heads * c.d)
    c.y = data_of("cached_attention", "y", y, kind, c.rows * c.t * heads * c.d)
    c.keys = data_of("cached_attention", "keys", keys, kind, c.rows * c.room * kv_heads * c.e)
    c.values = data_of("cached_attention", "values", values, kind, c.rows * c.room * kv_heads * c.d)
    c.lengths = <const int64_t*>data_of("cached_attention", "lengths", lengths, cnp.NPY_INT64, c.rows)
    c.counts = <const int64_t*>data_of("cached_attention", "counts", counts, cnp.NPY_INT64, c.rows)
    cdef int64_t bad
    with nogil:
        bad = launch_attend(kind, c)
    if bad:
        raise ShapeError(f"cached_attention: row {bad - 1} has {c.lengths[bad - 1]} positions and {c.counts[bad - 1]} more of {c.t}; "
                         f"there is room for {c.room}")
