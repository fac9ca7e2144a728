"""The native library's own state: threads and instruction set. `pdl.threads` is the door to it."""

cdef extern from "parallel.h" namespace "pdl":
    int _num_threads "pdl::num_threads"() nogil
    void _set_num_threads "pdl::set_num_threads"(int count) nogil

cdef extern from "table.h" namespace "pdl":
    cdef struct Table:
        const char* isa
    const Table& table() nogil
    const char* isa_problem() nogil


def num_threads():
    """Threads that kernels use."""
    return _num_threads()


def set_num_threads(int count):
    """Let kernels use `count` threads."""
    _set_num_threads(count)


def isa():
    """The instruction set in use: baseline, avx2, avx512, avx512_bf16, or generic where the CPU is not an x86-64."""
    return table().isa.decode()


def problem():
    """Why PDL_CPU could not be honoured, or None."""
    cdef const char* text = isa_problem()
    return None if text == NULL else text.decode()
