"""Linear-chain conditional random fields: loss and gradient, probabilities of tags, the best tags; see crf.h."""

include "checks.pxi"

from pdl.kernels.launch import now

cdef extern from "bounds.h" namespace "pdl":
    void* first_outside "&pdl::first_outside"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass CrfBatch "pdl::CrfBatch<void>":
        const void* emissions
        const void* transitions
        const void* starts
        const void* ends
        const int64_t* tags
        const int64_t* lengths
        int64_t n, t, k

cdef extern from "stored.h":
    int64_t launch_loss "PDL_REAL(crf, loss)"(int kind, ...) except + nogil
    int64_t launch_gradient "PDL_REAL(crf, gradient)"(int kind, ...) except + nogil
    int64_t launch_marginals "PDL_REAL(crf, marginals)"(int kind, ...) except + nogil
    int64_t launch_decode "PDL_REAL(crf, decode)"(int kind, ...) except + nogil


cdef CrfBatch batch_of(str name, cnp.ndarray emissions, cnp.ndarray lengths, cnp.ndarray transitions, cnp.ndarray starts,
                       cnp.ndarray ends) except *:
    """The arrays, checked: shapes, and lengths in [0, T]."""
    cdef CrfBatch b
    cdef int kind = real_type(name, emissions)
    if cnp.PyArray_NDIM(emissions) != 3 or emissions.shape[2] < 1:
        raise ShapeError(f"{name}: emissions {(<object>emissions).shape} must be [N, T, K] with K of at least 1")
    b.n, b.t, b.k = emissions.shape[0], emissions.shape[1], emissions.shape[2]
    b.emissions = data_of(name, "emissions", emissions, kind, b.n * b.t * b.k)
    b.transitions = data_of(name, "transitions", transitions, kind, b.k * b.k)
    b.starts = data_of(name, "starts", starts, kind, b.k)
    b.ends = data_of(name, "ends", ends, kind, b.k)
    b.lengths = <const int64_t*>data_of(name, "lengths", lengths, cnp.NPY_INT64, b.n)
    b.tags = NULL
    cdef int64_t bad = launch(first_outside, b.lengths, b.n, <int64_t>0, b.t + 1)
    if bad:
        raise ShapeError(f"{name}: lengths[{bad - 1}] is {b.lengths[bad - 1]}, the sequences have 0 to {b.t} steps")
    return b


cdef int read_tags(CrfBatch* b, cnp.ndarray tags) except -1:
    """Tags [N, T]; raise where one within its length is none of the K."""
    cdef int64_t i, j
    now("crf: tags are checked")
    b.tags = <const int64_t*>data_of("crf", "tags", tags, cnp.NPY_INT64, b.n * b.t)
    for i in range(b.n):
        for j in range(b.lengths[i]):
            if b.tags[i * b.t + j] < 0 or b.tags[i * b.t + j] >= b.k:
                raise ShapeError(f"crf: tag {b.tags[i * b.t + j]} at {j} of sequence {i} must be in [0, {b.k})")
    return 0


def loss(
    cnp.ndarray out not None,           # OUT [N]
    cnp.ndarray emissions not None,     # IN  [N, T, K]
    cnp.ndarray tags not None,          # IN  int64 [N, T], anything behind the last one
    cnp.ndarray lengths not None,       # IN  int64 [N] up to T
    cnp.ndarray transitions not None,   # IN  [K, K] from row to column
    cnp.ndarray starts not None,        # IN  [K]
    cnp.ndarray ends not None,          # IN  [K]
):
    """out = -log p(tags), infinite where a score of them is -infinity."""
    cdef CrfBatch b = batch_of("crf", emissions, lengths, transitions, starts, ends)
    cdef int kind = real_type("crf", emissions)
    read_tags(&b, tags)
    cdef void* to = data_of("crf", "out", out, kind, b.n)
    with nogil:
        launch_loss(kind, to, b)


def gradient(
    cnp.ndarray d_emissions not None,   # OUT [N, T, K]
    cnp.ndarray d_transitions not None,  # OUT [K, K]
    cnp.ndarray d_starts not None,      # OUT [K]
    cnp.ndarray d_ends not None,        # OUT [K]
    cnp.ndarray g not None,             # IN  [N]
    cnp.ndarray emissions not None,     # IN  as of `loss`
    cnp.ndarray tags not None,
    cnp.ndarray lengths not None,
    cnp.ndarray transitions not None,
    cnp.ndarray starts not None,
    cnp.ndarray ends not None,
):
    """The gradients of the sum of g times the loss; those of infinite losses are 0."""
    cdef CrfBatch b = batch_of("crf", emissions, lengths, transitions, starts, ends)
    cdef int kind = real_type("crf", emissions)
    read_tags(&b, tags)
    cdef void* de = data_of("crf", "d_emissions", d_emissions, kind, b.n * b.t * b.k)
    cdef void* dt = data_of("crf", "d_transitions", d_transitions, kind, b.k * b.k)
    cdef void* ds = data_of("crf", "d_starts", d_starts, kind, b.k)
    cdef void* dn = data_of("crf", "d_ends", d_ends, kind, b.k)
    cdef void* pg = data_of("crf", "g", g, kind, b.n)
    with nogil:
        launch_gradient(kind, de, dt, ds, dn, pg, b)


def marginals(
    cnp.ndarray out not None,           # OUT [N, T, K]
    cnp.ndarray emissions not None,     # IN  as of `loss`
    cnp.ndarray lengths not None,
    cnp.ndarray transitions not None,
    cnp.ndarray starts not None,
    cnp.ndarray ends not None,
):
    """out = the probability of each tag at each step, 0 behind the last one."""
    cdef CrfBatch b = batch_of("crf", emissions, lengths, transitions, starts, ends)
    cdef int kind = real_type("crf", emissions)
    cdef void* to = data_of("crf", "out", out, kind, b.n * b.t * b.k)
    with nogil:
        launch_marginals(kind, to, b)


def decode(
    cnp.ndarray tags not None,          # OUT int64 [N, T], -1 behind the last one
    cnp.ndarray emissions not None,     # IN  as of `loss`
    cnp.ndarray lengths not None,
    cnp.ndarray transitions not None,
    cnp.ndarray starts not None,
    cnp.ndarray ends not None,
):
    """tags = those with the highest score."""
    cdef CrfBatch b = batch_of("crf", emissions, lengths, transitions, starts, ends)
    cdef int kind = real_type("crf", emissions)
    cdef void* to = data_of("crf", "tags", tags, cnp.NPY_INT64, b.n * b.t)
    with nogil:
        launch_decode(kind, to, b)
