"""One small data set with objects, written by hand in every format that `pdl_cv.data.DetectionFolder` reads.

Four images, 40 wide and 30 high: 0 has a cat and a dog, 1 a dog, 2 nothing, 3 a cat. 0 to 2 are train, 3 is val.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from tests.cv.data.broken import picture

WIDTH, HEIGHT = 40, 30
CLASSES = ["cat", "dog"]
#: image -> (class, x1, y1, x2, y2)
OBJECTS = {
    "0": [("cat", 4, 6, 20, 24), ("dog", 22, 3, 38, 27)],
    "1": [("dog", 0, 0, 40, 30)],
    "2": [],
    "3": [("cat", 10, 12, 30, 18)],
}  # fmt: skip
SPLITS = {"train": ["0", "1", "2"], "val": ["3"]}


def pictures(root: Path, folder: str = "images/{split}") -> dict[str, str]:
    """Write the images; the path of each."""
    paths = {}
    for split, names in SPLITS.items():
        for name in names:
            path = root / folder.format(split=split) / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = picture(int(name), WIDTH)[:HEIGHT]
            path.write_bytes(cv2.imencode(".png", noise)[1].tobytes())
            paths[name] = path.relative_to(root).as_posix()
    return paths


def coco_page(split: str) -> dict[str, Any]:
    """COCO's JSON of a split; category ids have gaps, and the annotations come first."""
    size = {"width": WIDTH, "height": HEIGHT}
    images = [{"id": 7 + int(n), "file_name": f"{n}.png", **size} for n in SPLITS[split]]
    annotations = [
        {"id": 100 * int(n) + i, "image_id": 7 + int(n), "category_id": {"cat": 3, "dog": 90}[name],
         "bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1), "iscrowd": 0,
         "segmentation": [[x1, y1, x2, y1, x2, y2, x1, y2]]}
        for n in SPLITS[split] for i, (name, x1, y1, x2, y2) in enumerate(OBJECTS[n])
    ]  # fmt: skip
    categories = [{"id": 90, "name": "dog"}, {"id": 3, "name": "cat"}]
    return {"images": images, "annotations": annotations, "categories": categories, "info": {"note": "\u00e9"}}


def coco(root: Path) -> None:
    """annotations/instances_train2017.json, train2017/0.png."""
    pictures(root, "{split}2017")
    (root / "annotations").mkdir()
    for split in SPLITS:
        (root / f"annotations/instances_{split}2017.json").write_text(json.dumps(coco_page(split)))
    (root / "annotations/captions_train2017.json").write_text('{"info": {}, "images": [], "annotations": []}')


def coco_official_order(root: Path) -> None:
    """Keys in the order of COCO's own files, the categories at the end; images in images/train, called as on another
    machine."""
    pictures(root)
    for split in SPLITS:
        page = coco_page(split)
        page["images"] = [{**each, "file_name": f"/upload/3/{each['file_name']}"} for each in page["images"]]
        order = ("info", "images", "annotations", "categories")
        (root / f"{split}.json").write_text(json.dumps({key: page[key] for key in order}, indent=1))


def roboflow_coco(root: Path) -> None:
    """train/_annotations.coco.json beside the images, with the category that only groups others."""
    pictures(root, "{split}")
    (root / "val").rename(root / "valid")
    for split, folder in (("train", "train"), ("val", "valid")):
        page = coco_page(split)
        for each in page["categories"]:
            each["supercategory"] = "animals"
        page["categories"].insert(0, {"id": 0, "name": "animals", "supercategory": "none"})
        (root / folder / "_annotations.coco.json").write_text(json.dumps(page))


def _xml(name: str) -> str:
    objects = "".join(
        f"<object><name>{kind}</name><difficult>{int(kind == 'dog' and name == '1')}</difficult><bndbox>"
        f"<xmin>{x1 + 1}</xmin><ymin>{y1 + 1}</ymin><xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox>"
        "<part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>\n"
        for kind, x1, y1, x2, y2 in OBJECTS[name]
    )
    size = f"<size><width>{WIDTH}</width><height>{HEIGHT}</height><depth>3</depth></size>"
    return f"<annotation>\n<filename>wrong.jpg</filename>{size}\n{objects}</annotation>"


