# How kernels are called: launch(table.kernel, arguments...) calls, or writes the call on this thread's tape.
from libc.stdint cimport int64_t

from pdl.kernels cimport arrays as cnp

from pdl.kernels.launch import Unrecordable as _Unrecordable

cdef extern from "launch.h" namespace "pdl":
    cdef struct Recorder:
        void* keeper
    Recorder* recorder() noexcept nogil
    void allow(Recorder* recorder, const void* data, int64_t bytes) noexcept nogil
    bint allowed(const void* data) noexcept nogil
    int64_t launch(void* kernel, ...) except + nogil


cdef inline void* address(str name, const void* data) except? NULL:
    """`data`, as an argument of `launch`: raise while a tape is recorded that does not own what lies there."""
    if not allowed(data):
        raise _Unrecordable(f"{name}: an argument is a temporary array that the tape does not own")
    return <void*>data


cdef inline void keep(object array) noexcept:
    """Let the tape that is recorded, if any, own an array whose values never change, or which launches alone write."""
    cdef Recorder* own = recorder()
    if own != NULL:
        (<list>own.keeper).append(array)
        allow(own, cnp.PyArray_DATA(<cnp.ndarray>array), cnp.PyArray_NBYTES(<cnp.ndarray>array))
