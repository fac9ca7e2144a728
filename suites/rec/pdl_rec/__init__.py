"""pdl-rec: recommendation for pdl. Recipes name its parts as `pdl_rec.NextItem`, `pdl_rec.GRU4Rec`,
`pdl_rec.data.SessionFile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_rec.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_rec.OldName": "pdl_rec.NewName"}; recipes with the old ones keep working."""

INIT = {task: f"pdl_rec.{task}.init:write_recipe" for task in ("next_item", "matching", "rows")}
"""What `pdl init rec.<task>` calls."""

__getattr__, __dir__ = names_of("pdl_rec.api")
