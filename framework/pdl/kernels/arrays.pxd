# What the kernels use of NumPy's C interface. NumPy's own declarations take longer to read than most of the modules here take to compile.
cdef extern from "numpy/arrayobject.h":
    ctypedef Py_ssize_t npy_intp
    ctypedef class numpy.dtype [object PyArray_Descr, check_size ignore]:
        pass
    npy_intp* PyArray_DIMS(ndarray array) noexcept nogil
    npy_intp* PyArray_STRIDES(ndarray array) noexcept nogil
    int PyArray_NDIM(ndarray array) noexcept nogil
    ctypedef class numpy.ndarray [object PyArrayObject, check_size ignore]:
        # Read from the struct: as Python's attributes these would be tuples, made anew wherever an index is taken.
        @property
        cdef inline int ndim(self) noexcept nogil:
            return PyArray_NDIM(self)

        @property
        cdef inline npy_intp* shape(self) noexcept nogil:
            return PyArray_DIMS(self)

        @property
        cdef inline npy_intp* strides(self) noexcept nogil:
            return PyArray_STRIDES(self)

    ctypedef struct PyArray_Descr:
        pass
    cdef enum:
        NPY_BOOL
        NPY_BYTE
        NPY_UBYTE
        NPY_INT8
        NPY_UINT8
        NPY_INT16
        NPY_INT32
        NPY_INT64
        NPY_FLOAT
        NPY_DOUBLE
        NPY_ARRAY_CARRAY
    int PyArray_TYPE(ndarray array) noexcept nogil
    npy_intp PyArray_DIM(ndarray array, size_t axis) noexcept nogil
    npy_intp PyArray_STRIDE(ndarray array, size_t axis) noexcept nogil
    npy_intp PyArray_SIZE(ndarray array) noexcept nogil
    npy_intp PyArray_NBYTES(ndarray array) noexcept nogil
    int PyArray_ITEMSIZE(ndarray array) noexcept nogil
    void* PyArray_DATA(ndarray array) noexcept nogil
    bint PyArray_IS_C_CONTIGUOUS(ndarray array) noexcept nogil
    bint PyArray_ISALIGNED(ndarray array) noexcept nogil
    dtype PyArray_DescrFromType(int number)
    int import_array "_import_array"() except -1
