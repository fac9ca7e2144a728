"""The names of pdl_rec: `pdl_rec` exports all of them and imports this module on first use."""

from __future__ import annotations

from pdl_rec.click_through import ClickThrough
from pdl_rec.data.tags import ItemTags
from pdl_rec.matching.task import Matching
from pdl_rec.models import *  # noqa: F403
from pdl_rec.models import __all__ as _models
from pdl_rec.next_item import *  # noqa: F403
from pdl_rec.next_item import __all__ as _sequential

__all__ = ["ClickThrough", "ItemTags", "Matching", *_models, *_sequential]
