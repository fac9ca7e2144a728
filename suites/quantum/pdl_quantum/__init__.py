"""pdl-quantum: quantum circuits that train. Recipes name its parts: `pdl_quantum.VQE`, `pdl_quantum.data.Molecule`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_quantum.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_quantum.OldName": "pdl_quantum.NewName"}; recipes with the old ones keep working."""

INIT = {"classifier": "pdl_quantum.classifier.init:write_recipe", "qaoa": "pdl_quantum.qaoa.init:write_recipe"}
"""What `pdl init quantum.TASK` writes recipes with."""

__getattr__, __dir__ = names_of("pdl_quantum.api")
