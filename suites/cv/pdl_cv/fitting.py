"""Whether data sets fit each other, and a net fits their images: what tasks on images look at before training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdl.errors import DataError, listed
from pdl_cv.data.boxes.formats import layout
from pdl_cv.data.boxes.tree import Tree


def agreed(known: Sequence[str], names: Sequence[str], *, split: str, what: str = "classes") -> list[str]:
    """The names that a split has in common with what is `known`, where both have some. DataError where they differ."""
    if known and names and list(names) != list(known):
        raise DataError(
            f"data.{split}: has {len(names)} {what} ({listed(names)}), expected {len(known)} ({listed(known)}); all "
            "splits need one list"
        )
    return list(known or names)


def annotated_at(path: Path, split: str, *, keypoints: bool = False) -> dict[str, Any]:
    """The data set, as a recipe writes it, of annotated images at a path: of their `split` where they have that.
    DataError where there are none."""
    _, splits = layout(Tree(path), keypoints=keypoints)
    return {"_target_": "pdl_cv.data.DetectionFolder", "root": str(path), "split": split if split in splits else None,
            "ratios": None, "format": "auto"}  # fmt: skip
