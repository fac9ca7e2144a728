"""Tapes: kernel calls written down once, with their arguments, and replayed without Python and without the GIL."""

from libc.stdint cimport int64_t, uint64_t

from pdl.kernels cimport arrays as cnp

cnp.import_array()

cdef extern from "launch.h" namespace "pdl":
    cdef cppclass CallTape "pdl::Tape":
        int64_t size() noexcept nogil
        void cut(int64_t size) noexcept nogil
        int64_t run(int64_t begin, int64_t end) except + nogil
    cdef cppclass Recorder:
        CallTape* tape
        void* keeper
    Recorder* recorder() noexcept nogil
    void set_recorder(Recorder* recorder) noexcept nogil
    void allow(Recorder* recorder, const void* data, int64_t bytes) noexcept nogil

cdef extern from "parallel.h" namespace "pdl":
    uint64_t flush_denormals() noexcept nogil
    void restore_denormals(uint64_t before) noexcept nogil


class Unrecordable(Exception):
    """What runs is more than kernel calls on memory that the tape knows; it has to be run again each time."""


cdef class Tape:
    """Kernel calls on arrays that stay where they are. One thread at a time may run it."""
    cdef CallTape calls
    cdef list kept

    def __cinit__(self):
        self.kept = []

    def record(self, function, arrays):
        """Write down the kernel calls of function(), which then do not happen, on `arrays` (None among them) and memory that it asks for.

        Returns (begin, end) for `run`; None, and nothing is written down, where the function needs more than that.
        """
        cdef Recorder own
        cdef Recorder* before = recorder()
        cdef int64_t begin = self.calls.size()
        cdef list kept = list(arrays)
        own.tape, own.keeper = &self.calls, <void*>kept
        for array in kept:
            if array is not None:
                allow_array(&own, array)
        set_recorder(&own)
        try:
            function()
        except Unrecordable:
            self.calls.cut(begin)
            return None
        except BaseException:
            self.calls.cut(begin)
            raise
        finally:
            set_recorder(before)
        self.kept += kept
        return begin, self.calls.size()

    def run(self, int64_t begin, int64_t end):
        """Make the calls between the two, denormal numbers counting as 0. Returns -1, or the place of the call that met values it cannot
        take; those behind it are not made then."""
        cdef int64_t failed
        cdef uint64_t before
        with nogil:
            before = flush_denormals()
            failed = self.calls.run(begin, end)
            restore_denormals(before)
        return failed

    def __len__(self):
        return self.calls.size()


cdef void allow_array(Recorder* own, cnp.ndarray array) noexcept:
    """Let calls point into an array, whatever its strides."""
    cdef int axis
    cdef int64_t low = 0, high = cnp.PyArray_ITEMSIZE(array), reach
    for axis in range(cnp.PyArray_NDIM(array)):
        reach = (cnp.PyArray_DIM(array, axis) - 1) * cnp.PyArray_STRIDE(array, axis)
        if reach < 0:
            low += reach
        else:
            high += reach
    allow(own, <char*>cnp.PyArray_DATA(array) + low, high - low)


def constant(cnp.ndarray array not None):
    """The array; a tape that is being recorded keeps it. For tables that never change."""
    cdef Recorder* own = recorder()
    if own != NULL:
        (<list>own.keeper).append(array)
        allow_array(own, array)
    return array


def recording() -> bool:
    """Whether this thread writes down kernel calls instead of making them."""
    return recorder() != NULL


def now(str why not None):
    """Called before anything that is no kernel call: raise `Unrecordable` while a tape is being recorded."""
    if recorder() != NULL:
        raise Unrecordable(why)
