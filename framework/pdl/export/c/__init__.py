"""Programs as C99: one source and one header that need no library but libm, no heap and no other file."""

from pdl.export.c.model import FILES, Report, to_c
from pdl.export.c.registry import EMITTERS, emits, missing

__all__ = ["EMITTERS", "FILES", "Report", "emits", "missing", "to_c"]
