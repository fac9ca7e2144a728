"""Files that say where lines of text are and what they say: PaddleOCR's, ICDAR's, tables, LMDB."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pdl.data.faults import fault, unreadable
from pdl.errors import DataError, listed
from pdl.files import read_bytes
from pdl.runtime.headers import EXTENSIONS
from pdl_ocr.data import lmdb_sets

MOST_BYTES = 1 << 30
IGNORED = frozenset({"###", "*"})  # what marks a line that cannot be read
IMAGE_COLUMNS = ("image", "path", "file", "filename", "file_name", "name", "img")
TEXT_COLUMNS = ("text", "label", "words", "word", "transcription", "gt", "sentence")
SPLIT_NAMES = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
LIST_NAMES = ("gt", "labels", "label", "annotations", "rec_gt", "list", "metadata")
LIST_ENDINGS = (".txt", ".tsv", ".csv", ".lst")
BOX_FOLDERS = ("box", "boxes", "gt", "labels", "annotations")
IMAGE_FOLDERS = ("img", "images", "imgs", "image")
ICDAR = re.compile(r'^(?P<image>[^,\t"]+?)\s*,\s*"(?P<text>.*)"\s*$')
NUMBER = r"-?\d+(?:\.\d+)?"
BOX = re.compile(rf"^\s*(?P<numbers>{NUMBER}(?:\s*,\s*{NUMBER}){{7}})\s*,(?P<text>.*)$")
UPRIGHT_BOX = re.compile(rf"^\s*(?P<numbers>{NUMBER}(?:[\s,]+{NUMBER}){{3}})[\s,]+(?P<text>\".*\")\s*$")
FORMS = (
    'path<TAB>text, path<TAB>[{"transcription": ..., "points": ...}], word_1.png, "text", or a table (.csv, .tsv) with '
    "columns such as image and text"
)


class Line(NamedTuple):
    """A line: the file of its image or page, what it says, and where on the page it is (None: it is the image); the
    number of its image in the file, where that is an LMDB set."""

    image: Path
    text: str
    polygon: tuple[tuple[float, float], ...] | None = None
    number: int | None = None

    @property
    def page(self) -> Path:
        """What the image is called: its file, or the set and its key."""
        return self.image if self.number is None else lmdb_sets.name_of(self.image, self.number)

    @property
    def is_read(self) -> bool:
        """Whether it is a line, and one that can be read: neither a page without lines nor marked with `###`."""
        return self.polygon != () and self.text not in IGNORED


def read_lines(path: Path, split: str | None, root: Path | None) -> list[Line]:
    """The lines of a list, or of a folder, that can be read; of one split, where the folder has a list or folder for
    each. DataError where the form is not known."""
    return [line for line in read_all(path, split, root) if line.is_read]


def read_all(path: Path, split: str | None, root: Path | None) -> list[Line]:
    """The same, with lines that are marked as unreadable, and pages without lines: a line with the polygon ()."""
    if (packed := lmdb_sets.file_of(path)) is not None:
        return [Line(packed, text, number=number) for number, text in enumerate(lmdb_sets.labels(packed), 1)]
    if path.is_dir():
        return _of_folder(path, split, root)
    if not path.exists():
        raise fault(
            path, "no such file or folder", "correct the path; a relative one is also looked for below PDL_DATA"
        )
    return list(_of_list(path, root or path.parent))


# -- folders -----------------------------------------------------------------------------------------------------------
def _of_folder(folder: Path, split: str | None, root: Path | None) -> list[Line]:
    names = SPLIT_NAMES.get(split or "", ())
    for name in names:
        for file in (folder / f"{name}{ending}" for ending in LIST_ENDINGS):
            if file.is_file():
                return list(_of_list(file, root or folder))
        if (folder / name).is_dir():
            return read_all(folder / name, None, root)
    found = [
        file
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in LIST_ENDINGS and re.fullmatch(rf"({'|'.join(LIST_NAMES)}).*", file.stem.lower())
    ]
    if len(found) == 1:
        return list(_of_list(found[0], root or folder))
    if len(found) > 1:
        raise DataError(f"{folder}: several lists ({listed([each.name for each in found])}); name one as the path")
    pages = list(_pages(folder))
    if pages:
        return [line for page, boxes in pages for line in of_boxes(page, boxes)]
    wanted = f"{split}.txt, " if split else ""
    raise DataError(
        f"{folder}: no list of lines is there ({wanted}gt.txt, labels.csv, ...), nor an LMDB set (data.mdb), nor "
        f"files of boxes (.txt) beside images or in a folder {listed(list(BOX_FOLDERS))}; a list has lines of the form "
        f"{FORMS}"
    )


def _pages(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Images, each with the file of its boxes: beside it, or in a folder beside its folder."""
    places = [folder / name for name in IMAGE_FOLDERS if (folder / name).is_dir()] or [folder]
    beside = [folder / name for name in BOX_FOLDERS if (folder / name).is_dir()]
    for place in places:
        for image in sorted(p for p in place.iterdir() if p.suffix.lower() in EXTENSIONS):
            names = (f"{image.stem}.txt", f"gt_{image.stem}.txt")
            files = [where / name for where in (place, *beside) for name in names if (where / name).is_file()]
            if files:
                yield image, files[0]


