"""pdl-newsuite: recipes name its parts as `pdl_newsuite.Locate`, `pdl_newsuite.DotNet`, `pdl_newsuite.data.Dots`."""

from __future__ import annotations

from pdl_newsuite.locate import Locate
from pdl_newsuite.models import DotNet

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_newsuite.OldName": "pdl_newsuite.NewName"}; recipes with the old ones keep working."""

INIT: dict[str, str] = {}
"""What `pdl init newsuite.TASK --data DIR` calls to write a recipe for a user's data:
{"locate": "pdl_newsuite.locate.init:write_recipe"}."""

__all__ = ["INIT", "MOVED", "DotNet", "Locate"]
