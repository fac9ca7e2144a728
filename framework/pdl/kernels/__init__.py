"""The native kernels: arithmetic on NumPy arrays, outputs first. No tensors in here."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The compiled modules, for type checkers."""
