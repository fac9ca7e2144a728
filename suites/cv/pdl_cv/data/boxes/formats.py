"""The formats that are known, and which of them a folder is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from pdl.data.faults import fault
from pdl_cv.data.boxes import coco, csv_file, label_maps, labelme, voc, yolo
from pdl_cv.data.boxes.tree import Layout, Tree

Format = Literal["coco", "voc", "yolo", "labelme", "csv", "masks"]
FORMATS = get_args(Format)
WHAT = {
    "coco": "COCO JSON", "voc": "Pascal VOC XML", "yolo": "YOLO text files", "labelme": "LabelMe JSON",
    "csv": "CSV", "masks": "instance masks as PNG",
}  # fmt: skip


def layout(tree: Tree, form: str = "auto", *, keypoints: bool = False) -> tuple[str, Layout]:
    """The format (the first of FORMATS that is found, if `form` is auto) and its splits. DataFault where it is none."""
    readers: dict[str, Callable[[], Layout]] = {
        "coco": lambda: coco.layout(tree, keypoints=keypoints), "voc": lambda: voc.layout(tree),
        "yolo": lambda: yolo.layout(tree), "labelme": lambda: labelme.layout(tree),
        "csv": lambda: csv_file.layout(tree), "masks": lambda: label_maps.layout(tree),
    }  # fmt: skip
    for name in FORMATS if form == "auto" else (form,):
        found = readers[name]()
        if found:
            return name, found
    wanted = "annotations in a form that is known" if form == "auto" else WHAT[form]
    raise fault(
        tree.given,
        f"{wanted} not found among {len(tree.files)} files ({len(tree.images)} images)",
        f"{', '.join(WHAT.values())} are read; name the folder that holds images and annotations (root=)",
    )
