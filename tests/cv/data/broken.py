"""Broken data sets: what is wrong with each, and what must be said about it.

`case.build(tmp_path)` writes the data set and returns the nodes of its splits, as they stand in a recipe under `data`
({"train": {"_target_": ..., ...}, "val": ...}). `case.says` are words the message must contain (a file name, a
number, what to do). `case.found` says who notices first:

    open   making the data set raises DataError
    read   reading the sample raises DataError (with on_error=error)
    check  only `pdl.data.check` can know
"""

from __future__ import annotations

import gzip
import importlib
import io
import lzma
import os
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from pdl.data import Dataset

Nodes = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Broken:
    name: str
    build: Callable[[Path], Nodes]
    says: tuple[str, ...]
    found: str = "open"
    skip_as_root: bool = False


def picture(seed: int, size: int = 16) -> np.ndarray:
    """Noise that is the same for the same seed, uint8 [size, size, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)


def encoded(seed: int, suffix: str = ".png", size: int = 16) -> bytes:
    return bytes(cv2.imencode(suffix, picture(seed, size))[1])


def image_folder(
    root: Path, classes: tuple[str, ...] = ("cat", "dog"), splits: tuple[str, ...] = ("train", "val"), each: int = 4
) -> Nodes:
    """A sound data set of distinct images: root/<split>/<class>/<number>.png."""
    for number, (split, name, i) in enumerate((s, c, i) for s in splits for c in classes for i in range(each)):
        path = root / split / name / f"{i:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(number))
    return {s: {"_target_": "pdl_cv.data.ImageFolder", "root": str(root), "split": s} for s in splits}


def image_list(root: Path, lines: list[str]) -> Nodes:
    """Sound images 0.png .. 3.png, a sound val.txt and names.txt, and a train.txt of these lines."""
    for i in range(8):
        (root / f"{i}.png").write_bytes(encoded(i))
    (root / "names.txt").write_text("cat\ndog\n")
    (root / "val.txt").write_text("".join(f"{i}.png\t{i % 2}\n" for i in range(4, 8)))
    (root / "train.txt").write_text("".join(line + "\n" for line in lines))
    return {
        s: {"_target_": "pdl_cv.data.ImageList", "file": str(root / f"{s}.txt"), "classes": str(root / "names.txt")}
        for s in ("train", "val")
    }


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def mnist(root: Path, **changes: Callable[[bytes], bytes]) -> Nodes:
    """A sound MNIST of 20 and 10 images; `train_images=f` (train_labels, t10k_...) replaces a file's gzipped bytes."""
    rng = np.random.default_rng(0)
    for part, n in (("train", 20), ("t10k", 10)):
        files = {"images": rng.integers(0, 256, (n, 28, 28)), "labels": np.arange(n) % 10}
        for kind, array in files.items():
            data = gzip.compress(idx(array))
            data = changes.get(f"{part}_{kind}", lambda b: b)(data)
            (root / f"{part}-{kind}-idx{array.ndim}-ubyte.gz").write_bytes(data)
    return {s: {"_target_": "pdl_cv.data.MNIST", "root": str(root), "split": s} for s in ("train", "test")}