def voc(root: Path) -> None:
    """VOCdevkit/VOC2012 with JPEGImages, Annotations, ImageSets/Main."""
    top = root / "VOCdevkit/VOC2012"
    pictures(top, "JPEGImages")
    (top / "Annotations").mkdir()
    (top / "ImageSets/Main").mkdir(parents=True)
    for name in OBJECTS:
        (top / f"Annotations/{name}.xml").write_text(_xml(name))
    for split, names in SPLITS.items():
        (top / f"ImageSets/Main/{split}.txt").write_text("\n".join(names) + "\n")
    (top / "ImageSets/Main/cat_train.txt").write_text("0 1\n1 -1\n")


def voc_pairs(root: Path) -> None:
    """Lists of pairs of paths, as PaddleDetection writes them, and a list of labels."""
    paths = pictures(root, "images")
    (root / "annotations").mkdir()
    for name in OBJECTS:
        (root / f"annotations/{name}.xml").write_text(_xml(name))
    for split, names in SPLITS.items():
        lines = [f"./{paths[name]} ./annotations/{name}.xml" for name in names]
        (root / f"{split}.txt").write_text("\n".join(lines))
    (root / "label_list.txt").write_text("cat\ndog\n")


def voc_folders(root: Path) -> None:
    """train and validation, images in a folder for each class, upper case."""
    pictures(root, "{split}/IMAGES/any")
    for split, names in SPLITS.items():
        (root / split / "ANNOTATIONS").mkdir()
        for name in names:
            (root / split / f"ANNOTATIONS/{name}.xml").write_text(_xml(name))
    (root / "val").rename(root / "validation")


def _yolo_labels(root: Path, folder: str, *, outlines: bool = False, first: int = 0) -> None:
    for split, names in SPLITS.items():
        for name in names:
            path = root / folder.format(split=split) / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = []
            for kind, x1, y1, x2, y2 in OBJECTS[name]:
                a, b, c, d = x1 / WIDTH, y1 / HEIGHT, x2 / WIDTH, y2 / HEIGHT
                numbers = [a, b, c, b, c, d, a, d] if outlines else [(a + c) / 2, (b + d) / 2, c - a, d - b]
                lines.append(" ".join([str(CLASSES.index(kind) + first), *(f"{v:.6f}" for v in numbers)]))
            if lines or name != "2":
                path.write_text("\n".join(lines))


def yolo(root: Path) -> None:
    """images/train, labels/train, data.yaml with a dict of names, as Ultralytics has it; a path of another machine."""
    pictures(root)
    _yolo_labels(root, "labels/{split}")
    paths = "path: .\ntrain: images/train\nval: C:\\pets\\images\\val\n"
    (root / "data.yaml").write_text(f"{paths}names: {{0: cat, 1: dog}}\n")


def roboflow_yolo(root: Path) -> None:
    """train/images, train/labels, paths that climb one folder too many, a list of names, outlines."""
    pictures(root, "{split}/images")
    _yolo_labels(root, "{split}/labels", outlines=True)
    (root / "data.yaml").write_text(
        "train: ../train/images\nval: ../val/images\ntest: ../test/images\nnc: 2\nnames: ['cat', 'dog']\n"
    )


def yolo_lists(root: Path) -> None:
    """Lists of images, and names with gaps."""
    paths = pictures(root)
    _yolo_labels(root, "labels/{split}", first=5)
    for split, names in SPLITS.items():
        (root / f"{split}.txt").write_text("\n".join(f"./{paths[name]}" for name in names))
    (root / "set.yaml").write_text("train: train.txt\nval: val.txt\nnames: {5: cat, 6: dog}\n")


