"""Which sounds are of which characters: ops that training needs."""

from pdl_speech.ops.alignment import monotonic_alignment

__all__ = ["monotonic_alignment"]
