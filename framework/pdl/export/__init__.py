"""Trained models in forms that other machines and other tools run."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdl.export.deployment import Deployment

if TYPE_CHECKING:
    from pdl.export.from_hub import bundle_of

_LAZY = {"bundle_of": "from_hub"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"pdl.export.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'pdl.export' has no attribute {name!r}")


__all__ = ["Deployment", "bundle_of"]
