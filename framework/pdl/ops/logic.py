"""Comparisons, logic and bits: ops that no gradient passes."""

from __future__ import annotations

import numpy as np

from pdl.ops.base import not_differentiable
from pdl.ops.table import Binary, Unary, binary, to_bool, unary

_NOT_FLOATS = not_differentiable("its values are bools or integers")

isnan: Unary = unary("isnan", np.isnan, "True where x is NaN.", _NOT_FLOATS, "bifc", to_bool)
isinf: Unary = unary("isinf", np.isinf, "True where x is infinite.", _NOT_FLOATS, "bifc", to_bool)
isfinite: Unary = unary("isfinite", np.isfinite, "True where x is no NaN and finite.", _NOT_FLOATS, "bifc", to_bool)
signbit: Unary = unary(
    "signbit", np.signbit, "True where the sign bit is set: below 0, and of -0.0.", _NOT_FLOATS, "f", to_bool
)
logical_not: Unary = unary("logical_not", np.logical_not, "True where x is 0 or False.", _NOT_FLOATS, "bifc", to_bool)
bitwise_invert: Unary = unary("bitwise_invert", np.invert, "Every bit flipped; not for bools.", _NOT_FLOATS, "bi")
equal: Binary = binary("equal", np.equal, "a == b.", _NOT_FLOATS, "bifc", to_bool)
not_equal: Binary = binary("not_equal", np.not_equal, "a != b.", _NOT_FLOATS, "bifc", to_bool)
less: Binary = binary("less", np.less, "a < b.", _NOT_FLOATS, "bif", to_bool)
less_equal: Binary = binary("less_equal", np.less_equal, "a <= b.", _NOT_FLOATS, "bif", to_bool)
greater: Binary = binary("greater", np.greater, "a > b.", _NOT_FLOATS, "bif", to_bool)
greater_equal: Binary = binary("greater_equal", np.greater_equal, "a >= b.", _NOT_FLOATS, "bif", to_bool)
logical_and: Binary = binary("logical_and", np.logical_and, "True where neither is 0.", _NOT_FLOATS, "bifc", to_bool)
logical_or: Binary = binary("logical_or", np.logical_or, "True where one is not 0.", _NOT_FLOATS, "bifc", to_bool)
logical_xor: Binary = binary(
    "logical_xor", np.logical_xor, "True where just one is not 0.", _NOT_FLOATS, "bifc", to_bool
)
bitwise_and: Binary = binary("bitwise_and", np.bitwise_and, "Bits set in both.", _NOT_FLOATS, "bi")
bitwise_or: Binary = binary("bitwise_or", np.bitwise_or, "Bits set in one or both.", _NOT_FLOATS, "bi")
bitwise_xor: Binary = binary("bitwise_xor", np.bitwise_xor, "Bits set in exactly one.", _NOT_FLOATS, "bi")
bitwise_left_shift: Binary = binary("bitwise_left_shift", np.left_shift, "a * 2^b.", _NOT_FLOATS, "i")
bitwise_right_shift: Binary = binary("bitwise_right_shift", np.right_shift, "floor(a / 2^b).", _NOT_FLOATS, "i")

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal", "signbit",
]  # fmt: skip
