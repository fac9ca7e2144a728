"""Pages whose lines were read, with the values of their fields."""

from __future__ import annotations

import copy
import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from pdl.data.dataset import Dataset, Sample, StandIn, digest
from pdl.data.faults import fault
from pdl.errors import DataError, listed
from pdl.hints import Range
from pdl.runtime.headers import EXTENSIONS
from pdl_ocr.data import standin
from pdl_ocr.data.lines import folder_of, located, of_split
from pdl_ocr.data.readers import BOX_FOLDERS, IMAGE_COLUMNS, IMAGE_FOLDERS, Line, of_boxes, read_all, text_of, within
from pdl_ocr.layout import places

MOST_BYTES = 1 << 28
KEY_FOLDERS = ("key", "keys", "entities", "fields")
TABLES = ("fields.csv", "keys.csv", "values.csv")
PAGES = ("pages", "lines")  # a file .json, or a folder of them
OTHERS = frozenset({"", "other", "others", "ignore", "none", "background", "text"})  # labels of lines with no field
FORMS = (
    "a folder with box/*.txt (SROIE) or pages.json (as `pdl predict READER PAGES --json` writes it), and "
    "beside it key/*.json or fields.csv with an image and its values; or a list of PaddleOCR's whose lines have a label"
)


class Page(NamedTuple):
    """A page: the file of its image, its lines, and its fields."""

    image: Path
    lines: tuple[Line, ...]
    fields: Mapping[str, str]


