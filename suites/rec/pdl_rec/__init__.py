"""pdl-rec: recommendation for pdl. Recipes name its parts as `pdl_rec.NextItem`, `pdl_rec.GRU4Rec`,
`pdl_rec.data.SessionFile`."""

from __future__ import annotations

from pdl_rec.ctr import ClickThrough
from pdl_rec.matching.tags import ItemTags
from pdl_rec.matching.task import Matching
from pdl_rec.models import *  # noqa: F403
from pdl_rec.models import __all__ as _models
from pdl_rec.sequential import *  # noqa: F403
from pdl_rec.sequential import __all__ as _sequential

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_rec.OldName": "pdl_rec.NewName"}; recipes with the old ones keep working."""

INIT = {"next_item": "pdl_rec.sequential.init:write_recipe"}
"""What `pdl init rec.<task>` calls."""

__all__ = ["INIT", "MOVED", "ClickThrough", "ItemTags", "Matching", *_models, *_sequential]
