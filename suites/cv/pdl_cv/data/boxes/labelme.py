"""LabelMe's JSON, a file for each image: rectangles, polygons, circles, masks, and points that are keypoints."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from pdl.data.faults import DataFault, fault
from pdl_cv import rle
from pdl_cv.data.boxes.shapes import Rings, Runs, Shape
from pdl_cv.data.boxes.table import FARTHEST, Rows, Skeleton, Table
from pdl_cv.data.boxes.tree import Layout, Tree, by_split, chosen, listed, split_folder
from pdl_cv.data.boxes.voc import names_file

MAX_BYTES = 256 << 20  # the image may be inside
CIRCLE = 32  # corners of what stands for a circle
_AGAIN = "correct it in LabelMe"


def layout(tree: Tree) -> Layout:
    """The splits: as list files name them (train.txt, ...), or by the folders train, val, test."""
    files = [name for name in tree.ending(".json") if is_labelme(tree, name)]
    if not files:
        return {}
    table = read(tree, files)
    tree.without_annotation(table.paths, files)
    rows = listed(tree, table.paths) or by_split(map(split_folder, table.sources))
    return chosen(table, rows)


def is_labelme(tree: Tree, name: str) -> bool:
    """Whether a JSON file begins with one of LabelMe's keys, and has `shapes` near its beginning."""
    try:
        with (tree.root / name).open("rb") as file:
            head = file.read(4096).decode("utf-8", "replace")
    except OSError:
        return False
    return bool(re.match(r'\s*\{\s*"(version|flags|shapes|imagePath|imageData)"', head)) and '"shapes"' in head


def read(tree: Tree, files: Sequence[str]) -> Table:
    """The objects of all files; classes are those of a list (labels.txt), or all labels found, sorted.

    A point, or a group of them (group_id), gives keypoints to the rectangle, polygon or circle with the same group_id:
    its label is the keypoint's name. Points without a group belong to the only object. Others are a fault.
    """
    rows, known = Rows(tree, lines=False), names_file(tree)
    pages: list[tuple[str, dict[str, Any]]] = []
    named: set[str] = set()
    for name in files:
        with rows.whole():
            page = _page(tree, name)
            named |= {_label(tree, name, each) for each in page["shapes"] if _is_point(each)}
            pages.append((name, page))
    points = sorted(named)
    order = {name: i for i, name in enumerate(known or ())}
    points.sort(key=lambda name: order.get(name, len(order)))
    found = {name: i for i, name in enumerate(name for name in known or () if name not in points)}
    for name, page in pages:
        with rows.whole():
            _image(tree, rows, name, page, found, points, closed=known is not None)
    table = rows.table(list(found), Skeleton.of(points) if points else None)
    return table if known is not None else table.with_classes(sorted(table.classes))


def _page(tree: Tree, name: str) -> dict[str, Any]:
    page = tree.json(name, MAX_BYTES)
    if not isinstance(page, dict) or not isinstance(page.get("shapes"), list):
        raise fault(tree.root / name, "it has no list of shapes", _AGAIN)
    page.pop("imageData", None)
    return page


def _is_point(shape: Any) -> bool:
    return isinstance(shape, dict) and shape.get("shape_type") == "point"


def _label(tree: Tree, name: str, shape: Any) -> str:
    if not isinstance(shape, dict) or not isinstance(shape.get("label"), str) or not shape["label"]:
        raise fault(tree.root / name, f"a shape has no label: {json.dumps(shape)[:60]}", _AGAIN)
    return str(shape["label"])


def _image(tree: Tree, rows: Rows, name: str, page: Mapping[str, Any], found: dict[str, int], points: list[str],
           *, closed: bool) -> None:  # fmt: skip
    size = tuple(page.get(side) or 0 for side in ("imageHeight", "imageWidth"))
    if not all(isinstance(side, int) and 0 <= side < 1 << 28 for side in size):
        raise fault(tree.root / name, f"imageHeight and imageWidth are {size}", "give them in pixels")
    image = rows.image(_file(tree, name, page), name, size)  # type: ignore[arg-type]
    groups: dict[Any, list[float]] = {}
    for shape in page["shapes"]:
        if _is_point(shape):
            x, y = _points(tree, name, shape, 1)[0]
            at = 3 * points.index(_label(tree, name, shape))
            seen = 1.0 if _flag(shape, "hidden") else 2.0
            groups.setdefault(str(shape.get("group_id")), [0.0] * 3 * len(points))[at : at + 3] = x, y, seen
    alone = sum(not _is_point(shape) for shape in page["shapes"]) == 1
    for number, shape in enumerate(_grouped(page["shapes"])):
        if _is_point(shape):
            continue
        own = shape.get("group_id") if isinstance(shape, dict) else None
        label = _label(tree, name, shape)
        if closed and label not in found:
            what = f"shape {number}: {label!r} is none of the classes"
            raise fault(tree.root / name, what, "correct it, or the list of classes")
        box, outline = _outline(tree, name, shape, size)
        rows.add(
            image, box, found.setdefault(label, len(found)), where=number, shape=outline,
            difficult=_flag(shape, "difficult"),
            keypoints=groups.pop(str(own), None) if own is not None or alone else None,
        )  # fmt: skip
    if groups:
        what = f"the points of group {next(iter(groups))} belong to no rectangle, polygon or circle"
        raise fault(tree.root / name, what, "draw the object and give it the same group_id")