def cifar_binary(root: Path, each: int = 3) -> Nodes:
    """A sound, tiny CIFAR-10 in binary batches."""
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        records = rng.integers(0, 256, (each, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        (root / name).write_bytes(records.tobytes())
    return cifar_nodes(root)


def cifar_nodes(root: Path) -> Nodes:
    return {
        s: {"_target_": "pdl_cv.data.CIFAR10", "root": str(root), "split": s, "partial": True}
        for s in ("train", "test")
    }


def cifar_tar(members: dict[str, bytes] | None = None) -> bytes:
    """An uncompressed tar of 32 x 32 images, two of each split and class; plus `members`."""
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    files = {
        f"{s}/{c}/{i:04}.png": encoded(100 * k + i, size=32)
        for k, (s, c) in enumerate((s, c) for s in ("train", "test") for c in names)
        for i in range(2)
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in {**files, **(members or {})}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _missing_root(tmp: Path) -> Nodes:
    return {"train": {"_target_": "pdl_cv.data.ImageFolder", "root": str(tmp / "nowhere"), "split": "train"}}


def _empty_folder(tmp: Path) -> Nodes:
    (tmp / "train").mkdir()
    return {"train": {"_target_": "pdl_cv.data.ImageFolder", "root": str(tmp), "split": "train"}}


def _empty_class(tmp: Path) -> Nodes:
    nodes = image_folder(tmp)
    (tmp / "train" / "zebra").mkdir()
    (tmp / "train" / "zebra" / "notes.txt").write_text("none yet")
    return nodes


def _no_val(tmp: Path) -> Nodes:
    nodes = image_folder(tmp, splits=("train",))
    return {**nodes, "val": {**nodes["train"], "split": "val"}}


def _unknown_class_in_val(tmp: Path) -> Nodes:
    nodes = image_folder(tmp)
    (tmp / "val" / "zebra").mkdir()
    (tmp / "val" / "zebra" / "0.png").write_bytes(encoded(99))
    return nodes


def _bad_file(name: str, data: bytes) -> Callable[[Path], Nodes]:
    def build(tmp: Path) -> Nodes:
        nodes = image_folder(tmp)
        (tmp / "train" / "cat" / name).write_bytes(data)
        return nodes

    return build


def _unreadable(tmp: Path) -> Nodes:
    nodes = image_folder(tmp)
    os.chmod(tmp / "train" / "cat" / "001.png", 0)
    return nodes


def _leak(tmp: Path) -> Nodes:
    nodes = image_folder(tmp)
    (tmp / "val" / "dog" / "copy.png").write_bytes((tmp / "train" / "dog" / "002.png").read_bytes())
    return nodes


def _class_lists(tmp: Path) -> Nodes:
    nodes = image_list(tmp, ["0.png 0", "1.png 1", "2.png 2"])
    (tmp / "more.txt").write_text("cat\ndog\nzebra\n")
    nodes["train"]["classes"] = str(tmp / "more.txt")
    return nodes


def _idx(**changes: Callable[[bytes], bytes]) -> Callable[[Path], Nodes]:
    return lambda tmp: mnist(tmp, **changes)


def _idx_missing(tmp: Path) -> Nodes:
    nodes = mnist(tmp)
    (tmp / "train-labels-idx1-ubyte.gz").unlink()
    return nodes


def _list(*lines: str) -> Callable[[Path], Nodes]:
    return lambda tmp: image_list(tmp, list(lines))


def _cifar_short(tmp: Path) -> Nodes:
    nodes = cifar_binary(tmp)
    (tmp / "data_batch_3.bin").write_bytes((tmp / "data_batch_3.bin").read_bytes()[:-5])
    return nodes


def _cifar_label(tmp: Path) -> Nodes:
    nodes = cifar_binary(tmp)
    data = bytearray((tmp / "data_batch_1.bin").read_bytes())
    data[3073] = 77
    (tmp / "data_batch_1.bin").write_bytes(data)
    return nodes


def _cifar_pickled(tmp: Path) -> Nodes:
    (tmp / "data_batch_1").write_bytes(b"\x80\x02}q\x00.")
    return cifar_nodes(tmp)


def _tar(
    change: Callable[[bytes], bytes], members: dict[str, bytes] | None = None, name: str = "cifar10.tar.xz"
) -> Callable[[Path], Nodes]:
    def build(tmp: Path) -> Nodes:
        data = cifar_tar(members)
        (tmp / name).write_bytes(change(lzma.compress(data, preset=0) if name.endswith(".xz") else data))
        return cifar_nodes(tmp / name)

    return build


def _same(data: bytes) -> bytes:
    return data


_PNG = "train/cat/001.png"

BROKEN: list[Broken] = [
    Broken("missing_root", _missing_root, ("nowhere", "no such folder", "root=")),
    Broken("empty_folder", _empty_folder, ("train", "no class folders", "make a folder for each class")),
    Broken("empty_class", _empty_class, ("zebra", "no images", "1 files")),
    Broken("missing_split", _no_val, ("no folder for split 'val'", "ratios")),
    Broken("unknown_class_in_val", _unknown_class_in_val, ("val/zebra", "class list", "remove it, or add")),
    Broken("truncated_jpeg", _bad_file("cut.jpg", encoded(50, ".jpg")[:-40]), ("cut.jpg", "cut off"), "read"),
    Broken("truncated_png", _bad_file("001.png", encoded(50)[:-30]), (_PNG, "index 1", "cut off", "IEND"), "read"),
    Broken("text_named_png", _bad_file("001.png", b"hello, I am text"), (_PNG, "index 1", "text", "replace"), "read"),
    Broken("zero_byte_image", _bad_file("001.png", b""), (_PNG, "index 1", "empty (0 bytes)"), "read"),
    Broken("unreadable_file", _unreadable, (_PNG, "index 1", "permission denied", "chmod"), "read", skip_as_root=True),
    Broken("leaking_duplicate", _leak, ("val/dog/copy.png", "train/dog/002.png", "the same image"), "check"),
    Broken("class_lists_differ", _class_lists, ("train has 3", "zebra", "one class list"), "check"),
    Broken(
        "idx_wrong_magic",
        _idx(train_images=lambda b: gzip.compress(b"\x01" + gzip.decompress(b)[1:])),
        ("train-images-idx3-ubyte.gz", "not an IDX file", "01 00 08 03", "download"),
    ),
    Broken(
        "idx_truncated_gzip",
        _idx(train_images=lambda b: b[: len(b) // 2]),
        ("train-images-idx3-ubyte.gz", "cut off", "download"),
    ),
    Broken("idx_not_gzip", _idx(train_images=lambda b: b"plain"), ("train-images-idx3-ubyte.gz", "gzip", "download")),
    Broken(
        "idx_short",
        _idx(train_images=lambda b: gzip.compress(gzip.decompress(b)[:-1])),
        ("train-images-idx3-ubyte.gz", "15680", "15679"),
    ),
    Broken(
        "idx_swapped",
        _idx(train_labels=lambda b: gzip.compress(idx(np.zeros((2, 2, 2))))),
        ("train-labels-idx1-ubyte.gz", "3 dimensions", "swapped"),
    ),
    Broken(
        "idx_label_count",
        _idx(train_labels=lambda b: gzip.compress(idx(np.zeros(19)))),
        ("train-labels-idx1-ubyte.gz", "19 labels", "20 images"),
    ),
    Broken(
        "idx_label_range",
        _idx(train_labels=lambda b: gzip.compress(idx(np.arange(20)))),
        ("train-labels-idx1-ubyte.gz", "index 10", "label 10", "0..9"),
    ),
    Broken("idx_missing_file", _idx_missing, ("train-labels-idx1-ubyte", "pdl data get cv/mnist")),
    Broken("list_bad_line", _list("0.png 0", "1.png"), ("train.txt:2", "path label")),
    Broken(
        "list_missing_path",
        _list("0.png 0", "gone.png 1"),
        ("gone.png", "index 1", "train.txt:2", "no such file"),
        "read",
    ),
    Broken("list_label_range", _list("0.png 0", "1.png 12"), ("train.txt:2", "12", "0..1", "class list")),
    Broken("list_label_name", _list("0.png cat", "1.png horse"), ("train.txt:2", "'horse'", "cat, dog")),
    Broken("list_empty", _list(), ("train.txt", "empty")),
    Broken("cifar_batch_size", _cifar_short, ("data_batch_3.bin", "9214", "30730000", "pdl data get cv/cifar10")),
    Broken("cifar_label_range", _cifar_label, ("data_batch_1.bin", "index 1", "77")),
    Broken("cifar_pickled", _cifar_pickled, ("data_batch_1", "pickle", "binary version")),
    Broken("tar_truncated", _tar(lambda b: b[: len(b) // 2]), ("cifar10.tar.xz", "cut off", "download")),
    Broken("tar_not_a_tar", _tar(lambda b: b"<html>404</html>"), ("cifar10.tar.xz", "damaged", "download")),
    Broken("tar_climbs", _tar(_same, {"../evil/cat/0.png": b"x"}, "cifar10.tar"), ("../evil", "unsafe")),
    Broken(
        "tar_bad_image",
        _tar(_same, {"train/cat/0007.png": b"x"}, "cifar10.tar"),
        ("cifar10.tar", "train/cat/0007.png", "not an image"),
    ),
]


def make(node: dict[str, Any]) -> Dataset:
    """Build a data set from its recipe node."""
    package, _, name = node["_target_"].rpartition(".")
    return getattr(importlib.import_module(package), name)(**{k: v for k, v in node.items() if k != "_target_"})
