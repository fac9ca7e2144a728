"""Memory for arrays: 64-byte aligned blocks that are kept when an array dies and given to the next one of about its size.

A training step asks for the same sizes again and again. Memory fresh from the operating system costs a page fault per 4 KiB at first touch,
which for large activations is more than the arithmetic; a block from the free list costs nothing.
"""

cimport cython
from cpython.mem cimport PyMem_RawRealloc
from cpython.ref cimport Py_INCREF
from libc.stdlib cimport free

include "launch.pxi"

import numpy as np

cnp.import_array()

cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t size)

cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <cstdint>
    // Asks for large pages where a block holds whole ones: rows that are read anywhere in it then cost no walk through page tables, and new
    // memory has one fault where it had 512.
    static inline void in_large_pages(void* data, size_t size) {
      const uintptr_t page = static_cast<uintptr_t>(1) << 21, begin = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1);
      const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + size) & ~(page - 1);
      if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
    }
    #else
    static inline void in_large_pages(void*, size_t) {}
    #endif
    """
    void in_large_pages(void* data, size_t size) noexcept nogil

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(void* subtype, cnp.PyArray_Descr* descr, int nd, const cnp.npy_intp* dims,
                                const cnp.npy_intp* strides, void* data, int flags, void* obj)
    int PyArray_SetBaseObject(cnp.ndarray array, object base) except -1
    void* array_type "&PyArray_Type"

cdef enum:
    ALIGNMENT = 64
    BUCKETS = 256          # four per power of two
    MAX_DIMS = 64
    LARGE = 1 << 22        # bytes from which a block asks for large pages
    FEW = 1 << 26          # bytes that free blocks may always hold

# Free blocks by bucket. Guarded by the GIL. They hold no more than twice what arrays have held at one time, which is enough for sizes that
# come again at other times of a step: with inputs of many sizes, blocks that are of no use any more would gather otherwise.
cdef struct Bucket:
    void** blocks
    int count
    int room

cdef Bucket[BUCKETS] _free
cdef size_t _cached = 0
cdef size_t _used = 0, _most_used = 0
cdef size_t _limit = <size_t>4 << 30


cdef inline int bucket_of(size_t size) noexcept nogil:
    """The smallest bucket whose blocks hold `size` bytes: sizes 64 * 2^e * (4 + s) / 4, s in 0..3."""
    cdef size_t units = (size + ALIGNMENT - 1) // ALIGNMENT
    cdef int e = 0
    if units <= 4:
        return <int>units
    while (units - 1) >> e >= 8:
        e += 1
    return 4 * e + <int>((units - 1) >> e) + 1


cdef inline size_t bucket_size(int bucket) noexcept nogil:
    """Bytes of the blocks in a bucket."""
    if bucket <= 8:
        return <size_t>ALIGNMENT * (bucket if bucket > 0 else 1)
    return <size_t>ALIGNMENT * (<size_t>(5 + (bucket - 5) % 4) << ((bucket - 5) // 4))


@cython.final
@cython.freelist(256)
cdef class Block:
    """Owns one block; the base object of the array that lies in it."""
    cdef void* data
    cdef int bucket

    def __dealloc__(self):
        give(self.data, self.bucket)


cdef void* take(int bucket) except NULL:
    global _cached, _used, _most_used
    cdef Bucket* b = &_free[bucket]
    cdef void* data
    if b.count:
        b.count -= 1
        _cached -= bucket_size(bucket)
        data = b.blocks[b.count]
    else:
        data = fresh(bucket)
    _used += bucket_size(bucket)
    _most_used = max(_most_used, _used)
    return data


cdef void* fresh(int bucket) except NULL:
    cdef void* data
    data = aligned_alloc(ALIGNMENT, bucket_size(bucket))
    if data == NULL:
        release_cached()
        data = aligned_alloc(ALIGNMENT, bucket_size(bucket))
    if data == NULL:
        raise MemoryError(f"no room for an array of {bucket_size(bucket):,} bytes")
    if bucket_size(bucket) >= LARGE:
        in_large_pages(data, bucket_size(bucket))
    return data


cdef void give(void* data, int bucket) noexcept:
    global _cached, _used
    cdef Bucket* b = &_free[bucket]
    cdef void** grown
    cdef size_t most = min(_limit, max(2 * _most_used, <size_t>FEW))
    if data == NULL:
        return
    _used -= bucket_size(bucket)
    if bucket_size(bucket) > most:
        free(data)
        return
    if _cached + bucket_size(bucket) > most:
        release_cached()  # what is asked for is soon there again, and the rest was in the way
    if b.count == b.room:
        grown = <void**>PyMem_RawRealloc(b.blocks, (2 * b.room + 8) * sizeof(void*))
        if grown == NULL:
            free(data)
            return
        b.blocks, b.room = grown, 2 * b.room + 8
    b.blocks[b.count] = data
    b.count += 1
    _cached += bucket_size(bucket)


cpdef void release_cached() noexcept:
    """Give all free blocks back to the operating system."""
    global _cached
    cdef int i
    for i in range(BUCKETS):
        while _free[i].count:
            _free[i].count -= 1
            free(_free[i].blocks[_free[i].count])
    _cached = 0


def cached_bytes():
    """Bytes in free blocks."""
    return _cached


def set_cache_limit(size_t limit):
    """Keep at most this many bytes in free blocks (default 4 GiB), and never more than 64 MiB, or twice what arrays have held at one
    time."""
    global _limit
    _limit = limit
    if _cached > limit:
        release_cached()


def empty(tuple shape, dtype not None):
    """An uninitialised C-ordered array of `shape` and `dtype` (a numpy.dtype), aligned to 64 bytes."""
    cdef cnp.npy_intp[MAX_DIMS] dims
    cdef size_t size
    cdef int nd = <int>len(shape)
    cdef int i
    cdef Block block
    if type(dtype) is not np.dtype and not isinstance(dtype, np.dtype):
        dtype = np.dtype(dtype)
    if nd > MAX_DIMS:
        raise ValueError(f"an array has at most {MAX_DIMS} dimensions, not {nd}")
    size = dtype.itemsize
    for i in range(nd):
        dims[i] = shape[i]
        if dims[i] < 0:
            raise ValueError(f"sizes must not be negative: {shape}")
        size *= <size_t>dims[i]
    block = Block.__new__(Block)
    block.bucket = bucket_of(size)
    block.data = take(block.bucket)
    Py_INCREF(dtype)  # PyArray_NewFromDescr steals a reference
    array = PyArray_NewFromDescr(array_type, <cnp.PyArray_Descr*>dtype, nd, dims, NULL, block.data, cnp.NPY_ARRAY_CARRAY, NULL)
    Py_INCREF(block)  # and so does PyArray_SetBaseObject
    PyArray_SetBaseObject(array, block)
    keep(array)
    return array
