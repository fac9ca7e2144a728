"""The models: one file per family."""

from pdl_rec.models.base import SequenceModel

__all__ = ["SequenceModel"]
