"""Transforms of real frames of signals; see fft.h. float32, float64, and their complex partners."""

include "checks.pxi"

from functools import lru_cache

import numpy as np

from pdl.kernels.memory import empty

cdef extern from "table.h" namespace "pdl":
    cdef struct FftCall:
        int64_t signals, samples, frames, size, hop, left
        int mode
        bint remove_dc
        double preemphasis, floor, scale
        int64_t n, points, stages, largest
        const int64_t* radix
        const int64_t* place
        const void* twiddles
        const void* turns
    cdef enum:
        kPadZero, kPadReflect, kPadSymmetric, kPadEdge
        kSpectrum, kPower, kMagnitude

cdef extern from "stored.h":
    int64_t launch_forward "PDL_REAL(fft, forward)"(int kind, ...) except + nogil
    int64_t launch_inverse "PDL_REAL(fft, inverse)"(int kind, ...) except + nogil
    int64_t launch_overlap_add "PDL_REAL(fft, overlap_add)"(int kind, ...) except + nogil

cdef extern from "numpy/arrayobject.h":
    cdef enum:
        NPY_CFLOAT
        NPY_CDOUBLE

PAD_MODES = {"constant": kPadZero, "reflect": kPadReflect, "symmetric": kPadSymmetric, "edge": kPadEdge}
MADE = {"spectrum": kSpectrum, "power": kPower, "magnitude": kMagnitude}


def radices(int64_t points):
    """Whose product `points` is: 4 as often as it goes, then 2, 3, 5 and the other primes."""
    found, left = [], points
    for radix in (4, 2, 3, 5):
        while left % radix == 0:
            found.append(radix)
            left //= radix
    radix = 7
    while left > 1:
        radix = radix if radix * radix <= left else left
        while left % radix == 0:
            found.append(radix)
            left //= radix
        radix += 2
    return found


