"""pdl-cv: computer vision for pdl. Recipes name its parts as `pdl_cv.Classification`, `pdl_cv.LeNet`,
`pdl_cv.data.Digits`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_cv.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_cv.OldName": "pdl_cv.NewName"}; recipes with the old ones keep working."""

TASKS = (
    "classification", "detection", "generation", "image_to_image", "instance", "keypoints", "retrieval", "segmentation",
    "video",
)  # fmt: skip
INIT = {task: f"pdl_cv.{task}.init:write_recipe" for task in TASKS}
"""What `pdl init cv.<task>` calls."""

CONVERT = dict.fromkeys(("coco", "voc", "yolo", "labelme", "csv", "masks"), "pdl_cv.data.boxes.convert:convert")
"""What `pdl convert --to FORMAT` calls."""

__getattr__, __dir__ = names_of("pdl_cv.api")
