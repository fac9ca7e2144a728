"""What the array API standard asks of a namespace beside functions: constants, and what the library can do."""

from __future__ import annotations

import math
from typing import Any

from pdl.dtype import ALL, DType, bfloat16, complex64, float32, int64, of_kind
from pdl.exchange import CPU, as_device

e: float = math.e
inf: float = math.inf
nan: float = math.nan
newaxis: None = None
pi: float = math.pi


class NamespaceInfo:
    """Devices, default dtypes and capabilities of pdl, as the array API standard names them."""

    def capabilities(self) -> dict[str, Any]:
        """Whether masks index and shapes may depend on values, and the largest number of dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """ "cpu", where all tensors are."""
        return CPU

    def devices(self) -> list[str]:
        """The one device."""
        return [CPU]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of results where none is given: float32, complex64, int64."""
        as_device("default_dtypes", device)
        return {"real floating": float32, "complex floating": complex64, "integral": int64, "indexing": int64}

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """The dtypes of the standard by name, of one kind (as `isdtype` names it) or of several; bfloat16, which pdl
        has beyond the standard, is not among them."""
        as_device("dtypes", device)
        found = {name: dtype for name, dtype in ALL.items() if dtype != bfloat16}
        if kind is None:
            return found
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return {name: dtype for name, dtype in found.items() if any(of_kind(dtype, each) for each in kinds)}


def __array_namespace_info__() -> NamespaceInfo:
    """What pdl can do, for libraries that take arrays of any kind."""
    return NamespaceInfo()
