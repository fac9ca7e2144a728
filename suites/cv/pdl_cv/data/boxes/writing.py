"""Objects written in each of the formats that are read."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np

from pdl_cv import rle
from pdl_cv.data.boxes.table import Skeleton
from pdl_cv.palette import encoded_map

if TYPE_CHECKING:
    from pdl_cv.data.detection import DetectionFolder


@dataclass(frozen=True)
class Part:
    """The images of a split ("": there are no splits), and where each is in the new data set."""

    split: str
    data: DetectionFolder
    paths: list[str]

    def __iter__(self) -> Iterator[Image]:
        return (Image(self.data, i, path) for i, path in enumerate(self.paths))


@dataclass(frozen=True)
class Image:
    """Image `index` of a data set, which is at `path` in the new one."""

    data: DetectionFolder
    index: int
    path: str

    @cached_property
    def size(self) -> tuple[int, int]:
        """(height, width)"""
        return self.data.size_of(self.index)

    @cached_property
    def objects(self) -> list[Object]:
        """Its objects."""
        found, table = self.data.annotation(self.index), self.data.table
        outlines, (height, width) = self.data.outlines(self.index), self.size
        numbers = table.shape[table.starts[self.index] : table.starts[self.index + 1]]
        scale, source = np.array([width, height]) if table.relative else np.ones(2), self.data.source_of(self.index)

        def mask(number: int) -> np.ndarray | None:
            if number < 0:
                return None
            return table.shapes.masks(np.array([number]), height, width, scale, source)[0]

        flags = {name: found.get(name, np.zeros(len(numbers), bool)) for name in ("crowd", "difficult")}
        points = found.get("keypoints", [None] * len(numbers))
        return [
            Object(found["boxes"][i].astype(np.float64), int(found["labels"][i]), outlines[i],
                   partial(mask, int(numbers[i])), points[i], bool(flags["crowd"][i]), bool(flags["difficult"][i]),
                   float(found["area"][i]) if "area" in found else None)
            for i in range(len(numbers))
        ]  # fmt: skip


@dataclass(frozen=True)
class Object:
    """An object: outlines as polygons where it was drawn so; `mask()` is None where it has a box alone."""

    box: np.ndarray
    label: int
    polygons: list[np.ndarray] | None
    mask: Callable[[], np.ndarray | None]
    keypoints: np.ndarray | None
    crowd: bool
    difficult: bool
    area: float | None

    def rings(self) -> list[np.ndarray] | None:
        """Its polygons, or those that run along the edges of its pixels."""
        mask = self.mask() if self.polygons is None else None
        return self.polygons if mask is None else rle.outline(mask)


def _short(value: float) -> float | int:
    rounded = round(float(value), 3)
    return int(rounded) if rounded == int(rounded) else rounded


def _shorts(values: Any) -> list[float | int]:
    return [_short(value) for value in np.ravel(values)]


def write_coco(root: Path, parts: Sequence[Part], classes: Sequence[str], skeleton: Skeleton | None) -> set[str]:
    """images/train/..., annotations/instances_train.json; difficult objects have `ignore`."""
    categories: list[dict[str, Any]] = [{"id": k, "name": name} for k, name in enumerate(classes, 1)]
    if skeleton is not None:
        edges = [[a + 1, b + 1] for a, b in skeleton.edges]
        categories = [{**each, "keypoints": skeleton.names, "skeleton": edges} for each in categories]
    for part in parts:
        images: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for number, image in enumerate(part, 1):
            height, width = image.size
            name = str(PurePosixPath(image.path).relative_to(f"images/{part.split}"))
            images.append({"id": number, "file_name": name, "width": width, "height": height})
            for each in image.objects:
                annotations.append({"id": len(annotations) + 1, "image_id": number, **_coco(each)})
        page = {"images": images, "annotations": annotations, "categories": categories}
        _write(root / "annotations" / f"{'_'.join(['instances', part.split]).rstrip('_')}.json", json.dumps(page))
    return set()


def _coco(each: Object) -> dict[str, Any]:
    sides = each.box[2:] - each.box[:2]
    found: dict[str, Any] = {"category_id": each.label + 1, "bbox": _shorts([*each.box[:2], *sides])}
    mask = each.mask()
    if each.polygons is not None and not each.crowd:
        found["segmentation"] = [_shorts(ring) for ring in each.polygons]
    elif mask is not None:
        found["segmentation"] = {"size": list(mask.shape), "counts": rle.to_text(rle.encode(mask))}
    pixels = float(sides.prod()) if mask is None else float(mask.sum())
    found |= {"area": _short(each.area if each.area is not None else pixels), "iscrowd": int(each.crowd)}
    if each.keypoints is not None:
        found |= {"keypoints": _shorts(each.keypoints), "num_keypoints": int((each.keypoints[:, 2] > 0).sum())}
    return found | ({"ignore": 1} if each.difficult else {})


def write_voc(root: Path, parts: Sequence[Part], classes: Sequence[str], skeleton: Skeleton | None) -> set[str]:
    """JPEGImages, Annotations, ImageSets/Main/train.txt, labels.txt; SegmentationObject where objects have masks."""
    lost = {"keypoints"} if skeleton is not None else set()
    _write(root / "labels.txt", "\n".join(classes) + "\n")
    for part in parts:
        stems = [PurePosixPath(path).stem for path in part.paths]
        _write(root / "ImageSets/Main" / f"{part.split or 'all'}.txt", "\n".join([*stems, ""]))
        for stem, image in zip(stems, part, strict=True):
            height, width = image.size
            kept = [each for each in image.objects if not each.crowd]
            lost |= {"crowds"} if len(kept) < len(image.objects) else set()
            masks = [each.mask() for each in kept]
            lost |= _write_map(root / f"SegmentationObject/{stem}.png", masks, image.size) if kept else set()
            size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
            name = escape(PurePosixPath(image.path).name)
            lines = [f"  <filename>{name}</filename>", f"  {size}", f"  <segmented>{int(bool(kept))}</segmented>"]
            lines += [_voc(each, classes[each.label]) for each in kept]
            _write(root / f"Annotations/{stem}.xml", "\n".join(["<annotation>", *lines, "</annotation>", ""]))
    return lost


def _voc(each: Object, name: str) -> str:
    values = _shorts(each.box + (1, 1, 0, 0))  # noqa: RUF005  # a sum of arrays
    sides = "".join(f"<{s}>{v}</{s}>" for s, v in zip(("xmin", "ymin", "xmax", "ymax"), values, strict=True))
    return (f"  <object><name>{escape(name)}</name><difficult>{int(each.difficult)}</difficult>"
            f"<bndbox>{sides}</bndbox></object>")  # fmt: skip


def _write_map(path: Path, masks: Sequence[np.ndarray | None], size: tuple[int, int]) -> set[str]:
    """A label map of the masks of an image; what is lost, in words: the overlaps, or all where an object has none."""
    if any(mask is None for mask in masks):
        return set() if all(mask is None for mask in masks) else {"masks of images where some objects have none"}
    numbers = np.zeros(size, np.int64)
    overlap = False
    for number, mask in enumerate(masks, 1):
        overlap = overlap or bool((numbers[mask != 0] != 0).any())  # type: ignore[index]
        numbers[mask != 0] = number  # type: ignore[index]
    _write(path, encoded_map(numbers))
    return {"what is below where masks overlap"} if overlap else set()


def write_masks(root: Path, parts: Sequence[Part], classes: Sequence[str], skeleton: Skeleton | None) -> set[str]:
    """images/train/..., masks/train/...: maps of 16 bits."""
    lost = ({"keypoints"} if skeleton else set()) | ({"classes"} if len(classes) > 1 else set())
    for part in parts:
        for image in part:
            path = PurePosixPath("masks") / PurePosixPath(image.path).relative_to("images")
            masks = [each.mask() for each in image.objects]
            lost |= {"objects without a mask"} if any(mask is None for mask in masks) else set()
            kept = [mask for mask in masks if mask is not None]
            lost |= _write_map(root / path.with_suffix(".png"), kept, image.size)
    return lost


def write_yolo(root: Path, parts: Sequence[Part], classes: Sequence[str], skeleton: Skeleton | None) -> set[str]:
    """images/train/..., labels/train/..., data.yaml. Polygons of one object are joined by lines there and back. There
    are boxes alone with keypoints, and in images where some objects have no mask: in a file with an outline, YOLO's
    readers take every line for one."""
    lost: set[str] = set()
    for part in parts:
        for image in part:
            height, width = image.size
            kept = [each for each in image.objects if not each.crowd]
            lost |= {"crowds"} if len(kept) < len(image.objects) else set()
            lost |= {"the mark of difficult objects"} if any(each.difficult for each in kept) else set()
            rings = [each.rings() for each in kept]
            if any(rings) and (skeleton or not all(rings)):
                lost.add("masks" if skeleton else "masks of images where some objects have none")
                rings = [None] * len(kept)
            numbers = [_yolo(each, own, np.array([width, height], np.float64))
                       for each, own in zip(kept, rings, strict=True)]  # fmt: skip
            lines = [" ".join([str(each.label), *own]) for each, own in zip(kept, numbers, strict=True)]
            path = PurePosixPath("labels") / PurePosixPath(image.path).relative_to("images")
            _write(root / path.with_suffix(".txt"), "".join(f"{line}\n" for line in lines))
    settings = ["path: .", *(f"{part.split or 'train'}: {f'images/{part.split}'.rstrip('/')}" for part in parts)]
    settings += ["names:", *(f"  {k}: {json.dumps(name)}" for k, name in enumerate(classes))]
    if skeleton is not None:
        flip = dict(skeleton.flips) | {b: a for a, b in skeleton.flips}
        count = len(skeleton.names)
        settings += [f"kpt_shape: [{count}, 3]", f"flip_idx: {[flip.get(i, i) for i in range(count)]}"]
        settings += [f"kpt_names: {json.dumps(list(skeleton.names))}"]
        settings += [f"skeleton: {[list(edge) for edge in skeleton.edges]}"]
    _write(root / "data.yaml", "\n".join([*settings, ""]))
    return lost


def _yolo(each: Object, rings: list[np.ndarray] | None, scale: np.ndarray) -> list[str]:
    if rings:
        joined = rings[0] if len(rings) == 1 else np.concatenate(
            [np.concatenate([ring, ring[:1]]) for ring in rings] + [ring[:1] for ring in rings[-2::-1]])  # fmt: skip
        values = np.ravel(joined / scale)
    else:
        low, high = each.box[:2] / scale, each.box[2:] / scale
        values = np.concatenate([(low + high) / 2, high - low])
    if each.keypoints is not None:
        values = np.concatenate([values, np.ravel(each.keypoints.astype(np.float64) / [*scale, 1])])
    return [f"{value:.7f}".rstrip("0").rstrip(".") for value in values]


def write_labelme(root: Path, parts: Sequence[Part], classes: Sequence[str], skeleton: Skeleton | None) -> set[str]:
    """A JSON file beside each image, labels.txt. Polygons and keypoints of one object share a group_id."""
    lost: set[str] = set()
    _write(root / "labels.txt", "\n".join([*classes, *(skeleton.names if skeleton else ()), ""]))
    for part in parts:
        for image in part:
            shapes: list[dict[str, Any]] = []
            for number, each in enumerate(image.objects, 1):
                lost |= {"the mark of crowds"} if each.crowd else set()
                shapes += _labelme(each, classes[each.label], number, skeleton)
            height, width = image.size
            page: dict[str, Any] = {
                "version": "5.4.1", "flags": {}, "shapes": shapes, "imagePath": PurePosixPath(image.path).name,
                "imageData": None, "imageHeight": height, "imageWidth": width,
            }  # fmt: skip
            _write(root / PurePosixPath(image.path).with_suffix(".json"), json.dumps(page, indent=1))
    return lost


def _labelme(each: Object, name: str, number: int, skeleton: Skeleton | None) -> list[dict[str, Any]]:
    mask = each.mask() if each.polygons is None else None
    grouped = each.keypoints is not None or len(each.polygons or ()) > 1
    common = {"label": name, "group_id": number if grouped else None,
              "flags": {"difficult": True} if each.difficult else {}}  # fmt: skip
    if mask is not None and mask.any():
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        (top, bottom), (left, right) = rows[[0, -1]].tolist(), columns[[0, -1]].tolist()
        part = encoded_map(mask[top : bottom + 1, left : right + 1].astype(np.int64))
        found = [{**common, "shape_type": "mask", "points": [[left, top], [right, bottom]],
                  "mask": base64.b64encode(part).decode()}]  # fmt: skip
    elif each.polygons is not None:
        found = [{**common, "shape_type": "polygon", "points": [_shorts(point) for point in ring]}
                 for ring in each.polygons]  # fmt: skip
    else:
        found = [{**common, "shape_type": "rectangle", "points": [_shorts(each.box[:2]), _shorts(each.box[2:])]}]
    for point, (x, y, seen) in zip(skeleton.names if skeleton else (), np.ravel(each.keypoints).reshape(-1, 3)
                                   if each.keypoints is not None else (), strict=False):  # fmt: skip
        if seen > 0:
            found.append({"label": point, "group_id": number, "shape_type": "point", "points": [_shorts([x, y])],
                          "flags": {"hidden": True} if seen == 1 else {}})  # fmt: skip
    return found


def write_csv(root: Path, parts: Sequence[Part], classes: Sequence[str], skeleton: Skeleton | None) -> set[str]:
    """images/train/..., train.csv, labels.txt."""
    lost: set[str] = set()
    _write(root / "labels.txt", "\n".join([*classes, ""]))
    points = [f"{name}_{axis}" for name in (skeleton.names if skeleton else ()) for axis in "xyv"]
    for part in parts:
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["file", "width", "height", "x1", "y1", "x2", "y2", "class", *points])
        for image in part:
            height, width = image.size
            for each in image.objects:
                marks = {"masks": each.mask() is not None, "crowds": each.crowd,
                         "the mark of difficult objects": each.difficult}  # fmt: skip
                lost |= {name for name, has in marks.items() if has}
                if not each.crowd:
                    own = _shorts(each.keypoints) if each.keypoints is not None else []
                    lines.writerow([image.path, width, height, *_shorts(each.box), classes[each.label], *own])
            if all(each.crowd for each in image.objects):
                lines.writerow([image.path, width, height, "", "", "", "", "", *[""] * len(points)])
        _write(root / f"{part.split or 'all'}.csv", text.getvalue())
    return lost


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


#: what writes a format, and where it has the images of a split
WRITERS: dict[str, tuple[Callable[[Path, Sequence[Part], Sequence[str], Skeleton | None], set[str]], str]] = {
    "coco": (write_coco, "images/{split}"), "voc": (write_voc, "JPEGImages"), "yolo": (write_yolo, "images/{split}"),
    "labelme": (write_labelme, "{split}"), "csv": (write_csv, "images/{split}"),
    "masks": (write_masks, "images/{split}"),
}  # fmt: skip
