"""Recurrent cells: the elementwise half of an LSTM or GRU step, and its gradient."""

include "checks.pxi"

cdef extern from "table.h" namespace "pdl":
    cdef cppclass CellsTable[T]:
        void lstm(T* h, T* after, const T* gates, const T* c, int64_t n, int64_t hidden) noexcept nogil
        void lstm_grad(T* dgates, T* dc, const T* gh, const T* gc, const T* gates, const T* c, int64_t n,
                       int64_t hidden) noexcept nogil
        void gru(T* after, const T* gi, const T* gh, const T* h, int64_t n, int64_t hidden) noexcept nogil
        void gru_grad(T* di, T* dh_gates, T* dh, const T* g, const T* gi, const T* gh, const T* h, int64_t n,
                      int64_t hidden) noexcept nogil
    CellsTable[T]* cells_table[T](const T* any) noexcept nogil


def lstm(
    cnp.ndarray h not None,         # OUT [N, H]
    cnp.ndarray after not None,     # OUT [N, H] the next c
    cnp.ndarray gates not None,     # IN  [N, 4 H] in the order i, f, g, o
    cnp.ndarray c not None,         # IN  [N, H]
):
    """c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c')."""
    cdef int kind = real_type("lstm", h)
    cdef int64_t n = h.shape[0], hidden = h.shape[1], size = n * hidden
    cdef void* y = data_of("lstm", "h", h, kind, size)
    cdef void* z = data_of("lstm", "after", after, kind, size)
    cdef void* p = data_of("lstm", "gates", gates, kind, 4 * size)
    cdef void* q = data_of("lstm", "c", c, kind, size)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            cells_table(<float*>y).lstm(<float*>y, <float*>z, <float*>p, <float*>q, n, hidden)
        else:
            cells_table(<double*>y).lstm(<double*>y, <double*>z, <double*>p, <double*>q, n, hidden)


def lstm_grad(
    cnp.ndarray dgates not None,    # OUT [N, 4 H]
    cnp.ndarray dc not None,        # OUT [N, H]
    gh,                             # IN  [N, H] gradient of h', or None
    gc,                             # IN  [N, H] gradient of c', or None
    cnp.ndarray gates not None,     # IN  [N, 4 H]
    cnp.ndarray c not None,         # IN  [N, H]
):
    """Gradients of `lstm` with respect to gates and c."""
    cdef int kind = real_type("lstm_grad", dc)
    cdef int64_t n = dc.shape[0], hidden = dc.shape[1], size = n * hidden
    cdef void* d = data_of("lstm_grad", "dgates", dgates, kind, 4 * size)
    cdef void* e = data_of("lstm_grad", "dc", dc, kind, size)
    cdef void* f = optional_data("lstm_grad", "gh", gh, kind, size)
    cdef void* g = optional_data("lstm_grad", "gc", gc, kind, size)
    cdef void* p = data_of("lstm_grad", "gates", gates, kind, 4 * size)
    cdef void* q = data_of("lstm_grad", "c", c, kind, size)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            cells_table(<float*>d).lstm_grad(<float*>d, <float*>e, <float*>f, <float*>g, <float*>p, <float*>q, n,
                                             hidden)
        else:
            cells_table(<double*>d).lstm_grad(<double*>d, <double*>e, <double*>f, <double*>g, <double*>p, <double*>q, n,
                                              hidden)


def gru(
    cnp.ndarray after not None,     # OUT [N, H]
    cnp.ndarray gi not None,        # IN  [N, 3 H] from the input, in the order r, z, n
    cnp.ndarray gh not None,        # IN  [N, 3 H] from the state
    cnp.ndarray h not None,         # IN  [N, H]
):
    """h' = n + s(gi_z + gh_z) (h - n) with n = tanh(gi_n + s(gi_r + gh_r) gh_n)."""
    cdef int kind = real_type("gru", after)
    cdef int64_t n = after.shape[0], hidden = after.shape[1], size = n * hidden
    cdef void* y = data_of("gru", "after", after, kind, size)
    cdef void* p = data_of("gru", "gi", gi, kind, 3 * size)
    cdef void* q = data_of("gru", "gh", gh, kind, 3 * size)
    cdef void* r = data_of("gru", "h", h, kind, size)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            cells_table(<float*>y).gru(<float*>y, <float*>p, <float*>q, <float*>r, n, hidden)
        else:
            cells_table(<double*>y).gru(<double*>y, <double*>p, <double*>q, <double*>r, n, hidden)


def gru_grad(
    cnp.ndarray di not None,            # OUT [N, 3 H] gradient of gi
    cnp.ndarray dh_gates not None,      # OUT [N, 3 H] gradient of gh
    cnp.ndarray dh not None,            # OUT [N, H]
    cnp.ndarray g not None,             # IN  [N, H] gradient of h'
    cnp.ndarray gi not None,            # IN  [N, 3 H]
    cnp.ndarray gh not None,            # IN  [N, 3 H]
    cnp.ndarray h not None,             # IN  [N, H]
):
    """Gradients of `gru`."""
    cdef int kind = real_type("gru_grad", dh)
    cdef int64_t n = dh.shape[0], hidden = dh.shape[1], size = n * hidden
    cdef void* a = data_of("gru_grad", "di", di, kind, 3 * size)
    cdef void* b = data_of("gru_grad", "dh_gates", dh_gates, kind, 3 * size)
    cdef void* c = data_of("gru_grad", "dh", dh, kind, size)
    cdef void* d = data_of("gru_grad", "g", g, kind, size)
    cdef void* p = data_of("gru_grad", "gi", gi, kind, 3 * size)
    cdef void* q = data_of("gru_grad", "gh", gh, kind, 3 * size)
    cdef void* r = data_of("gru_grad", "h", h, kind, size)
    with nogil:
        if kind == cnp.NPY_FLOAT:
            cells_table(<float*>a).gru_grad(<float*>a, <float*>b, <float*>c, <float*>d, <float*>p, <float*>q,
                                            <float*>r, n, hidden)
        else:
            cells_table(<double*>a).gru_grad(<double*>a, <double*>b, <double*>c, <double*>d, <double*>p, <double*>q,
                                             <double*>r, n, hidden)
