"""Whether a shown thing is clicked: features to probabilities."""

from pdl_rec.ctr.task import ClickThrough

__all__ = ["ClickThrough"]
