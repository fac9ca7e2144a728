"""State vectors of qubits: programs of gates in place, adjoint gradients, sums of products of Pauli matrices, measurements.

A batch of states is complex [B, 2^n]; programs speak of the bits of an amplitude's index. Programs, groups and the meaning of their slots
are those of src/statevector.h, src/statevector_grad.h and src/pauli.h; `pdl_quantum.circuits` makes them and is trusted here.
"""

include "checks.pxi"

cdef extern from "stored.h":
    void call_run "PDL_CALL(statevector, run)"(int kind, ...) except + nogil
    void call_backward "PDL_CALL(statevector, backward)"(int kind, ...) except + nogil
    void call_pauli "PDL_CALL(statevector, pauli)"(int kind, ...) except + nogil
    void call_probabilities "PDL_CALL(statevector, probabilities)"(int kind, ...) except + nogil
    void call_sample "PDL_CALL(statevector, sample)"(int kind, ...) except + nogil

ctypedef fused number:
    float complex
    double complex


cdef inline int kind_of(const number* z) noexcept nogil:
    """The type of the parts of complex numbers."""
    return cnp.NPY_DOUBLE if number is doublecomplex else cnp.NPY_FLOAT


LEAST = 4
"""The fewest qubits of a state for `pauli` and `expectation`, which take vectors of amplitudes."""


cdef int qubits(str name, int64_t size) except -1:
    """log2 of a state's size."""
    cdef int n = 0
    while (<int64_t>1 << n) < size:
        n += 1
    if (<int64_t>1 << n) != size:
        raise ShapeError(f"{name}: {size} amplitudes are no power of two")
    return n


cdef int64_t stride_of(str name, const double[:, ::1] values, int64_t states) except -1:
    """What lies between the rows of values: 0 where all states share one."""
    if values.shape[0] != 1 and values.shape[0] != states:
        raise ShapeError(f"{name}: {values.shape[0]} rows of values for {states} states; give one, or one for each")
    return values.shape[1] if values.shape[0] > 1 else 0


def run(
    number[:, ::1] z not None,               # INOUT [B, 2^n]
    const int64_t[::1] program not None,     # IN
    const double[:, ::1] values not None,    # IN [B or 1, slots]
    bint zero=False,                         # begin with |0...0>, whatever z holds
):
    """Apply a program to every state."""
    cdef int n = qubits("statevector", z.shape[1])
    cdef int64_t stride = stride_of("statevector", values, z.shape[0])
    if z.shape[0] == 0:
        return
    cdef const double* row = &values[0, 0] if values.shape[1] else NULL
    with nogil:
        call_run(kind_of(&z[0, 0]), <void*>&z[0, 0], z.shape[0], n, &program[0], row, stride, zero)


def backward(
    number[:, ::1] z not None,               # INOUT [B, 2^n] states behind the program; in front of it afterwards
    number[:, ::1] l not None,               # INOUT [B, 2^n] the observable times them; likewise
    const int64_t[::1] program not None,     # IN
    const double[:, ::1] values not None,    # IN [B or 1, slots]
    double[:, ::1] sums not None,            # INOUT [B, gradients] grows by the derivatives
):
    """Go back through a program, with the derivatives of <z|H|z> on the way."""
    cdef int n = qubits("statevector", z.shape[1])
    cdef int64_t stride = stride_of("statevector", values, z.shape[0])
    if z.shape[0] != l.shape[0] or z.shape[1] != l.shape[1] or sums.shape[0] != z.shape[0]:
        raise ShapeError(f"statevector: z {(<object>z).shape}, l {(<object>l).shape} and sums {(<object>sums).shape} do not fit")
    if z.shape[0] == 0:
        return
    cdef const double* row = &values[0, 0] if values.shape[1] else NULL
    cdef double* to = &sums[0, 0] if sums.shape[1] else NULL
    with nogil:
        call_backward(kind_of(&z[0, 0]), <void*>&z[0, 0], <void*>&l[0, 0], z.shape[0], n, &program[0], row, stride, to, sums.shape[1])


cdef int large_enough(int n) except -1:
    if n < LEAST:
        raise ShapeError(f"statevector: {n} qubits; sums of Pauli products take at least {LEAST}, add some")
    return n


