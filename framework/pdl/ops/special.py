"""The error function and its kin in NumPy, to the last digits of float64."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array

# W. J. Cody, Rational Chebyshev approximation for the error function, Math. Comp. 23 (1969): |x| <= 0.5, <= 4, > 4
_A = (1.85777706184603153e-1, 3.16112374387056560, 113.864154151050156, 377.485237685302021, 3209.37758913846947)
_B = (1.0, 23.6012909523441209, 244.024637934444173, 1282.61652607737228, 2844.23683343917062)
_C = (2.15311535474403846e-8, 0.564188496988670089, 8.88314979438837594, 66.1191906371416295, 298.635138197400131,
      881.952221241769090, 1712.04761263407058, 2051.07837782607147, 1230.33935479799725)  # fmt: skip
_D = (1.0, 15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019, 3290.79923573345963,
      4362.61909014324716, 3439.36767414372164, 1230.33935480374942)  # fmt: skip
_P = (1.63153871373020978e-2, 0.305326634961232344, 0.360344899949804439, 0.125781726111229246, 1.60837851487422766e-2,
      6.58749161529837803e-4)  # fmt: skip
_Q = (1.0, 2.56852019228982242, 1.87295284992346047, 0.527905102951428412, 6.05183413124413191e-2,
      2.33520497626869185e-3)  # fmt: skip

# M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution, Appl. Statist. 37 (1988)
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457, 13731.693765509461125,
     1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867, 5394.1960214247511077,
     687.18700749205790830, 42.313330701600911252, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.74545014278341407640e-4, 0.0227238449892691845833, 0.241780725177450611770, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.148103976427480074590,
     0.689767334985100004550, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 0.0265321895265761230930,
     0.296560571828504891230, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     0.0148753612908506148525, 0.136929880922735805310, 0.599832206555887937690, 1.0),
)  # fmt: skip


def _ratio(x: Array, p: tuple[float, ...], q: tuple[float, ...]) -> Array:
    return np.polyval(p, x) / np.polyval(q, x)


def _exp_minus_square(x: Array) -> Array:
    """exp(-x^2); x is split so that the square's rounding does not show (Cody)."""
    high = np.trunc(x * 16) / 16
    return np.exp(-high * high) * np.exp(-(x - high) * (x + high))


def _erfc_of_magnitude(x: Array) -> Array:
    """erfc(x) for x > 0.46875."""
    middle = np.minimum(x, 4.0)
    far = np.clip(x, 4.0, 27.5)
    inverse = 1.0 / (far * far)
    at_far = (1.0 / np.sqrt(np.pi) - inverse * _ratio(inverse, _P, _Q)) / far
    return _exp_minus_square(np.minimum(x, 27.5)) * np.where(x <= 4.0, _ratio(middle, _C, _D), at_far)


def erf(x: Array, out: Array) -> None:
    """2/sqrt(pi) times the integral of exp(-t^2) from 0 to x; relative error below 1e-15."""
    wide = x.astype(np.float64, copy=False)
    size = np.abs(wide)
    small = np.minimum(size, 0.5)
    centre = small * _ratio(small * small, _A, _B)
    np.copyto(out, np.copysign(np.where(size <= 0.46875, centre, 1.0 - _erfc_of_magnitude(size)), wide), "same_kind")


def erfc(x: Array, out: Array) -> None:
    """1 - erf(x), without the loss of digits for large x."""
    wide = x.astype(np.float64, copy=False)
    size = np.abs(wide)
    small = np.clip(wide, -0.5, 0.5)
    centre = 1.0 - small * _ratio(small * small, _A, _B)
    tail = _erfc_of_magnitude(size)
    np.copyto(out, np.where(size <= 0.46875, centre, np.where(wide < 0, 2.0 - tail, tail)), "same_kind")


def erfinv(x: Array, out: Array) -> None:
    """The y with erf(y) = x; infinite at -1 and 1, NaN outside."""
    wide = x.astype(np.float64, copy=False)
    size = np.abs(wide)
    square = np.minimum(0.180625 - wide * wide / 4, 0.180625)
    centre = wide / 2 * _ratio(square, *_CENTRE)
    r = np.sqrt(-np.log((1.0 - np.minimum(size, 1.0)) / 2))
    near = _ratio(np.minimum(r, 5.0) - 1.6, *_MIDDLE)
    far = np.where(np.isinf(r), np.inf, _ratio(np.minimum(r, 30.0) - 5.0, *_TAIL))
    made = np.where(size <= 0.85, centre, np.copysign(np.where(r <= 5.0, near, far), wide)) / np.sqrt(2.0)
    np.copyto(out, np.where(size > 1, np.nan, made), "same_kind")
