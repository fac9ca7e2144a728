"""Tables of rows on servers of their own, for models whose lookup tables do not fit a process."""

from pdl.distributed.tables.keys import Initial
from pdl.distributed.tables.table import LocalTable, SparseTable

__all__ = ["Initial", "LocalTable", "SparseTable"]
