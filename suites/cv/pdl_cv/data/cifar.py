"""CIFAR-10 in the forms it is found in: binary batches, a folder of images, or a tar of either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault, unreadable
from pdl.data.image import EXTENSIONS, decode_image
from pdl.data.store import cached_arrays, file_hash, find, locate
from pdl.files import read_bytes
from pdl.hints import Inherited
from pdl_cv.data import standin
from pdl_cv.data.archive import read_tar
from pdl_cv.data.base import ImageArrays
from pdl_cv.data.folder import ImageFolder

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PUBLIC = "cv/cifar10"  # its name for `pdl data get`
COUNTS = {"train": 50_000, "test": 10_000}
BATCHES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
RECORD = 1 + 3 * 32 * 32  # label, then the red, green and blue planes
PER_BATCH = 10_000
_TARS = ("cifar-10-binary.tar.gz", "cifar10_jpeg.tar.xz", "cifar10.tar.xz", "cifar10.tar.gz", "cifar10.tar")
_NAMES = ("cifar-10-batches-bin", *_TARS)
PLACES = (*(f"cifar10/{n}" for n in _NAMES), *_NAMES, *(f"cv2/{n}" for n in _TARS), "cifar10")
_CACHE_FORMAT = "cifar10-1"

Arrays = dict[str, np.ndarray]


class CIFAR10(ImageArrays):
    """Photographs of 10 kinds of things, 32 x 32: train 50,000, test 10,000 (Krizhevsky, 2009).

    root       the folder of the binary batches (cifar-10-batches-bin), a folder train/<class>/*, test/<class>/* of
               images, or a tar of either; by default looked for under PDL_DATA, and there in cifar10 and cv2.
               The images of a tar are decoded once and cached as arrays (see `pdl.data.store.cached_arrays`)
    partial    accept fewer images than the official 50,000 and 10,000
    All else is as in `ImageArrays`; its splits are train and test.
    """

    def __init__(self, root: str | Path | None = None, *, partial: bool = False, **options: Inherited) -> None:
        super().__init__(CLASSES, lambda official: _official(root, official, partial), **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        standin.write_cifar10(folder)
        given = {"root": str(folder), "partial": True, **standin.whole(settings)}
        return StandIn(given, "digits as CIFAR-10's binary batches")


def _official(root: str | Path | None, split: str, partial: bool) -> tuple[np.ndarray, np.ndarray, Path]:
    """(images, labels, where they are from) of an official split."""
    source = _inside(find("CIFAR10", PLACES, address=PUBLIC) if root is None else locate(root))
    images, labels = _load(source, split, partial)
    if len(labels) != COUNTS[split] and not (partial and len(labels)):
        raise fault(
            source,
            f"{len(labels)} images in split {split}, expected {COUNTS[split]}",
            f"fetch all of it (pdl data get {PUBLIC}), or set partial=true",
        )
    return images, labels, source


def _inside(root: Path) -> Path:
    """The tar, or the folder that holds the batches or train/ and test/."""
    if root.is_dir():
        for name in _NAMES:
            if (root / name).exists():
                return root / name
        for name in ("data_batch_1", "cifar-10-batches-py", "cifar-10-python.tar.gz"):
            if (root / name).exists():
                raise fault(
                    root / name,
                    "the Python version of CIFAR-10 holds pickles, which run code when read",
                    f"fetch the binary version: pdl data get {PUBLIC}",
                )
    elif not root.exists():
        raise fault(root, "no such file or folder", f"fetch it (pdl data get {PUBLIC}), or correct root=")
    return root


def _load(source: Path, split: str, partial: bool) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 [N, 32, 32, 3], int64 [N]) of an official split."""
    if not source.is_dir():
        names = [f"{split}_images", f"{split}_labels"]
        arrays = cached_arrays(f"{_CACHE_FORMAT}-{file_hash(source)}", names, lambda: _read_archive(source, partial))
        return arrays[names[0]], arrays[names[1]]
    if (source / "train").is_dir():
        folder = ImageFolder(source, split=split, classes=CLASSES, allow_empty=partial)
        return _stack(source, [(folder.path_of(i), None, int(c)) for i, c in enumerate(folder.labels)])
    return _batches(split, {name: _read_batch(source / name, partial) for name in BATCHES[split]})


def _read_batch(path: Path, partial: bool) -> np.ndarray:
    """The records of one binary batch: uint8 [N, 3073]."""
    try:
        size = path.stat().st_size
        if size > PER_BATCH * RECORD:
            raise _batch_size(path, size)
        return _records(path, read_bytes(path), partial)
    except OSError as error:
        raise unreadable(path, error) from error


def _batch_size(path: Path, size: int) -> Exception:
    expected = f"expected {PER_BATCH * RECORD} ({PER_BATCH} records of {RECORD})"
    return fault(path, f"a CIFAR-10 batch of {size} bytes, {expected}", f"fetch it again: pdl data get {PUBLIC}")


def _records(path: Path, data: bytes, partial: bool) -> np.ndarray:
    whole = len(data) == PER_BATCH * RECORD or (partial and data and len(data) % RECORD == 0)
    if not whole:
        raise _batch_size(path, len(data))
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    wrong = np.flatnonzero(records[:, 0] >= len(CLASSES))
    if len(wrong):
        raise fault(
            path,
            f"label {records[wrong[0], 0]} is outside of 0..9",
            f"fetch it again: pdl data get {PUBLIC}",
            index=int(wrong[0]),
        )
    return records


def _batches(split: str, records: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    rows = np.concatenate([records[name] for name in BATCHES[split]])
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, 0].astype(np.int64)


def _read_archive(path: Path, partial: bool) -> Arrays:
    """Both splits out of a tar, as {train_images, train_labels, test_images, test_labels}."""
    binary = {name for names in BATCHES.values() for name in names}
    records: Arrays = {}
    members: list[tuple[str, bytes]] = []
    for name, data in read_tar(path, lambda n: PurePosixPath(n).name in binary or n.lower().endswith(EXTENSIONS)):
        if PurePosixPath(name).name in binary:
            records[PurePosixPath(name).name] = _records(path / name, data, partial)
        else:
            members.append((name, data))
    missing = sorted(binary - set(records))
    if records and missing:
        raise fault(path, f"the archive has no {missing[0]}", f"fetch it again: pdl data get {PUBLIC}")
    out: Arrays = {}
    for split in COUNTS:
        images, labels = _batches(split, records) if records else _images(path, split, members)
        out |= {f"{split}_images": images, f"{split}_labels": labels}
    return out


def _images(path: Path, split: str, members: Iterable[tuple[str, bytes]]) -> tuple[np.ndarray, np.ndarray]:
    """The members .../<split>/<class>/<file>, sorted by name."""
    chosen: list[tuple[str, bytes | None, int]] = []
    for name, data in sorted(members, key=lambda item: item[0]):
        parts = PurePosixPath(name).parts
        if len(parts) < 3 or parts[-3] != split:
            continue
        if parts[-2] not in CLASSES:
            raise fault(
                path,
                f"member {name} is in no class of CIFAR-10",
                f"expected {split}/<class>/<file> with a class of {', '.join(CLASSES)}",
            )
        chosen.append((str(path / name), data, CLASSES.index(parts[-2])))
    return _stack(path, chosen)


def _stack(source: Path, members: Iterable[tuple[str, bytes | None, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Decode (path, content or None to read it, label) into arrays."""
    images, labels = [], []
    for index, (path, data, label) in enumerate(members):
        try:
            image = decode_image(read_bytes(path) if data is None else data, path=path, index=index)
        except OSError as error:
            raise unreadable(path, error, index=index) from error
        if image.shape != (32, 32, 3):
            raise fault(
                path,
                f"an image of {image.shape[1]} x {image.shape[0]} pixels where CIFAR-10 has 32 x 32",
                "remove it, or use ImageFolder",
                index=index,
            )
        images.append(image)
        labels.append(label)
    return np.stack(images) if images else np.empty((0, 32, 32, 3), np.uint8), np.array(labels, np.int64)
