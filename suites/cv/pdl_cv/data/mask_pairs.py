"""Which mask belongs to which image: the layouts that data sets of masks come in.

    leftImg8bit/train/x/a_leftImg8bit.png  gtFine/train/x/a_gtFine_labelTrainIds.png (or labelIds)   Cityscapes
    train/a.png                            trainannot/a.png                                         CamVid
    images/a.jpg                           masks/a.png, also below a folder for each split
    a.jpg                                  a_mask.png
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from pdl.data.faults import fault
from pdl_cv.data.boxes.tree import MASK_FOLDERS, Tree, by_split, listed, split_folder

IMAGES = ("images", "image", "imgs", "img", "jpegimages", "photos", "pictures")
MASKS = (*MASK_FOLDERS, "annotations", "annots", "annot", "trimaps", "gt", "groundtruth", "ground_truth", "targets")
_BESIDE = ("annot", "_annot", "_labels", "_label", "_masks", "_mask", "_gt")  # behind the name of the images' folder
_MARK = re.compile(r"(_|-|\.)(masks?|labels?|seg|segmentation|gt|annot|L|labelTrainIds|labelIds)$")
_CITY = "_leftImg8bit"
CITYSCAPES = {
    "road": 7, "sidewalk": 8, "building": 11, "wall": 12, "fence": 13, "pole": 17, "traffic light": 19,
    "traffic sign": 20, "vegetation": 21, "terrain": 22, "sky": 23, "person": 24, "rider": 25, "car": 26, "truck": 27,
    "bus": 28, "train": 31, "motorcycle": 32, "bicycle": 33,
}  # fmt: skip
"""The 19 classes that are measured and their labelIds."""

Pairs = dict[str, str]


def pairs(tree: Tree) -> tuple[str, Pairs]:
    """The layout, "" where there is none, and the mask of each image."""
    for name, find in _LAYOUTS.items():
        found = find(tree)
        if found:
            return name, dict(sorted(found.items()))
    return "", {}


def splits(tree: Tree, found: Pairs) -> dict[str, list[tuple[str, str]]]:
    """Images with their masks, by split, as lists (train.txt, ...) or folders name these; "" where there are none."""
    images = list(found)
    rows = listed(tree, images) or by_split(split_folder(_split_part(name)) for name in images)
    return {split: [(images[row], found[images[row]]) for row in own] for split, own in rows.items()}


def _split_part(name: str) -> str:
    return name.removeprefix("leftImg8bit/")


def _cityscapes(tree: Tree) -> Pairs:
    found, missing = {}, []
    for name in tree.images:
        if f"{_CITY}." not in name:
            continue
        base = name.replace("leftImg8bit/", "gtFine/", 1).rsplit(_CITY, 1)[0] + "_gtFine_"
        mask = next((each for end in ("labelTrainIds", "labelIds") if (each := f"{base}{end}.png") in tree.names), None)
        if mask is None:
            missing.append(name)
        else:
            found[name] = mask
    return _whole(tree, found, missing)


def _camvid(tree: Tree) -> Pairs:
    folders = {str(PurePosixPath(name).parent) for name in tree.images}
    beside = {each: each + end for each in folders for end in _BESIDE if each + end in folders}
    if not beside:
        return {}
    masks = {(str(PurePosixPath(name).parent), _stem(name)): name for name in tree.images}
    found, missing = {}, []
    for name in tree.images:
        path = PurePosixPath(name)
        folder = beside.get(str(path.parent))
        if folder is None:
            continue
        mask = masks.get((folder, path.stem))
        if mask is None:
            missing.append(name)
        else:
            found[name] = mask
    return _whole(tree, found, missing)


def _folders(tree: Tree) -> Pairs:
    masks: dict[tuple[str, str], str] = {}
    images: dict[str, tuple[str, str]] = {}
    for name in tree.images:
        path = PurePosixPath(name)
        at = next((i for i, part in enumerate(path.parts[:-1]) if part.lower() in MASKS + IMAGES), None)
        if at is None:
            continue
        rest = PurePosixPath(*path.parts[:at], *path.parts[at + 1 :])
        if path.parts[at].lower() in IMAGES:
            images[name] = (str(rest.parent), rest.stem)
        else:
            masks[str(rest.parent), _stem(name)] = name
    if not masks:
        return {}
    if not masks.keys() & set(images.values()):  # elsewhere, with the same folders below
        masks = {_below(name): name for name in masks.values()}
        images = {name: _below(name) for name in images}
    found = {name: masks[key] for name, key in images.items() if key in masks}
    return _whole(tree, found, [name for name, key in images.items() if key not in masks])


def _below(name: str) -> tuple[str, str]:
    """The folders below that of images or masks, and the name of an image."""
    path = PurePosixPath(name)
    at = next(i for i, part in enumerate(path.parts[:-1]) if part.lower() in MASKS + IMAGES)
    return str(PurePosixPath(*path.parts[at + 1 : -1])), _stem(name) if path.parts[at].lower() in MASKS else path.stem


def _side_by_side(tree: Tree) -> Pairs:
    """Masks have the name of the image and a mark such as _mask."""
    stems = {(str(PurePosixPath(name).parent), PurePosixPath(name).stem): name for name in tree.images}
    found = {}
    for name in tree.images:
        path = PurePosixPath(name)
        plain = _stem(name)
        image = stems.get((str(path.parent), plain))
        if plain != path.stem and image is not None:
            found[image] = name
    return found


_LAYOUTS: Mapping[str, Callable[[Tree], Pairs]] = {
    "cityscapes": _cityscapes, "camvid": _camvid, "folders": _folders, "beside": _side_by_side,
}  # fmt: skip


def _stem(name: str) -> str:
    """The name of a mask without ending and without what marks it as one."""
    return _MARK.sub("", PurePosixPath(name).stem)


def _whole(tree: Tree, found: Pairs, missing: Sequence[str]) -> Pairs:
    for name in missing if found else ():
        tree.wrong(fault(tree.root / name, "it has no mask of its name", "add the mask, or take the image away"))
    return found
