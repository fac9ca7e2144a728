# What every kernel asks of its arrays. Included, so that the checks are inlined: they cost some ten nanoseconds an array.
include "launch.pxi"

from pdl.errors import DtypeError, ShapeError

cnp.import_array()

ctypedef fused real:
    float
    double


cdef inline int real_type(str name, cnp.ndarray array) except -1:
    """NPY_FLOAT or NPY_DOUBLE, the type of `array`."""
    cdef int kind = cnp.PyArray_TYPE(array)
    if kind != cnp.NPY_FLOAT and kind != cnp.NPY_DOUBLE:
        raise DtypeError(f"{name}: the kernel takes float32 and float64, not {array.dtype}")
    return kind


cdef inline void* data_of(str name, str label, cnp.ndarray array, int kind, int64_t size) except? NULL:
    """The memory of a contiguous array of `size` elements of NumPy's type number `kind`."""
    if cnp.PyArray_TYPE(array) != kind or cnp.PyArray_SIZE(array) != size or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise_unfit(name, label, array, kind, size)
    return address(name, cnp.PyArray_DATA(array))


cdef inline void* optional_data(str name, str label, object array, int kind, int64_t size) except? NULL:
    """`data_of`, or NULL for None."""
    if array is None:
        return NULL
    return data_of(name, label, array, kind, size)


cdef int raise_unfit(str name, str label, cnp.ndarray array, int kind, int64_t size) except -1:
    wanted = cnp.PyArray_DescrFromType(kind)
    if array.dtype != wanted:
        raise DtypeError(f"{name}: {label} is {array.dtype}, the kernel expects {wanted}")
    shape = (<object>array).shape
    if cnp.PyArray_SIZE(array) != size:
        raise ShapeError(f"{name}: {label} {shape} has {cnp.PyArray_SIZE(array)} elements, {size} are expected")
    raise ShapeError(f"{name}: {label} {shape} with strides {(<object>array).strides} is not contiguous")