# -- lists -------------------------------------------------------------------------------------------------------------
def text_of(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a file of at most `most` bytes, UTF-8; DataError where it cannot be read."""
    try:
        data = read_bytes(path, most)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fault(path, "not UTF-8 text", "save it as UTF-8", line=line) from error


def _of_list(path: Path, root: Path) -> Iterator[Line]:
    text = text_of(path)
    rows = [(number, row.rstrip("\r")) for number, row in enumerate(text.split("\n"), 1) if row.strip()]
    if not rows:
        raise fault(path, "the list is empty", f"write lines of the form {FORMS}")
    table = path.suffix.lower() in (".csv", ".tsv") and _header(rows[0][1])
    if table:
        yield from _of_table(path, root, text, *table)
        return
    for number, row in rows:
        yield from _of_row(path, root, number, row)


def _header(row: str) -> tuple[str, str, str] | None:
    """The delimiter of a table, and its columns of images and texts; None where the first row names none."""
    for delimiter in ("\t", ",", ";"):
        names = [name.strip().lower() for name in next(csv.reader([row], delimiter=delimiter))]
        image = next((name for name in IMAGE_COLUMNS if name in names), None)
        text = next((name for name in TEXT_COLUMNS if name in names), None)
        if image and text:
            return delimiter, image, text
    return None


def _of_table(path: Path, root: Path, text: str, delimiter: str, image: str, said: str) -> Iterator[Line]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
    for row in reader:
        if not row.get(image) or row.get(said) is None:
            raise fault(path, f"has no {image} or no {said}", "fill in both columns", line=reader.line_num)
        yield Line(within(path, root, row[image], reader.line_num), row[said])


def _of_row(path: Path, root: Path, number: int, row: str) -> Iterator[Line]:
    if "\t" in row:
        name, said = row.split("\t", 1)
        if said.lstrip().startswith("[{") or said.strip() == "[]":
            yield from _of_page(path, within(path, root, name, number), said, number)
            return
        for each in _several(name):
            yield Line(within(path, root, each, number), said)
        return
    match = ICDAR.match(row)
    if match is None:
        raise fault(path, f"{row.strip()[:60]!r} is no line of a known form", f"expected {FORMS}", line=number)
    yield Line(within(path, root, match["image"], number), match["text"].replace(r"\"", '"'))


def _several(name: str) -> list[str]:
    """The images of a row of PaddleOCR's: one, or a JSON list of several with the same text."""
    if name.startswith("["):
        try:
            found = json.loads(name)
        except ValueError:
            return [name]
        if isinstance(found, list) and found and all(isinstance(each, str) for each in found):
            return found
    return [name]


def _of_page(path: Path, image: Path, said: str, number: int) -> Iterator[Line]:
    try:
        found = json.loads(said)
    except (ValueError, RecursionError) as error:
        raise fault(path, f"not JSON behind the tab: {error}", "correct the line", line=number) from error
    if not found:
        yield Line(image, "", ())
    for each in found:
        text, points = (each.get("transcription"), each.get("points")) if isinstance(each, dict) else (None, None)
        if not isinstance(text, str) or not _is_polygon(points):
            what = f"{str(each)[:60]} has no transcription, or no points [[x, y], ...] of three corners or more"
            raise fault(path, what, "correct it", line=number)
        yield Line(image, text, tuple((float(x), float(y)) for x, y in points or ()))


def _is_polygon(points: Any) -> bool:
    return isinstance(points, list) and 3 <= len(points) <= 1000 and all(
        isinstance(point, list) and len(point) == 2 and all(type(n) in (int, float) and math.isfinite(n) for n in point)
        for point in points
    )  # fmt: skip


def of_boxes(image: Path, file: Path) -> Iterator[Line]:
    """The lines of a page in a file of ICDAR's."""
    rows = [(number, row) for number, row in enumerate(text_of(file).splitlines(), 1) if row.strip()]
    if not rows:
        yield Line(image, "", ())
    for number, row in rows:
        if match := BOX.match(row):
            numbers = [float(each) for each in match["numbers"].split(",")]
            yield Line(image, match["text"].strip() or "###", tuple(zip(numbers[::2], numbers[1::2], strict=True)))
        elif match := UPRIGHT_BOX.match(row):
            x1, y1, x2, y2 = (float(each) for each in re.findall(NUMBER, match["numbers"]))
            yield Line(image, match["text"][1:-1], ((x1, y1), (x2, y1), (x2, y2), (x1, y2)))
        else:
            what = f'{row.strip()[:60]!r} is neither x1,y1,...,x4,y4,text nor x1, y1, x2, y2, "text"'
            raise fault(file, what, "correct the line", line=number)


def within(path: Path, root: Path, name: str, number: int) -> Path:
    """The file of an image that a list names; an error for one outside of the list's root."""
    given = Path(name.strip())
    if "\0" in name or given.is_absolute() or ".." in given.parts:
        advice = "write paths relative to the list's folder, or to root="
        raise fault(path, f"the image {name[:80]!r} is not below {root}", advice, line=number)
    return root / given