def pauli(
    number[:, ::1] out not None,             # OUT [B, 2^n]
    const number[:, ::1] z not None,         # IN [B, 2^n]
    const int64_t[::1] groups not None,      # IN
    values not None,                         # IN float64 [slots], or [B or 1, slots]
    double[::1] energies=None,               # OUT [B]
):
    """out = H z, and energies[b] = Re <z[b]|H|z[b]> where they are asked for."""
    cdef int n = large_enough(qubits("statevector", z.shape[1]))
    cdef const double[:, ::1] rows = values if values.ndim == 2 else values[None]
    cdef int64_t stride = stride_of("statevector", rows, z.shape[0])
    if z.shape[0] != out.shape[0] or z.shape[1] != out.shape[1] or (energies is not None and energies.shape[0] != z.shape[0]):
        raise ShapeError(f"statevector: out {(<object>out).shape} and z {(<object>z).shape} do not fit")
    if z.shape[0] == 0:
        return
    cdef const double* row = &rows[0, 0] if rows.shape[1] else NULL
    cdef double* to = NULL
    if energies is not None:
        to = &energies[0]
    with nogil:
        call_pauli(kind_of(&z[0, 0]), <void*>&out[0, 0], <const void*>&z[0, 0], z.shape[0], n, &groups[0], row, stride, to)


def expectation(
    double[::1] out not None,                # OUT [B]
    const number[:, ::1] z not None,         # IN [B, 2^n]
    const int64_t[::1] groups not None,      # IN
    values not None,                         # IN float64 [slots], or [B or 1, slots]
):
    """out[b] = <z[b]|H|z[b]>, for a sum with real coefficients."""
    cdef int n = large_enough(qubits("statevector", z.shape[1]))
    cdef const double[:, ::1] rows = values if values.ndim == 2 else values[None]
    cdef int64_t stride = stride_of("statevector", rows, z.shape[0])
    if z.shape[0] != out.shape[0]:
        raise ShapeError(f"statevector: out {(<object>out).shape} for {z.shape[0]} states")
    if z.shape[0] == 0:
        return
    cdef const double* row = &rows[0, 0] if rows.shape[1] else NULL
    with nogil:
        call_pauli(kind_of(&z[0, 0]), <void*>NULL, <const void*>&z[0, 0], z.shape[0], n, &groups[0], row, stride, &out[0])


def probabilities(
    double[:, ::1] out not None,             # OUT [B, 2^bits]
    const number[:, ::1] z not None,         # IN [B, 2^n]
    const int64_t[::1] bits not None,        # IN distinct, the first is the lowest of an outcome's index
):
    """out[b, y] = the weight of the amplitudes whose bits are y."""
    cdef int n = qubits("statevector", z.shape[1]), count = bits.shape[0]
    cdef int k
    for k in range(count):
        if bits[k] < 0 or bits[k] >= n:
            raise ShapeError(f"statevector: there is no bit {bits[k]} of {n}")
    if z.shape[0] != out.shape[0] or out.shape[1] != <int64_t>1 << count:
        raise ShapeError(f"statevector: out {(<object>out).shape} for {z.shape[0]} states and {count} bits")
    if z.shape[0] == 0:
        return
    cdef const int64_t* which = &bits[0] if count else NULL
    with nogil:
        call_probabilities(kind_of(&z[0, 0]), &out[0, 0], <const void*>&z[0, 0], z.shape[0], n, which, count)


def sample(
    int64_t[:, ::1] out not None,            # OUT [B, shots]
    double[::1] total not None,              # OUT [B] weights of the states; out is drawn where they are positive numbers
    const number[:, ::1] z not None,         # IN [B, 2^n]
    const double[:, ::1] draws not None,     # IN [B, shots] from [0, 1), ascending
):
    """out[b, i] = the first amplitude at which the weights up to it, of those of all, pass draws[b, i]."""
    cdef int n = qubits("statevector", z.shape[1])
    cdef int64_t shots = out.shape[1]
    if z.shape[0] != out.shape[0] or total.shape[0] != out.shape[0] or draws.shape[0] != out.shape[0] or draws.shape[1] != shots:
        raise ShapeError(f"statevector: out {(<object>out).shape}, draws {(<object>draws).shape} and {z.shape[0]} states do not fit")
    if z.shape[0] == 0 or shots == 0:
        return
    with nogil:
        call_sample(kind_of(&z[0, 0]), &out[0, 0], &total[0], <const void*>&z[0, 0], z.shape[0], n, &draws[0, 0], shots)