@lru_cache(64)
def plan(int64_t n, str dtype):
    """What a transform of n real points reads: (radices, places, twiddles, turns); see `FftCall`."""
    points = n if n % 2 else n // 2
    stages = radices(points)
    places = np.zeros(1, np.int64)
    for radix in reversed(stages):  # element radix t + q of a transform is element t of the part q
        places = (np.arange(radix) * len(places) + places[:, None]).reshape(-1)
    tables, length = [np.zeros(0)], points
    for radix in stages:
        if radix > 5:
            tables.append(_turns(-np.arange(radix), radix))
        length //= radix
        tables.append(_turns(np.arange(length)[:, None] * np.arange(1, radix), length * radix))
    made = (np.array(stages, np.int64), places, np.concatenate(tables), _turns(np.arange(points // 2 + 1), n))
    made = (*made[:2], *[table.astype(dtype) for table in made[2:]])
    for array in made:
        array.flags.writeable = False
    return made


def _turns(k, n):
    """e^(-2 pi i k / n) as pairs of real and imaginary part, flat."""
    angles = (-2 * np.pi / n) * (k % n)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(-1)


cdef int describe(str name, FftCall* call, int kind, int64_t n) except -1:
    """The plan of `n` points, of type `kind`, and no padding or shaping."""
    if n < 1:
        raise ShapeError(f"{name}: a transform of {n} points; it has at least 1")
    cdef cnp.ndarray radix, place, twiddles, turns
    radix, place, twiddles, turns = plan(n, "f4" if kind == cnp.NPY_FLOAT else "f8")
    for array in (radix, place, twiddles, turns):
        keep(array)
    call.n, call.points, call.stages = n, cnp.PyArray_SIZE(place), cnp.PyArray_SIZE(radix)
    call.radix, call.place = <const int64_t*>cnp.PyArray_DATA(radix), <const int64_t*>cnp.PyArray_DATA(place)
    call.twiddles, call.turns = cnp.PyArray_DATA(twiddles), cnp.PyArray_DATA(turns)
    call.largest = max(radix) if call.stages else 1
    call.left, call.mode, call.remove_dc, call.preemphasis = 0, kPadZero, False, 0
    call.floor, call.scale = 0, 1
    return 0


cdef int frame(str name, FftCall* call, int64_t size, int64_t samples, int64_t frames, int64_t hop, int64_t left, str mode,
               bint remove_dc, double preemphasis) except -1:
    """How frames lie in a signal, and their shape."""
    cdef int64_t right = (frames - 1) * hop + size - left - samples, most = samples
    if not 1 <= size <= call.n or hop < 1 or left < 0 or frames < 1:
        raise ShapeError(f"{name}: {frames} frames of {size} samples in steps of {hop}, padded by {left}, for {call.n} points")
    if mode not in PAD_MODES:
        raise ShapeError(f"{name}: padding {mode!r} is none of {', '.join(PAD_MODES)}")
    call.mode = PAD_MODES[mode]
    most -= call.mode == kPadReflect
    if (call.mode != kPadZero and (left > most or right > most)) or samples < 1:
        raise ShapeError(f"{name}: {mode} by ({left}, {max(right, 0)}) needs more than the {samples} samples of a signal")
    call.samples, call.frames, call.size, call.hop, call.left = samples, frames, size, hop, left
    call.remove_dc, call.preemphasis = remove_dc, preemphasis
    return 0


cdef inline int complex_type(int kind) noexcept:
    return NPY_CFLOAT if kind == cnp.NPY_FLOAT else NPY_CDOUBLE


def forward(
    cnp.ndarray y not None,         # OUT [signals, frames, n // 2 + 1, or columns of bank]; complex of "spectrum"
    cnp.ndarray x not None,         # IN  [signals, samples]
    cnp.ndarray window,             # IN  [size <= n] or None: n ones
    cnp.ndarray bank,               # IN  [n // 2 + 1, columns] or None; not of "spectrum"
    str made,                       # "spectrum", "power" or "magnitude"
    int64_t n,
    int64_t hop=1,
    int64_t left=0,                 # samples of padding before a signal
    str mode="constant",            # of PAD_MODES
    bint remove_dc=False,
    double preemphasis=0,
    double floor=0,                 # with a bank, above 0: y is `scale` times the logarithm of what is at least `floor`
    double scale=1,
):
    """y = the transforms of frames of x times `window`, their squared moduli or their moduli, and products of these with `bank`."""
    cdef FftCall call
    cdef int kind = real_type("fft", x), what = MADE[made]
    if cnp.PyArray_NDIM(x) != 2 or cnp.PyArray_NDIM(y) != 3:
        raise ShapeError(f"fft: x {(<object>x).shape} and y {(<object>y).shape} have 2 and 3 dimensions")
    describe("fft", &call, kind, n)
    cdef int64_t bins = n // 2 + 1, width = bins, size = n if window is None else cnp.PyArray_SIZE(window)
    if bank is not None:
        if what == kSpectrum or cnp.PyArray_NDIM(bank) != 2:
            raise ShapeError(f"fft: a bank {(<object>bank).shape} is a matrix for powers or moduli")
        width, call.floor, call.scale = bank.shape[1], floor, scale
    call.signals = x.shape[0]
    frame("fft", &call, size, x.shape[1], y.shape[1], hop, left, mode, remove_dc, preemphasis)
    cdef void* to = data_of("fft", "y", y, complex_type(kind) if what == kSpectrum else kind, call.signals * call.frames * width)
    cdef void* px = data_of("fft", "x", x, kind, call.signals * call.samples)
    cdef void* pw = optional_data("fft", "window", window, kind, size)
    cdef void* pb = optional_data("fft", "bank", bank, kind, bins * width)
    with nogil:
        launch_forward(kind, what, to, px, pw, pb, width, call)


def inverse(
    cnp.ndarray y not None,         # OUT [rows, size <= n]
    cnp.ndarray x not None,         # IN  [rows, n // 2 + 1], complex
    int64_t n,
    double edge=1,
    double inner=1,
):
    """y = sum_k x_k e^(2 pi i jk / n) over all n bins, of which x has the first half: those without a partner times `edge`,
    the others times `inner`."""
    cdef FftCall call
    cdef int kind = real_type("ifft", y)
    if cnp.PyArray_NDIM(x) != 2 or cnp.PyArray_NDIM(y) != 2:
        raise ShapeError(f"ifft: x {(<object>x).shape} and y {(<object>y).shape} have 2 dimensions")
    describe("ifft", &call, kind, n)
    call.signals = x.shape[0]
    frame("ifft", &call, y.shape[1], y.shape[1], 1, 1, 0, "constant", False, 0)
    cdef void* to = data_of("ifft", "y", y, kind, call.signals * call.size)
    cdef void* px = data_of("ifft", "x", x, complex_type(kind), call.signals * (n // 2 + 1))
    cdef int64_t rows = call.signals
    cdef void* none = NULL
    with nogil:
        launch_inverse(kind, to, px, none, rows, edge, inner, call)


def overlap_add(
    cnp.ndarray y not None,         # OUT [signals, samples]
    cnp.ndarray x not None,         # IN  [signals, frames, n // 2 + 1], complex
    cnp.ndarray window,             # IN  [size <= n] or None
    int64_t n,
    int64_t hop,
    int64_t left=0,
    str mode="constant",
    bint remove_dc=False,
    double preemphasis=0,
    double edge=1,
    double inner=0.5,
):
    """The adjoint of `forward` for "spectrum": sums of inverse transforms, of bins times `edge` and `inner`, where frames lie."""
    cdef FftCall call
    cdef int kind = real_type("istft", y)
    if cnp.PyArray_NDIM(x) != 3 or cnp.PyArray_NDIM(y) != 2:
        raise ShapeError(f"istft: x {(<object>x).shape} and y {(<object>y).shape} have 3 and 2 dimensions")
    describe("istft", &call, kind, n)
    cdef int64_t size = n if window is None else cnp.PyArray_SIZE(window), rows
    call.signals = x.shape[0]
    frame("istft", &call, size, y.shape[1], x.shape[1], hop, left, mode, remove_dc, preemphasis)
    rows = call.signals * call.frames
    frames = empty((rows, size), y.dtype)
    cdef void* to = data_of("istft", "y", y, kind, call.signals * call.samples)
    cdef void* px = data_of("istft", "x", x, complex_type(kind), rows * (n // 2 + 1))
    cdef void* pw = optional_data("istft", "window", window, kind, size)
    cdef void* held = data_of("istft", "frames", frames, kind, rows * size)
    with nogil:
        launch_inverse(kind, held, px, pw, rows, edge, inner, call)
        launch_overlap_add(kind, to, held, call)