class PageFields(Dataset):
    """Sample i is a page: {"lines": [{"text", "polygon"}, ...], "fields": {name: value}}: what stands on it and where,
    and what it says of its company, date, total, ...; a field that is not on it is missing or "". Images are not read.

    - a folder, as SROIE's: `box/NAME.txt` (`x1,y1,...,x4,y4,text`) and `key/NAME.json` ({"company": "..."}; also
      `entities/`, `fields/` and .txt)
    - a folder with `pages.json`, as `pdl predict READER PAGES --json` writes it, or `pages/*.json`, as `--save pages
      --format json` does, in place of `box/`
    - `fields.csv` in the folder in place of `key/`: a column `image`, and one for each field
    - a list of PaddleOCR's, `path<TAB>[{"transcription", "points", "label"}, ...]`: all lines with a label, joined, are
      the value of the field of that name; `other` and the like are none

    path     the folder or the list; a relative one is also looked for below PDL_DATA
    split    of a folder with a folder for each split; or, with `ratios`, the part that is cut out
    ratios   such as {train: 0.8, val: 0.1, test: 0.1}: cut by a hash of the paths of the pages, as `TextPages` does
    seed     of that cut
    """

    foldable = True

    def __init__(
        self,
        path: str | Path,
        *,
        split: Literal["train", "val", "test"] | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.path = located(path)
        pages = pages_of(self.path, None if split is None else str(split))
        if ratios is not None and split is not None:
            lines = [line for page in pages for line in page.lines]
            kept = {line.image for line in of_split("PageFields", lines, self.path, ratios, split, seed)}
            pages = [page for page in pages if page.image in kept]
        if not pages:
            raise DataError(f"{self.path}: no pages{f' for split {split!r}' if split else ''} are there")
        self.pages = pages
        self.root = folder_of(self.path, [page.image for page in pages])

    def __len__(self) -> int:
        return len(self.pages)

    def __getitem__(self, index: int) -> Sample:
        page = self.pages[index]
        lines = [{"text": line.text, "polygon": line.polygon} for line in page.lines if line.is_read]
        return {"lines": lines, "fields": {name: value for name, value in page.fields.items() if value.strip()}}

    @property
    def names(self) -> list[str]:
        """The fields that any page has, in the order in which they come first."""
        return list(dict.fromkeys(name for page in self.pages for name, value in page.fields.items() if value.strip()))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of names, lines and fields."""
        said = (f"{page.image.name} {page.lines} {sorted(page.fields.items())}" for page in self.pages)
        return digest(type(self).__name__, *said)

    def path_of(self, index: int) -> str:
        return str(self.pages[index].image)

    # -- folds ---------------------------------------------------------------------------------------------------------
    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        return cls._of(datasets[0], [page for each in datasets for page in each.pages])

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        return self._of(self, [self.pages[row] for row in rows])

    @staticmethod
    def _of(like: PageFields, pages: list[Page]) -> PageFields:
        """A data set as another one, of other pages."""
        found = copy.copy(like)
        found.__dict__.pop("fingerprint", None)
        found.pages = pages
        return found

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """Receipts of made-up shops, in SROIE's folders."""
        split = settings.get("split")
        made = standin.write_receipts(folder, str(split) if split and not settings.get("ratios") else "train")
        kept = {"split": split, "ratios": settings["ratios"]} if settings.get("ratios") else {"split": None}
        return StandIn({"path": str(made), **kept}, "receipts of made-up shops")


def pages_of(path: Path, split: str | None) -> list[Page]:
    """The pages of a folder or of a list. DataError where the form is not known."""
    if path.is_dir() and split and (path / split).is_dir():
        path = path / split
    if path.is_file():
        return _labelled(path)
    lists = [file for file in sorted(path.glob("*.txt")) if "\t[" in _text(file).split("\n", 1)[0]]
    lists = [file for file in lists if file.stem == split] or lists
    if len(lists) > 1:
        raise DataError(f"{path}: several lists ({listed([each.name for each in lists])}); name one as the path")
    if lists:
        return _labelled(lists[0])
    written = [file for name in PAGES for file in (path / f"{name}.json", *sorted((path / name).glob("*.json")))]
    written = [file for file in written if file.is_file()]
    boxes = next((found for each in BOX_FOLDERS if (found := sorted((path / each).glob("*.txt")))), None)
    if path.is_dir() and not written and not boxes and not any(path.glob("*.txt")):
        raise DataError(f"{path}: no lines of pages are there; expected {FORMS}")
    if written:
        lines = _written(written, path)
    else:
        lines = read_all(path, None, None) if boxes is None else [line for file in boxes for line in _boxed(file)]
    pages = dict[Path, list[Line]]()
    for line in lines:
        if line.polygon is None:
            raise DataError(f"{path}: its images are lines ({line.image.name}), not pages; expected {FORMS}")
        pages.setdefault(line.image, []).append(line)
    values = _values(path)
    lacking = [image for image in pages if key_of(image.name) not in values]
    if lacking:
        what = f"{len(lacking)} of {len(pages)} pages have no fields, such as {lacking[0].name}"
        raise fault(path, what, "give key/NAME.json for each, or a row in fields.csv; {} for a page without any")
    return [Page(image, tuple(own), values[key_of(image.name)]) for image, own in pages.items()]


def _boxed(file: Path) -> list[Line]:
    """The lines of a page in a file of ICDAR's; the image of the page need not be there."""
    name = file.stem.removeprefix("gt_")
    images = (file.parents[1] / folder / f"{name}{end}" for folder in (*IMAGE_FOLDERS, "") for end in EXTENSIONS)
    return list(of_boxes(next((image for image in images if image.is_file()), file.parents[1] / name), file))


def key_of(name: str) -> str:
    """What a page is called: the name of its image without folder and ending."""
    image = Path(name.strip())
    return image.stem if image.suffix.lower() in EXTENSIONS else image.name


def _once(names: list[str], path: Path) -> None:
    """DataError where two pages have the same name: they could not be told apart."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise fault(path, f"two pages are called {twice[0]!r:.60}", "give their images names of their own")


def _labelled(path: Path) -> list[Page]:
    """The pages of a list of PaddleOCR's, whose lines have labels."""
    found = []
    for number, row in enumerate(_text(path).split("\n"), 1):
        if not row.strip():
            continue
        name, _, said = row.partition("\t")
        lines = _json(path, said, number)
        if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
            raise fault(path, "no list of lines behind the tab", f"expected {FORMS}", line=number)
        image = within(path, path.parent, name, number)
        own = [_line(path, image, line, number) for line in lines]
        found.append(Page(image, tuple(own), _joined(lines, own)))
    _once([str(page.image) for page in found], path)
    if found and not any(page.fields for page in found):
        raise fault(path, 'none of its lines has a label other than "other"', f"expected {FORMS}")
    return found


def _joined(lines: Sequence[Mapping[str, Any]], own: Sequence[Line]) -> dict[str, str]:
    """The texts of the lines with each label, in reading order."""
    kept = [i for i, line in enumerate(own) if line.polygon is not None and len(line.polygon) == 4]
    order = [kept[place.line] for place in places([own[i].polygon or () for i in kept])]
    found: dict[str, list[str]] = {}
    for i in order + [i for i in range(len(own)) if i not in set(kept)]:
        label = str(lines[i].get("label", lines[i].get("key_cls", "other"))).strip()
        if label.lower() not in OTHERS:
            found.setdefault(label, []).append(own[i].text)
    return {label: " ".join(texts) for label, texts in found.items()}


def _written(files: Sequence[Path], folder: Path) -> list[Line]:
    """The lines of the pages that a reader of pages has written."""
    found, names = list[Line](), list[str]()
    for path in files:
        pages = _json(path, _text(path))
        for number, page in enumerate(pages if isinstance(pages, list) else [pages], 1):
            lines = page.get("lines") if isinstance(page, dict) else None
            if not isinstance(lines, list):
                raise fault(path, f"page {number} has no lines", "give what `pdl predict READER PAGES --json` writes")
            image = folder / Path(str(page.get("input", f"{path.stem}-{number}"))).name
            names.append(key_of(image.name))
            found += [_line(path, image, line, None) for line in lines] or [Line(image, "", ())]
    _once(names, folder)
    return found


def _line(path: Path, image: Path, line: Any, number: int | None) -> Line:
    line = line if isinstance(line, dict) else {"text": line}
    said, points = line.get("text", line.get("transcription")), line.get("polygon", line.get("points"))
    try:
        polygon = tuple((float(x), float(y)) for x, y in points)
    except (TypeError, ValueError):
        polygon = ()
    if not isinstance(said, str) or len(polygon) < 3 or not np.isfinite(polygon).all():
        what = f"{str(line)[:60]} has no text, or no polygon [[x, y], ...] of three corners or more"
        raise fault(path, what, "correct it", line=number)
    return Line(image, said, polygon)


def _values(folder: Path) -> dict[str, dict[str, str]]:
    """The fields of each page, by the name of its image without the ending."""
    for name in TABLES:
        if (folder / name).is_file():
            return _of_table(folder / name)
    for name in KEY_FOLDERS:
        files = sorted(p for p in (folder / name).glob("*") if p.suffix in (".json", ".txt"))
        if files:
            return {file.stem: _fields(file, _json(file, _text(file))) for file in files}
    raise DataError(f"{folder}: nothing says what the fields are (key/*.json, fields.csv); expected {FORMS}")


def _of_table(path: Path) -> dict[str, dict[str, str]]:
    text = _text(path)
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    names = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = names
    image = next((name for name in names if name.lower() in IMAGE_COLUMNS), None)
    if image is None or len(names) < 2:
        what = f"its columns are {listed(names) or 'none'}"
        raise fault(path, what, "give a column `image`, and one for each field")
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise fault(path, f"two columns are called {twice[0]!r:.60}", "give each a name of its own")
    rows = []
    for row in reader:
        if None in row or None in row.values():
            what = f"has {'more' if None in row else 'fewer'} cells than the {len(names)} columns"
            raise fault(path, what, f'write values with {delimiter!r} in quotes: "1{delimiter}5"', line=reader.line_num)
        rows.append(row)
    _once([key_of(row[image] or "") for row in rows], path)
    return {
        key_of(row[image] or ""): {name: str(row.get(name) or "") for name in names if name != image} for row in rows
    }


def _fields(path: Path, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str | int | float | None) for each in value.values()):
        raise fault(path, f"{str(value)[:60]} is no object of fields", 'expected {"company": "...", "total": "9.00"}')
    return {str(name): "" if each is None else str(each) for name, each in value.items()}


def _text(path: Path) -> str:
    return text_of(path, MOST_BYTES)


def _json(path: Path, text: str, line: int | None = None) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(path, f"not JSON: {error}", "correct it", line=line) from error
