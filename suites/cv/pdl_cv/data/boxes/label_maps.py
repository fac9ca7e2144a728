"""Instance masks as PNG: a map of numbers for each image (a number is an object), or a file for each object.

    images/a.png   masks/a.png                 also labels/ or instances/: 8 or 16 bits, 0 is the background
    a/images/a.png a/masks/1.png, 2.png, ...   a folder for each image, as in the Data Science Bowl 2018

All objects are of one class, which `classes` may name.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import PurePosixPath

import numpy as np

from pdl.data.faults import fault
from pdl_cv.data.boxes.shapes import Pixels, label_map
from pdl_cv.data.boxes.table import Rows, Table
from pdl_cv.data.boxes.tree import MASK_FOLDERS, Layout, Tree, by_split, listed, split_folder

IMAGES = ("images", "image", "imgs", "jpegimages")
NAME = "object"
MOST_OBJECTS = 65_535  # in an image


def layout(tree: Tree) -> Layout:
    """The splits: as list files name them (train.txt, ...), or by the folders train, val, test."""
    pairs = _pairs(tree)
    if not pairs:
        return {}
    images = list(pairs)
    rows = listed(tree, images) or by_split(map(split_folder, images))
    return {split: partial(read, tree, {images[i]: pairs[images[i]] for i in own}) for split, own in rows.items()}


def _pairs(tree: Tree) -> dict[str, list[str]]:
    """The masks of each image: images lie in a folder of images, masks in one of masks beside it."""
    masks: dict[tuple[str, str], list[str]] = {}
    alone: dict[str, list[str]] = {}
    images: list[str] = []
    for name in tree.images:
        path = PurePosixPath(name)
        at = next((i for i, part in enumerate(path.parts[:-1]) if part.lower() in MASK_FOLDERS + IMAGES), None)
        if at is None:
            continue
        above, below = "/".join(path.parts[:at]), str(PurePosixPath(*path.parts[at + 1 :]).with_suffix(""))
        if path.parts[at].lower() in IMAGES:
            images.append(name)
        else:
            masks.setdefault((above, below), []).append(name)
            alone.setdefault(above, []).append(name)
    found = {}
    for name in images:
        path = PurePosixPath(name)
        at = next(i for i, part in enumerate(path.parts[:-1]) if part.lower() in IMAGES)
        above, below = "/".join(path.parts[:at]), str(PurePosixPath(*path.parts[at + 1 :]).with_suffix(""))
        own = masks.get((above, below)) or (alone.get(above, []) if above and path.parts[at - 1] == path.stem else [])
        if own:
            found[name] = sorted(own)
        elif masks:
            tree.wrong(fault(tree.root / name, "it has no mask of its name", "add the mask, or take the image away"))
    return found if masks else {}


def read(tree: Tree, pairs: dict[str, list[str]]) -> Table:
    """The objects of these images: their boxes are those of their pixels. The maps are read now, four at a time."""
    rows = Rows(tree, lines=False)
    with ThreadPoolExecutor(4, thread_name_prefix="pdl-masks") as pool:
        for (path, files), read_now in [(each, pool.submit(_objects, tree, each[1])) for each in pairs.items()]:
            with rows.whole():
                size, objects = read_now.result()
                image = rows.image(path, files[0], size)
                for file, number, box, area in objects:
                    rows.add(image, box, 0, where=number, area=area, shape=Pixels(file, number))
    return rows.table([NAME])


def _objects(tree: Tree, files: Sequence[str]) -> tuple[tuple[int, int], list[tuple[str, int, list[float], float]]]:
    """The size of the masks of an image, and of each object: the file, its number there, the box, the pixels."""
    found: list[tuple[str, int, list[float], float]] = []
    size: tuple[int, int] | None = None
    for file in files:
        numbers = label_map(tree.root / file)
        size = size or (numbers.shape[0], numbers.shape[1])
        if numbers.shape != size:
            raise fault(tree.root / file, "the masks of one image have several sizes", "give all the image's size")
        found += [(file, number if len(files) == 1 else 0, box, area) for number, box, area in boxes_of(
            numbers if len(files) == 1 else (numbers != 0).astype(np.int32))]  # fmt: skip
        if len(found) > MOST_OBJECTS:
            raise fault(tree.root / file, f"more than {MOST_OBJECTS} objects in an image", "is it a map of objects?")
    return size or (0, 0), found


def boxes_of(numbers: np.ndarray) -> list[tuple[int, list[float], float]]:
    """(number, box, pixels) of every number but 0 in a map [H, W]."""
    present, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    rows, columns = np.divmod(np.arange(numbers.size), max(numbers.shape[1], 1))
    places = places.reshape(-1)
    low = [np.full(len(present), 1 << 30) for _ in range(2)]
    high = [np.zeros(len(present), np.int64) for _ in range(2)]
    for axis, values in enumerate((columns, rows)):
        np.minimum.at(low[axis], places, values)
        np.maximum.at(high[axis], places, values + 1)
    return [(int(number), [float(v) for v in (low[0][i], low[1][i], high[0][i], high[1][i])], float(counts[i]))
            for i, number in enumerate(present) if number]  # fmt: skip
