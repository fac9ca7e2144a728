"""The native library's own state: threads and instruction set. `pdl.threads` is the door to it."""

from libc.stdint cimport uint64_t

cdef extern from "parallel.h" namespace "pdl":
    uint64_t flush_denormals() nogil
    void restore_denormals(uint64_t before) nogil
    int _num_threads "pdl::num_threads"() nogil
    int _set_num_threads "pdl::set_num_threads"(int count) nogil
    int _limit_threads "pdl::limit_threads"(int count) nogil

cdef extern from "table.h" namespace "pdl":
    cdef struct Table:
        const char* isa
    const Table& table() nogil
    const char* isa_problem() nogil


def num_threads():
    """Threads that kernels use when this thread calls them."""
    return _num_threads()


def set_num_threads(int count):
    """Let kernels use `count` threads; returns how many it were."""
    return _set_num_threads(count)


def limit_threads(int count):
    """Let kernels use `count` threads when this thread calls them; 0: as many as the process may. Returns what held before."""
    return _limit_threads(count)


def flushed(function, *args):
    """function(*args), where this thread's arithmetic takes denormal numbers for 0, as kernels do: for bodies written in NumPy, which
    a CPU may run a hundred times slower on denormals. The caller's floating-point state is put back.
    """
    cdef uint64_t before = flush_denormals()
    try:
        return function(*args)
    finally:
        restore_denormals(before)


def isa():
    """The instruction set in use: baseline, avx2, avx512, avx512_vnni, avx512_bf16, amx_bf16, or generic where the CPU is not an x86-64."""
    return table().isa.decode()


def problem():
    """Why PDL_CPU could not be honoured, or None."""
    cdef const char* text = isa_problem()
    return None if text == NULL else text.decode()
