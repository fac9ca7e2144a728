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
    cdef cppclass Recurrence[T]:
        int64_t n, steps, hidden
        bint reverse
        const int64_t* lengths
        const T* w
        const T* gates
        const T* bias
        const T* h0
        const T* c0
        T* y
        T* h
        T* c
        T* acts
        T* before
        const T* gy
        const T* gh
        const T* gc
        const T* acts_in
        const T* before_in
        T* dgates
        T* dh0
        T* dc0
        T* dlast
        T* dw
        T* dbias
    cdef cppclass CellsTable[T]:
        void* forward
        void* backward
    CellsTable[T]* cells_table[T](const T* any) noexcept nogil


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
    if real_type(cell, y) == cnp.NPY_FLOAT:
        run_forward(<float>0, cell, y, h, c, acts, before, gates, w, bias, h0, c0, lengths, reverse)
    else:
        run_forward(<double>0, cell, y, h, c, acts, before, gates, w, bias, h0, c0, lengths, reverse)


cdef int run_forward(real any, str cell, cnp.ndarray y, cnp.ndarray h, c, cnp.ndarray acts, cnp.ndarray before,
                     cnp.ndarray gates, cnp.ndarray w, bias, h0, c0, lengths, bint reverse) except -1:
    cdef Recurrence[real] r
    cdef int kind = real_type(cell, y), number, counts, kept
    number, counts, kept = CELLS[cell]
    cdef int64_t n = y.shape[0], steps = y.shape[1], hidden = y.shape[2], size = n * hidden
    r.n, r.steps, r.hidden, r.reverse = n, steps, hidden, reverse
    r.lengths = lengths_of(cell, lengths, n, steps)
    r.w = <real*>data_of(cell, "w", w, kind, hidden * counts * hidden)
    r.gates = <real*>data_of(cell, "gates", gates, kind, size * steps * counts)
    r.bias = <real*>optional_data(cell, "bias", bias, kind, counts * hidden)
    r.h0 = <real*>optional_data(cell, "h0", h0, kind, size)
    r.c0 = <real*>optional_data(cell, "c0", c0, kind, size)
    r.y = <real*>data_of(cell, "y", y, kind, size * steps)
    r.h = <real*>data_of(cell, "h", h, kind, size)
    r.c = <real*>data_of(cell, "c", c, kind, size) if number == kLstm else NULL
    r.acts = <real*>data_of(cell, "acts", acts, kind, size * steps * kept)
    r.before = <real*>data_of(cell, "before", before, kind, size * steps)
    with nogil:
        launch(cells_table(<real*>NULL).forward, number, r)
    return 0


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
    if real_type(cell, before) == cnp.NPY_FLOAT:
        run_backward(<float>0, cell, dgates, dlast, dh0, dc0, dw, dbias, gy, gh, gc, w, lengths, acts, before, reverse)
    else:
        run_backward(<double>0, cell, dgates, dlast, dh0, dc0, dw, dbias, gy, gh, gc, w, lengths, acts, before, reverse)


cdef int run_backward(real any, str cell, cnp.ndarray dgates, dlast, cnp.ndarray dh0, dc0, cnp.ndarray dw, dbias, gy, gh, gc,
                      cnp.ndarray w, lengths, cnp.ndarray acts, cnp.ndarray before, bint reverse) except -1:
    cdef Recurrence[real] r
    cdef int kind = real_type(cell, before), number, counts, kept
    number, counts, kept = CELLS[cell]
    cdef int64_t n = before.shape[0], steps = before.shape[1], hidden = before.shape[2], size = n * hidden
    r.n, r.steps, r.hidden, r.reverse = n, steps, hidden, reverse
    r.lengths = lengths_of(cell, lengths, n, steps)
    r.w = <real*>data_of(cell, "w", w, kind, hidden * counts * hidden)
    r.gy = <real*>optional_data(cell, "gy", gy, kind, size * steps)
    r.gh = <real*>optional_data(cell, "gh", gh, kind, size)
    r.gc = <real*>optional_data(cell, "gc", gc, kind, size)
    r.acts_in = <real*>data_of(cell, "acts", acts, kind, size * steps * kept)
    r.before_in = <real*>data_of(cell, "before", before, kind, size * steps)
    r.dgates = <real*>data_of(cell, "dgates", dgates, kind, size * steps * counts)
    r.dlast = <real*>data_of(cell, "dlast", dlast, kind, size * steps) if number == kGru else NULL
    r.dh0 = <real*>data_of(cell, "dh0", dh0, kind, size)
    r.dc0 = <real*>data_of(cell, "dc0", dc0, kind, size) if number == kLstm else NULL
    r.dw = <real*>data_of(cell, "dw", dw, kind, hidden * counts * hidden)
    r.dbias = <real*>optional_data(cell, "dbias", dbias, kind, counts * hidden)
    with nogil:
        launch(cells_table(<real*>NULL).backward, number, r)
    return 0
