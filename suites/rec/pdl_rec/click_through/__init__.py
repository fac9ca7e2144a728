"""Whether a shown thing is clicked: features to probabilities."""

from pdl_rec.click_through.task import ClickThrough
