"""The names of pdl_rec: `pdl_rec` has them all, and imports this module when the first is asked for."""

from __future__ import annotations

from pdl_rec.ctr import ClickThrough
from pdl_rec.matching.tags import ItemTags
from pdl_rec.matching.task import Matching
from pdl_rec.models import *  # noqa: F403
from pdl_rec.models import __all__ as _models
from pdl_rec.sequential import *  # noqa: F403
from pdl_rec.sequential import __all__ as _sequential

__all__ = ["ClickThrough", "ItemTags", "Matching", *_models, *_sequential]