def yolo_bare(root: Path) -> None:
    """No YAML file: names in classes.txt, labels beside the images, as LabelImg writes them."""
    pictures(root, "{split}")
    _yolo_labels(root, "{split}")
    (root / "train/classes.txt").write_text("cat\ndog\n")


def labelme(root: Path) -> None:
    """A JSON file beside each image; one object a rectangle from its lower right corner, the others polygons."""
    pictures(root, "{split}")
    for split, names in SPLITS.items():
        for name in names:
            shapes = [
                {"label": kind, "shape_type": "rectangle", "points": [[x2, y2], [x1, y1]], "group_id": None}
                if i % 2 else
                {"label": kind, "shape_type": "polygon", "points": [[x1, y1], [x2, y1], [x2, y2], [x1, y2]]}
                for i, (kind, x1, y1, x2, y2) in enumerate(OBJECTS[name])
            ]  # fmt: skip
            page = {"version": "5.4.1", "flags": {}, "shapes": shapes, "imagePath": f"..\\{split}\\{name}.png",
                    "imageData": "AAAA", "imageHeight": HEIGHT, "imageWidth": WIDTH}  # fmt: skip
            (root / split / f"{name}.json").write_text(json.dumps(page))


def csv(root: Path) -> None:
    """Files for splits, in a folder of their own, sides instead of corners."""
    pictures(root)
    for split, names in SPLITS.items():
        lines = ["label,image,x,y,w,h"]
        for name in names:
            lines += [f"{k},{name}.png,{x1},{y1},{x2 - x1},{y2 - y1}" for k, x1, y1, x2, y2 in OBJECTS[name]]
            lines += [] if OBJECTS[name] else [f",{name}.png,,,,"]
        (root / f"{split}.csv").write_text("\r\n".join(lines))


def csv_plain(root: Path) -> None:
    """No header, semicolons, and a folder for each split."""
    pictures(root, "{split}")
    for split, names in SPLITS.items():
        lines = [f"{n}.png;{x1};{y1};{x2};{y2};{k}" for n in names for k, x1, y1, x2, y2 in OBJECTS[n]]
        lines += [f"{n}.png;;;;;" for n in names if not OBJECTS[n]]
        (root / split / "_annotations.csv").write_text("\n".join(lines))


def csv_column(root: Path) -> None:
    """One file with a column for the split, and the images' sizes."""
    paths = pictures(root)
    lines = ["filename,width,height,class,xmin,ymin,xmax,ymax,split"]
    for split, names in SPLITS.items():
        for n in names:
            lines += [f"{paths[n]},40,30,{k},{x1},{y1},{x2},{y2},{split}" for k, x1, y1, x2, y2 in OBJECTS[n]]
            lines += [] if OBJECTS[n] else [f"{paths[n]},40,30,,,,,,{split}"]
    (root / "objects.csv").write_text("\n".join(lines))


#: builder -> the format that is recognised
FORMS: dict[Callable[[Path], None], str] = {
    coco: "coco", coco_official_order: "coco", roboflow_coco: "coco", voc: "voc", voc_pairs: "voc", voc_folders: "voc",
    yolo: "yolo", roboflow_yolo: "yolo", yolo_lists: "yolo", yolo_bare: "yolo", labelme: "labelme", csv: "csv",
    csv_plain: "csv", csv_column: "csv",
}  # fmt: skip


def maps(root: Path) -> np.ndarray:
    """images/train and masks/train with maps of 16 bits; the map of image 0: a square, an L, and a far number."""
    pictures(root)
    found = np.zeros((HEIGHT, WIDTH), np.uint16)
    found[2:10, 3:9], found[15:28, 20:24], found[24:28, 20:36], found[5:7, 30:33] = 1, 2, 2, 4000
    for split, names in SPLITS.items():
        for name in names:
            path = root / f"masks/{split}/{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(cv2.imencode(".png", found if name == "0" else found * 0)[1].tobytes())
    return found
