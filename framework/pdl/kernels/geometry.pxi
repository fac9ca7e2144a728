# The sizes of one convolution. Included after whatever brings int64_t.
cdef extern from "table.h" namespace "pdl":
    cdef cppclass Geometry:
        int64_t n, c, o, groups
        int64_t[3] inside "in"
        int64_t[3] out
        int64_t[3] kernel
        int64_t[3] stride
        int64_t[3] pad
        int64_t[3] dilation
