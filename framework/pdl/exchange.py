"""Memory shared with other libraries without a copy, by DLPack; devices, of which pdl has one.

NumPy writes and reads the capsules. It knows no bfloat16, so such arrays go through it as uint16, and the capsule is
given the right type.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from pdl.dtype import Array, as_dtype, bfloat16
from pdl.errors import DtypeError, SharingError, UsageError

CPU = "cpu"
_UINT, _BFLOAT = 1, 4  # DLDataTypeCode


class _DLTensor(ctypes.Structure):
    """What DLPack calls DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    """What DLPack calls DLManagedTensorVersioned; that of capsules without a version begins with the DLTensor."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor),
    )  # fmt: skip


def as_device(name: str, device: Any) -> str:
    """ "cpu" for None and for the CPU by its name; UsageError for every other device."""
    if device is not None and str(device) != CPU:
        raise UsageError(f"{name}: device {device!r}; pdl computes on the CPU; leave it out")
    return CPU


def exported(array: Array, how: dict[str, Any]) -> Any:
    """The capsule of an array, `how` being the arguments of the standard's `__dlpack__`."""
    if array.dtype != bfloat16:
        return array.__dlpack__(**how)
    capsule = array.view(np.uint16).__dlpack__(**how)
    _tensor_of(capsule).code = _BFLOAT
    return capsule


def imported(x: Any, copy: bool | None = None) -> Array:
    """The memory of anything with `__dlpack__` as an array; without a copy unless `copy`."""
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise DtypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__; pdl.asarray takes arrays and lists")
    producer = _Producer(x)
    try:
        array: Array = np.from_dlpack(producer, copy=copy)
    except (BufferError, RuntimeError, ValueError) as error:
        raise SharingError(f"from_dlpack: {type(x).__name__} cannot be read: {error}") from error
    array = array.view(bfloat16) if producer.is_bfloat16 else array
    as_dtype(array.dtype)
    return array


class _Producer:
    """What NumPy reads in place of `x`: the same capsules, those of bfloat16 as uint16."""

    is_bfloat16 = False

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **how: Any) -> Any:
        capsule = self.x.__dlpack__(**how)
        tensor = _tensor_of(capsule)
        if (tensor.code, tensor.bits) == (_BFLOAT, 16):
            self.is_bfloat16, tensor.code = True, _UINT
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def _tensor_of(capsule: Any) -> Any:
    """The DLTensor in a capsule that nobody has taken yet."""
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    if b"versioned" in _name(capsule):
        return _Versioned.from_address(address(capsule, b"dltensor_versioned")).tensor
    return _DLTensor.from_address(address(capsule, b"dltensor"))


def _name(capsule: Any) -> bytes:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return name(capsule) or b""
