"""ONNX models in pdl: `load_model` reads a file and traces it into a program, or keeps it as a graph to interpret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdl.onnx.importer import Imported, load_model

__all__ = ["Imported", "load_model"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'pdl.onnx' has no attribute {name!r}")
    from pdl.onnx import importer

    return getattr(importer, name)
