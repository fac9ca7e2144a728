"""Where the dot is in a gray image."""

from pdl_newsuite.locate.task import Locate

__all__ = ["Locate"]
