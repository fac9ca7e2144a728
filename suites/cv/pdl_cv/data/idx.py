"""The IDX format (MNIST's), and the data sets that come in it."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault, unreadable
from pdl.data.store import find, locate
from pdl.files import open_file, unpacked
from pdl.hints import Inherited
from pdl_cv.data import standin
from pdl_cv.data.base import ImageArrays

MAX_BYTES = 2 << 30
_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_AGAIN = "download the file again"


def read_idx(path: str | Path, *, ndim: int | None = None) -> np.ndarray:
    """The array in an IDX file, gzipped if the name ends in .gz.

    Format: bytes 0 0, a type code, the number of dimensions, one big-endian uint32 for each, the data. Raises DataFault
    for a wrong magic number, another number of dimensions than `ndim`, and a length that is not exactly as announced.
    """
    path = Path(path)
    try:
        with open_file(path) as held, unpacked(held, path) as file:
            head = file.read(4)
            if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES or head[3] == 0:
                start = head.hex(" ") or "nothing"
                raise fault(
                    path,
                    f"not an IDX file: it starts with {start}, expected 00 00, a type (08..0e) and the "
                    "number of dimensions",
                    _AGAIN,
                )
            if ndim is not None and head[3] != ndim:
                raise fault(
                    path,
                    f"an IDX file of {head[3]} dimensions where {ndim} were expected (images have 3, labels 1)",
                    "check that images and labels are not swapped",
                )
            sizes = file.read(4 * head[3])
            if len(sizes) < 4 * head[3]:
                raise fault(path, "the IDX file is cut off inside its header", _AGAIN)
            return _body(path, file, np.dtype(_TYPES[head[2]]), struct.unpack(f">{head[3]}I", sizes))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise fault(path, f"the gzip file is damaged or cut off: {error}", _AGAIN) from error
    except OSError as error:
        raise unreadable(path, error) from error


def _body(path: Path, file: IO[bytes] | gzip.GzipFile, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    size = dtype.itemsize
    for n in shape:
        size *= n
    if size > MAX_BYTES:
        raise fault(path, f"announces {shape}, {size} bytes, more than the limit of {MAX_BYTES}", _AGAIN)
    data = file.read(size + 1)
    if len(data) != size:
        have = f"{len(data)}" if len(data) < size else "more"
        raise fault(path, f"announces {shape}, {size} bytes of data, but holds {have}", _AGAIN)
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


class MNIST(ImageArrays):
    """Handwritten digits, 28 x 28 gray: train 60,000, test 10,000 (LeCun, Cortes, Burges).

    root  the folder of the four IDX files, gzipped or not; by default PDL_DATA/mnist (or torchvision's MNIST/raw)
    All else is as in `ImageArrays`; its splits are train and test.
    """

    NAME: ClassVar[str] = "MNIST"
    PLACES: ClassVar[Sequence[str]] = ("mnist", "MNIST/raw")
    PUBLIC: ClassVar[str] = "cv/mnist"  # its name for `pdl data get`
    CLASSES: ClassVar[Sequence[str]] = tuple("0123456789")

    def __init__(self, root: str | Path | None = None, **options: Inherited) -> None:
        super().__init__(self.CLASSES, lambda official: self._read(self._folder(root), official), **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        standin.write_idx(folder)
        return StandIn({"root": str(folder), **standin.whole(settings)}, "digits as IDX files")

    def _folder(self, root: str | Path | None) -> Path:
        return find(self.NAME, self.PLACES, address=self.PUBLIC) if root is None else locate(root)

    def _read(self, folder: Path, official: str) -> tuple[np.ndarray, np.ndarray, Path]:
        prefix = "train" if official == "train" else "t10k"
        image_path = self._file(folder, f"{prefix}-images-idx3-ubyte")
        label_path = self._file(folder, f"{prefix}-labels-idx1-ubyte")
        images, labels = read_idx(image_path, ndim=3), read_idx(label_path, ndim=1)
        if len(images) != len(labels):
            raise fault(
                label_path,
                f"{len(labels)} labels for the {len(images)} images of {image_path.name}",
                "the files do not belong together; download both again",
            )
        if not len(labels):
            raise fault(image_path, "the split is empty (0 images)", _AGAIN)
        wrong = np.flatnonzero((labels < 0) | (labels >= len(self.CLASSES)))
        if len(wrong):
            raise fault(
                label_path,
                f"label {labels[wrong[0]]} is outside of 0..{len(self.CLASSES) - 1}",
                _AGAIN,
                index=int(wrong[0]),
            )
        return images[..., None], labels, image_path

    def _file(self, folder: Path, name: str) -> Path:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
        if not folder.is_dir():
            raise fault(folder, "no such folder", f"fetch it (pdl data get {self.PUBLIC}), or correct root=")
        raise fault(folder, f"neither {name} nor {name}.gz is in this folder", f"fetch it: pdl data get {self.PUBLIC}")


class FashionMNIST(MNIST):
    """Articles of clothing, 28 x 28 gray: train 60,000, test 10,000 (Xiao, Rasul, Vollgraf, arXiv 1708.07747; MIT).

    Looked for in PDL_DATA/fashion-mnist, torchvision's FashionMNIST/raw, and /usr/share/datasets/fashion-mnist (the
    Debian package dataset-fashion-mnist). Arguments as for `MNIST`.
    """

    NAME = "FashionMNIST"
    PLACES = ("fashion-mnist", "FashionMNIST/raw", "/usr/share/datasets/fashion-mnist")
    PUBLIC = "cv/fashion_mnist"
    CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
