"""Lines of text in image files, with what they say."""

from __future__ import annotations

import copy
import io
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, StandIn, digest
from pdl.data.faults import DataFault, Fault
from pdl.data.image import Mode, check_mode, decode_image, fault_of, read_image
from pdl.data.splits import check_ratios, stable_split
from pdl.data.store import under_roots
from pdl.errors import DataError
from pdl.hints import Range
from pdl.runtime import headers
from pdl_ocr.data import lmdb_sets, standin
from pdl_ocr.data.lmdb_sets import DAMAGED
from pdl_ocr.data.readers import Line, read_lines
from pdl_ocr.reading import straightened


class TextLines(Dataset):
    """Sample i is {"image": uint8 [H, W, C], "text": str}: lines that are images of their own, or are cut out of
    pages. Told apart by what is in the files (`pdl_ocr.data.readers`):

    - PaddleOCR's lists, `path<TAB>text`, and its labels of pages, `path<TAB>[{"transcription", "points"}, ...]`
    - ICDAR's lists, `word_1.png, "text"`, and its files of boxes beside the pages, `x1,y1,...,x4,y4,text`
    - tables (.csv, .tsv) with columns such as image and text
    - LMDB sets (a folder with data.mdb) of CRNN and the deep-text-recognition-benchmark: `num-samples`, `image-%09d`,
      `label-%09d`
    - a folder with one of these in it, by the name of the split (train.txt), or gt.txt, labels.csv and the like

    path     the list, the set or the folder; a relative one is also looked for below PDL_DATA
    split    of a folder with a list for each split; or, with `ratios`, the part that is cut out
    ratios   such as {train: 0.9, val: 0.1}: cut by a hash of the paths of the images, so that the lines of a page stay
             together; give all splits the same
    seed     of that cut
    root     what the paths in a list are relative to; by default its folder
    mode     rgb or gray

    Texts are in Unicode's normal form C.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        split: Literal["train", "val", "test"] | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        root: str | Path | None = None,
        mode: Mode = "rgb",
    ) -> None:
        check_mode("TextLines", mode)
        self.path, self.mode = located(path), mode
        lines = read_lines(self.path, None if split is None else str(split), None if root is None else located(root))
        if ratios is not None and split is not None:
            lines = of_split("TextLines", lines, self.path, ratios, split, seed)
        if not lines:
            raise DataError(f"{self.path}: no lines of text{f' for split {split!r}' if split else ''} are there")
        self.lines = [line._replace(text=unicodedata.normalize("NFC", line.text)) for line in lines]
        self.root = folder_of(self.path, [line.image for line in self.lines])

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Sample:
        line = self.lines[index]
        image = pixels_of(line, self.mode, index)
        if line.polygon is not None:
            image = self._cut(image, line, index)
        return {"image": image, "text": line.text}

    def _cut(self, image: np.ndarray, line: Line, index: int) -> np.ndarray:
        corners = quadrilateral(np.array(line.polygon, np.float32))
        height, width = image.shape[:2]
        if (corners.max(axis=0) < 1).any() or (corners.min(axis=0) > (width - 1, height - 1)).any():
            what = f"the polygon of {line.text!r:.40} lies outside of the image of {width} x {height} pixels"
            raise DataFault(Fault(str(line.image), index, what, "correct the polygon"))
        part = straightened(image, corners.tolist())
        return part if part.ndim == 3 else part[:, :, None]

    @property
    def texts(self) -> list[str]:
        """What the lines say."""
        return [line.text for line in self.lines]

    @cached_property
    def widths(self) -> np.ndarray:
        """float64 [N]: width / height of each line's image; of images of their own from the heads of the files."""
        files = dict.fromkeys(line.image for line in self.lines if line.number is not None)
        with ExitStack() as stack:  # a transaction for all images of a set, as there may be millions
            sets = {file: stack.enter_context(lmdb_sets.reading(file)) for file in files}
            return np.array([self._ratio(line, sets.get(line.image)) for line in self.lines])

    def _ratio(self, line: Line, packed: lmdb_sets.Images | None) -> float:
        if line.polygon is None:
            width, height = image_size(line.image) if packed is None else _packed_size(line, packed)
            return width / height
        corners = quadrilateral(np.array(line.polygon, np.float32))
        edges = np.hypot(*(np.roll(corners, -1, axis=0) - corners).T)
        across, down = max(1.0, float(edges[::2].max())), max(1.0, float(edges[1::2].max()))
        return down / across if down >= 1.5 * across else across / down

    @cached_property
    def fingerprint(self) -> str:
        """A hash of paths, sizes of files, polygons and texts."""
        names = [f"{line.image.name} {line.polygon} {line.text}" for line in self.lines]
        sizes = {image: file_size(image) for image in dict.fromkeys(line.image for line in self.lines)}
        return digest(type(self).__name__, *names, np.array(list(sizes.values()), np.int64))

    def path_of(self, index: int) -> str:
        return str(self.lines[index].page)

    def fault_of(self, index: int) -> Fault | None:
        line = self.lines[index]
        if line.number is None:
            return fault_of(line.image, index=index)
        try:
            trouble = headers.trouble(_packed(line, index))
        except DataFault as error:
            return error.fault
        return Fault(str(line.page), index, trouble, DAMAGED) if trouble else None

    # -- folds ---------------------------------------------------------------------------------------------------------
    def dealing(self, by: str | None = None) -> Dealing:
        names = [(line.image, line.number) for line in self.lines]
        pages = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return Dealing("the lines of an image together", groups=np.array([pages[name] for name in names]))

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        return cls._of(datasets[0], [line for each in datasets for line in each.lines])

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        return self._of(self, [self.lines[row] for row in rows])

    @staticmethod
    def _of(like: TextLines, lines: list[Line]) -> TextLines:
        """A data set as another one, of other lines."""
        found = copy.copy(like)
        for name in ("widths", "fingerprint"):
            found.__dict__.pop(name, None)
        found.lines = lines
        found.root = folder_of(found.path, [line.image for line in lines])
        return found

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """Words that OpenCV draws, in a list of PaddleOCR's."""
        split = settings.get("split")
        file = standin.write_list(folder, split if isinstance(split, str) and not settings.get("ratios") else "train")
        kept = {"split": split, "ratios": settings["ratios"]} if settings.get("ratios") else {"split": None}
        return StandIn({"path": str(file), "root": None, **kept}, "words drawn by OpenCV")


