"""MedMNIST: small medical images in an npz file with official splits."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault, unreadable
from pdl.data.store import under_roots
from pdl.errors import ConfigError
from pdl.files import DAMAGED, open_file
from pdl.hints import Inherited
from pdl.runtime.arrays import array_in
from pdl_cv.data import standin
from pdl_cv.data.base import ImageArrays

ADDRESS = "https://zenodo.org/records/10519652"
MAX_BYTES = 4 << 30  # of one array, unpacked
_AGAIN = f"download the file again from {ADDRESS}"


class MedMNIST(ImageArrays):
    """Images of one of the MedMNIST sets, 28 x 28 or larger, gray or colour, with their official splits (Yang et al.,
    "MedMNIST v2", Scientific Data 10, 2023), or of any npz file with the arrays train_images, train_labels, val_images,
    val_labels, test_images and test_labels: images uint8 [N, H, W] or [N, H, W, 3], labels [N] or [N, 1], numbers from
    0 on.

    path       the file, such as pathmnist.npz; a relative one is also looked for under PDL_DATA, its folder medmnist,
               and ~/.medmnist, where the medmnist package keeps them
    names      of the classes, in the order of their numbers; by default the numbers
    All else is as in `ImageArrays`; its splits are train, val and test.

    Nothing in the file is run: arrays of objects (pickles) are refused. Sets with several labels for an image
    (ChestMNIST) and volumes are no images of one class, and are refused, too.
    """

    def __init__(self, path: str | Path, *, names: Sequence[str] | None = None, **options: Inherited) -> None:
        file = _found(path)
        known = list(names) if names is not None else [str(k) for k in range(_count(file))]
        super().__init__(known, lambda split: _images(file, split, len(known)), ("train", "val", "test"), **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        arrays: dict[str, np.ndarray] = {}
        for split in ("train", "val", "test"):
            images, labels = standin.digits(split)
            arrays |= {f"{split}_images": standin.enlarged(images, 28), f"{split}_labels": labels[:, None]}
        np.savez(folder / "digits.npz", **arrays)  # type: ignore[arg-type]
        return StandIn({"path": str(folder / "digits.npz"), **standin.whole(settings)}, "digits as MedMNIST has images")


def _images(file: Path, split: str, classes: int) -> tuple[np.ndarray, np.ndarray, Path]:
    """(images [N, H, W, C], labels, the file) of a split."""
    images = _array(file, f"{split}_images")
    if images.dtype != np.uint8 or not (images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)):
        found_shape = f"{split}_images is {images.dtype} {images.shape}; expected uint8 [N, H, W] or [N, H, W, 3]"
        raise fault(file, found_shape, "name a set of two-dimensional images")
    labels = _labels(file, split, len(images))
    if labels.max(initial=0) >= classes:
        raise ConfigError(f"MedMNIST: names has {classes} names, but {file} has the label {labels.max()}")
    return images[..., None] if images.ndim == 3 else images, labels, file


def _found(path: str | Path) -> Path:
    given = Path(path).expanduser()
    places = [given, *under_roots(given), *under_roots(Path("medmnist") / given), Path.home() / ".medmnist" / given]
    for place in places:
        if place.is_file():
            return place
    few = ", ".join(dict.fromkeys(str(place) for place in places))
    raise fault(given, f"is not there; looked for {few}", f"get it from {ADDRESS}, or correct path")


def _array(file: Path, name: str) -> np.ndarray:
    """One array of the file, and no more of it than that."""
    try:
        with open_file(file) as held, zipfile.ZipFile(held) as archive:
            have = archive.namelist()
            if f"{name}.npy" not in have:
                arrays = ", ".join(each.removesuffix(".npy") for each in have[:12]) or "nothing"
                raise fault(file, f"has no array {name}; it has {arrays}", "name a file of MedMNIST")
            size = archive.getinfo(f"{name}.npy").file_size
            if size > MAX_BYTES:
                raise fault(file, f"{name} takes {size} bytes, more than the limit of {MAX_BYTES}", _AGAIN)
            with archive.open(f"{name}.npy") as member:
                found = array_in(member, MAX_BYTES)
    except OSError as error:
        raise unreadable(file, error) from error
    except (*DAMAGED, ValueError) as error:
        raise fault(file, f"{name} cannot be read: {error}", _AGAIN) from error
    return found


def _labels(file: Path, split: str, count: int) -> np.ndarray:
    name = f"{split}_labels"
    labels = _array(file, name)
    if labels.dtype.kind not in "iu" or labels.shape not in ((count,), (count, 1)):
        found_shape = f"{name} is {labels.dtype} {labels.shape}; expected whole numbers [{count}] or [{count}, 1]"
        raise fault(file, found_shape, "one class for each image is what classification learns")
    labels = labels.reshape(-1).astype(np.int64)
    if labels.min(initial=0) < 0:
        raise fault(file, f"{name} has {labels.min()}", "classes are numbered from 0 on")
    return labels


def _count(file: Path) -> int:
    """How many classes the training labels number: all splits have the same."""
    return int(_array(file, "train_labels").max(initial=0)) + 1
