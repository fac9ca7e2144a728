"""Recurrent layers, one direction and all steps in one call: forward, and the gradients.

G gates and A kept values a unit: "rnn" 1 and 1, "gru" 3 and 4, "lstm" 4 and 5; see table.h.
"""

include "checks.pxi"

cdef extern from "bounds.h" namespace "pdl":
    void* first_outside "&pdl::first_outside"

cdef extern from "table.h" namespace "pdl":
    cdef enum Cell:
        kRnn
        kGru
        kLstm
    cdef cppclass Recurrence "pdl::Recurrence<void>":
        int64_t n, steps, hidden
        bint reverse
        const int64_t* lengths
        const void* w
        const void* gates
        const void* bias
        const void* h0
        const void* c0
        void* y
        void* h
        void* c
        void* acts
        void* before
        const void* gy
        const void* gh
        const void* gc
        const void* acts_in
        const void* before_in
        void* dgates
        void* dh0
        void* dc0
        void* dlast
        void* dw
        void* dbias

cdef extern from "stored.h":
    int64_t launch_forward "PDL_REAL(cells, forward)"(int kind, ...) except + nogil
    int64_t launch_backward "PDL_REAL(cells, backward)"(int kind, ...) except + nogil


CELLS = {"rnn": (kRnn, 1, 1), "gru": (kGru, 3, 4), "lstm": (kLstm, 4, 5)}


cdef const int64_t* lengths_of(str name, object lengths, int64_t n, int64_t steps) except? NULL:
    """The memory of lengths [n], each checked to lie in [0, steps]; NULL for None."""
    cdef const int64_t* found = <const int64_t*>optional_data(name, "lengths", lengths, cnp.NPY_INT64, n)
    cdef int64_t bad = 0 if found == NULL else launch(first_outside, found, n, <int64_t>0, steps + 1)
    if bad:
        raise ShapeError(f"{name}: lengths[{bad - 1}] is {found[bad - 1]}, the sequences have 0 to {steps} steps")
    return found


def forward(
    str cell not None,
    cnp.ndarray y not None,         # OUT [N, L, H]
    cnp.ndarray h not None,         # OUT [N, H] the last state
    c,                              # OUT [N, H] with "lstm", else None
    cnp.ndarray acts not None,      # OUT [N, L, A H] what the gradient needs
    cnp.ndarray before not None,    # OUT [N, L, H] the state before each step
    cnp.ndarray gates not None,     # IN  [N, L, G H] the input's part
    cnp.ndarray w not None,         # IN  [H, G H]
    bias,                           # IN  [G H] or None, added to the product with the state
    h0,                             # IN  [N, H] or None: zeros
    c0,                             # IN  [N, H] or None: zeros
    lengths,                        # IN  int64 [N] or None
    *,
    bint reverse=False,
):
    """All steps of a layer in one direction."""
    cdef Recurrence r
    cdef int kind = real_type(cell, y), number, counts, kept
    number, counts, kept = CELLS[cell]
    cdef int64_t n = y.shape[0], steps = y.shape[1], hidden = y.shape[2], size = n * hidden
    r.n, r.steps, r.hidden, r.reverse = n, steps, hidden, reverse
    r.lengths = lengths_of(cell, lengths, n, steps)
    r.w = data_of(cell, "w", w, kind, hidden * counts * hidden)
    r.gates = data_of(cell, "gates", gates, kind, size * steps * counts)
    r.bias = optional_data(cell, "bias", bias, kind, counts * hidden)
    r.h0 = optional_data(cell, "h0", h0, kind, size)
    r.c0 = optional_data(cell, "c0", c0, kind, size)
    r.y = data_of(cell, "y", y, kind, size * steps)
    r.h = data_of(cell, "h", h, kind, size)
    r.c = data_of(cell, "c", c, kind, size) if number == kLstm else NULL
    r.acts = data_of(cell, "acts", acts, kind, size * steps * kept)
    r.before = data_of(cell, "before", before, kind, size * steps)
    with nogil:
        launch_forward(kind, number, r)


def backward(
    str cell not None,
    cnp.ndarray dgates not None,    # OUT [N, L, G H]
    dlast,                          # OUT [N, L, H] with "gru" (the state's part of the last gate), else None
    cnp.ndarray dh0 not None,       # OUT [N, H]
    dc0,                            # OUT [N, H] with "lstm", else None
    cnp.ndarray dw not None,        # OUT [H, G H]
    dbias,                          # OUT [G H] or None
    gy,                             # IN  [N, L, H] or None
    gh,                             # IN  [N, H] or None
    gc,                             # IN  [N, H] or None
    cnp.ndarray w not None,         # IN  [H, G H]
    lengths,                        # IN  int64 [N] or None
    cnp.ndarray acts not None,      # IN  [N, L, A H] from `forward`
    cnp.ndarray before not None,    # IN  [N, L, H] from `forward`
    *,
    bint reverse=False,
):
    """Gradients of `forward` with respect to gates, h0, c0, w and bias."""
    cdef Recurrence r
    cdef int kind = real_type(cell, before), number, counts, kept
    number, counts, kept = CELLS[cell]
    cdef int64_t n = before.shape[0], steps = before.shape[1], hidden = before.shape[2], size = n * hidden
    r.n, r.steps, r.hidden, r.reverse = n, steps, hidden, reverse
    r.lengths = lengths_of(cell, lengths, n, steps)
    r.w = data_of(cell, "w", w, kind, hidden * counts * hidden)
    r.gy = optional_data(cell, "gy", gy, kind, size * steps)
    r.gh = optional_data(cell, "gh", gh, kind, size)
    r.gc = optional_data(cell, "gc", gc, kind, size)
    r.acts_in = data_of(cell, "acts", acts, kind, size * steps * kept)
    r.before_in = data_of(cell, "before", before, kind, size * steps)
    r.dgates = data_of(cell, "dgates", dgates, kind, size * steps * counts)
    r.dlast = data_of(cell, "dlast", dlast, kind, size * steps) if number == kGru else NULL
    r.dh0 = data_of(cell, "dh0", dh0, kind, size)
    r.dc0 = data_of(cell, "dc0", dc0, kind, size) if number == kLstm else NULL
    r.dw = data_of(cell, "dw", dw, kind, hidden * counts * hidden)
    r.dbias = optional_data(cell, "dbias", dbias, kind, counts * hidden)
    with nogil:
        launch_backward(kind, number, r)
