"""The names of pdl_rec: `pdl_rec` exports all that this module imports, on first use."""

from pdl_rec.click_through import ClickThrough
from pdl_rec.data.tags import ItemTags
from pdl_rec.matching.task import Matching
from pdl_rec.models import *
from pdl_rec.next_item import *
from pdl_rec.rows import RowPrediction