def _flag(shape: Mapping[str, Any], name: str) -> bool:
    flags = shape.get("flags")
    return isinstance(flags, dict) and bool(flags.get(name))


def _grouped(shapes: Sequence[Any]) -> list[Any]:
    """The shapes, where polygons with one label and one group_id are one shape with `more` polygons."""
    found: list[Any] = []
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for shape in shapes:
        group = shape.get("group_id") if isinstance(shape, dict) else None
        if group is None or shape.get("shape_type", "polygon") != "polygon":
            found.append(shape)
            continue
        key = str(shape.get("label")), str(group)
        if key in first:
            first[key]["more"].append(shape)
        else:
            first[key] = {**shape, "more": []}
            found.append(first[key])
    return found


def _file(tree: Tree, name: str, page: Mapping[str, Any]) -> str:
    """Where imagePath leads, relative to the file; or the image of the same name."""
    given = page.get("imagePath")
    if isinstance(given, str) and given:
        try:
            path = tree.inside(given, str(PurePosixPath(name).parent), name)
        except DataFault:
            path = ""
        if path in tree.names:
            return path
    found = tree.image(PurePosixPath(name).stem, name)
    if found is None:
        raise fault(tree.root / name, f"its image {given!r} is not there, or not below {tree.root}", "put it there")
    return found


def _points(tree: Tree, name: str, shape: Mapping[str, Any], least: int) -> np.ndarray:
    try:
        points = np.array(shape.get("points"), np.float64).reshape(-1, 2)
        if len(points) < least or not (np.abs(points) <= FARTHEST).all():
            raise ValueError
    except (TypeError, ValueError):
        what = f"{shape.get('label')!r} ({shape.get('shape_type')}) has no {least} points [x, y]"
        raise fault(tree.root / name, what, _AGAIN) from None
    return points


def _outline(tree: Tree, name: str, shape: Mapping[str, Any], size: Sequence[int]) -> tuple[list[float], Shape | None]:
    """The box and the outline of a shape. A circle is its centre and a point of its rim."""
    kind = shape.get("shape_type") or "polygon"
    if kind == "mask":
        points = _points(tree, name, shape, 2)
        return [*points[0], *(points[1] + 1)], Runs(rle.encode(_mask(tree, name, shape, points, size)))
    if kind not in ("rectangle", "polygon", "circle"):
        what = f"{shape.get('label')!r} is a {kind}; rectangle, polygon, circle, mask and point are read"
        raise fault(tree.root / name, what, "draw it as one of these")
    points = _points(tree, name, shape, 3 if kind == "polygon" else 2)
    if kind == "circle":
        centre, rim = points[:2]
        angle = 2 * np.pi * np.arange(CIRCLE) / CIRCLE
        radius = math.hypot(*(rim - centre))
        corners = centre + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        return [*(centre - radius), *(centre + radius)], Rings([corners.reshape(-1).tolist()])
    box = [*points.min(axis=0), *points.max(axis=0)]
    if kind == "rectangle":
        x1, y1, x2, y2 = box
        return box, Rings([[x1, y1, x2, y1, x2, y2, x1, y2]])
    rings = [points, *(_points(tree, name, each, 3) for each in shape.get("more") or ())]
    every = np.concatenate(rings)
    return [*every.min(axis=0), *every.max(axis=0)], Rings([ring.reshape(-1).tolist() for ring in rings])


def _mask(tree: Tree, name: str, shape: Mapping[str, Any], points: np.ndarray, size: Sequence[int]) -> np.ndarray:
    """A PNG inside of the box of two points, as LabelMe's AI tools write it, on the whole image."""
    import cv2

    from pdl.runtime import headers

    whole = np.zeros(size, np.uint8) if 0 < size[0] * size[1] <= headers.MAX_PIXELS else None
    try:
        data = base64.b64decode(shape.get("mask") or "", validate=True)
    except (TypeError, binascii.Error):
        data = b""
    part = None if headers.trouble(data) else cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    x, y = np.rint(points[0]).astype(int)
    if whole is None or part is None or x < 0 or y < 0 or y + part.shape[0] > size[0] or x + part.shape[1] > size[1]:
        raise fault(tree.root / name, f"the mask of {shape.get('label')!r} is no PNG that lies in the image", _AGAIN)
    whole[y : y + part.shape[0], x : x + part.shape[1]] = part != 0
    return whole