def folder_of(path: Path, images: Sequence[Path]) -> Path:
    """The folder of a list, or the path itself where it is one; the root of all files where images lie elsewhere."""
    base = path if path.is_dir() else path.parent
    return base if all(image.is_relative_to(base) for image in set(images)) else Path(images[0].anchor or ".")


def of_split(
    owner: str, lines: Sequence[Line], path: Path, ratios: Mapping[str, float], split: str, seed: int
) -> list[Line]:
    """The lines of the images that a hash of their paths puts into a split."""
    check_ratios(owner, ratios)
    pages = list(dict.fromkeys((line.image, line.number) for line in lines))
    files = list(dict.fromkeys(image for image, _ in pages))
    base = folder_of(path, files)
    short = {image: image.relative_to(base).as_posix() for image in files}
    names = [short[image] if number is None else f"{short[image]}/{number}" for image, number in pages]
    kept = {pages[row] for row in stable_split(names, ratios, split, seed=seed)}
    return [line for line in lines if (line.image, line.number) in kept]


def pixels_of(line: Line, mode: Mode, index: int | None = None) -> np.ndarray:
    """uint8 [H, W, C]: the image or page of a line."""
    if line.number is None:
        return read_image(line.image, mode=mode, index=index)
    data = _packed(line, index)
    return decode_image(data, mode=mode, path=line.page, index=index)


def _packed(line: Line, index: int | None) -> bytes:
    assert line.number is not None
    with lmdb_sets.reading(line.image, index=index) as images:
        return images(line.number)


def _packed_size(line: Line, packed: lmdb_sets.Images) -> tuple[int, int]:
    """Width and height of a line's image in an LMDB set, from its head where that says so."""
    assert line.number is not None
    data = packed(line.number)
    found = _head(io.BytesIO(data))
    if found is not None and min(found) > 0:
        return found
    height, width = decode_image(data, path=line.page).shape[:2]
    return width, height


def located(path: str | Path) -> Path:
    """A path as given, or below PDL_DATA, where it is relative and not here."""
    given = Path(path).expanduser()
    return next((place for place in (given, *under_roots(given)) if place.exists()), given)


def quadrilateral(polygon: np.ndarray) -> np.ndarray:
    """float32 [4, 2] of a polygon [P, 2]: itself, clockwise from the upper left corner as annotated; of another number
    of corners the rectangle of least area around it."""
    if len(polygon) == 4:
        return polygon
    import cv2

    from pdl_ocr.steps.boxes import clockwise

    found: np.ndarray = clockwise(cv2.boxPoints(cv2.minAreaRect(polygon))).astype(np.float32)
    return found


def image_size(path: Path) -> tuple[int, int]:
    """Width and height of an image, from the head of its file where it is a PNG, JPEG or BMP; DataError where it cannot
    be read."""
    try:
        with path.open("rb") as file:
            found = _head(file)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    if found is not None and min(found) > 0:
        return found
    height, width = read_image(path).shape[:2]
    return width, height


def _head(file: Any) -> tuple[int, int] | None:
    head = file.read(32)
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head[:2] != b"\xff\xd8":
        return None
    file.seek(2)
    while len(mark := file.read(4)) == 4 and mark[0] == 0xFF:  # segments, up to that of the frame (ITU-T T.81, B.2)
        if 0xC0 <= mark[1] <= 0xCF and mark[1] not in (0xC4, 0xC8, 0xCC):
            frame = file.read(5)
            return int.from_bytes(frame[3:5], "big"), int.from_bytes(frame[1:3], "big")
        file.seek(int.from_bytes(mark[2:4], "big") - 2, 1)
    return None


def file_size(path: Path) -> int:
    """Bytes of a file; -1 where it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:  # reported when the sample is read
        return -1
