"""pdl-cv: computer vision for pdl. Recipes name its parts as `pdl_cv.Classification`, `pdl_cv.LeNet`,
`pdl_cv.data.Digits`."""

from __future__ import annotations

from pdl_cv.classification import Classification
from pdl_cv.models import *
from pdl_cv.models import __all__ as _models

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_cv.OldName": "pdl_cv.NewName"}; recipes with the old ones keep working."""

INIT = {"classification": "pdl_cv.classification.init:write_recipe"}
"""What `pdl init cv.<task>` calls."""

__all__ = ["INIT", "MOVED", "Classification", *_models]
