"""Pascal VOC's XML, a file for each image (http://host.robots.ox.ac.uk/pascal/VOC/), and its PNGs of objects."""

from __future__ import annotations

import math
import xml.parsers.expat as expat
from pathlib import PurePosixPath

from pdl.data.faults import DataFault, fault
from pdl_cv.data.boxes.shapes import Pixels
from pdl_cv.data.boxes.table import Rows, Table
from pdl_cv.data.boxes.tree import Layout, Tree, by_split, chosen, listed, split_folder

MAX_BYTES = 16 << 20
MAX_DEPTH = 16
NAMES = ("labels.txt", "label_list.txt", "classes.txt", "obj.names", "names.txt")
#: what is read of a file: leaves by their path from the top
_LEAVES = {
    "filename", "size/width", "size/height", "object/name", "object/difficult", *(f"object/bndbox/{side}" for side in
    ("xmin", "ymin", "xmax", "ymax")),
}  # fmt: skip
_AGAIN = "correct the file, or write it again"


def layout(tree: Tree) -> Layout:
    """The splits: as list files name them (ImageSets/Main/train.txt, train.txt), or by the folders train, val, test."""
    files = tree.ending(".xml")
    if not files or not is_voc(tree, files[0]):
        return {}
    table = read(tree, files)
    tree.without_annotation(table.paths, files)
    rows = listed(tree, table.paths) or by_split(map(split_folder, table.sources))
    return chosen(table, rows)


def is_voc(tree: Tree, name: str) -> bool:
    """Whether a file is one of these."""
    return "<annotation" in tree.bytes(name, MAX_BYTES)[:4096].decode("utf-8", "replace")


def read(tree: Tree, files: list[str]) -> Table:
    """The objects of all files; classes are those of a list (labels.txt, ...), or all names found, sorted. Objects of
    images with a PNG in SegmentationObject have masks: object 1 the pixels of number 1, and so on."""
    rows, known = Rows(tree), names_file(tree)
    found: dict[str, int] = {name: label for label, name in enumerate(known or ())}
    maps = {PurePosixPath(name).stem: name for name in tree.images
            if PurePosixPath(name).parent.name.lower() == "segmentationobject"}  # fmt: skip
    for name in files:
        with rows.whole():
            _image(tree, rows, name, found, maps, closed=known is not None)
    return _sorted(rows.table(list(found)), known is None)


def _image(tree: Tree, rows: Rows, name: str, found: dict[str, int], maps: dict[str, str], *, closed: bool) -> None:
    leaves, objects = parse(tree, name)
    stem = PurePosixPath(name).stem
    path = tree.image(stem, name) or _named(tree, leaves, name)
    image = rows.image(path, name, tuple(_size(tree, name, leaves, side) for side in ("height", "width")))  # type: ignore[arg-type]
    for number, (line, each) in enumerate(objects, 1):
        label = each.get("object/name", "")
        if not label or (closed and label not in found):
            what = f"{label!r} is none of the classes ({', '.join([*found][:8])})" if label else "an object has no name"
            raise fault(tree.root / name, what, "correct it, or the list of classes", line=line)
        shape = Pixels(maps[stem], number) if stem in maps else None
        rows.add(image, _box(tree, name, line, each), found.setdefault(label, len(found)), where=line,
                 difficult=each.get("object/difficult", "0") not in ("", "0"), shape=shape)  # fmt: skip


def _sorted(table: Table, by_name: bool) -> Table:
    return table.with_classes(sorted(table.classes)) if by_name else table


def names_file(tree: Tree) -> list[str] | None:
    """The class names of a list file at the top or one folder down (labels/classes.txt, data/obj.names), one a line;
    None where there is none."""
    found = [name for name in tree.files if name.count("/") <= 1 and PurePosixPath(name).name in NAMES]
    if not found:
        return None
    first = min(found, key=lambda name: (name.count("/"), NAMES.index(PurePosixPath(name).name), name))
    return [line.strip() for line in tree.text(first).splitlines() if line.strip()]


def _named(tree: Tree, leaves: dict[str, str], name: str) -> str:
    own = leaves.get("filename", "")
    found = tree.image(PurePosixPath(own.replace("\\", "/")).stem, name) if own else None
    if found is None:
        raise fault(tree.root / name, f"its image is not there: {own or 'no filename'}", "add it, or remove the file")
    return found


def _size(tree: Tree, name: str, leaves: dict[str, str], side: str) -> int:
    text = leaves.get(f"size/{side}", "0")
    try:
        value = int(float(text))
        if 0 <= value < 1 << 28:
            return value
    except (ValueError, OverflowError):
        pass
    raise fault(tree.root / name, f"{side} {text[:40]!r} is no number of pixels", _AGAIN)


def _box(tree: Tree, name: str, line: int, leaves: dict[str, str]) -> tuple[float, float, float, float]:
    """VOC counts pixels from 1, and both ends are inside."""
    values = []
    for side in ("xmin", "ymin", "xmax", "ymax"):
        text = leaves.get(f"object/bndbox/{side}")
        try:
            values.append(float(text) if text is not None else math.nan)
        except ValueError:
            raise fault(tree.root / name, f"{side} {(text or '')[:40]!r} is no number", _AGAIN, line=line) from None
        if text is None:
            raise fault(tree.root / name, f"an object has no {side}", _AGAIN, line=line)
    return values[0] - 1, values[1] - 1, values[2], values[3]


def parse(tree: Tree, name: str) -> tuple[dict[str, str], list[tuple[int, dict[str, str]]]]:
    """The leaves of a file that matter, and of each object the line and its leaves. Document types, which can declare
    entities, are refused."""
    path = tree.root / name
    leaves: dict[str, str] = {}
    objects: list[tuple[int, dict[str, str]]] = []
    stack: list[str] = []
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(tag: str, _: dict[str, str]) -> None:
        stack.append(tag)
        if len(stack) > MAX_DEPTH:
            raise fault(path, f"elements nested {len(stack)} deep", _AGAIN, line=parser.CurrentLineNumber)
        if stack[1:] == ["object"]:
            objects.append((parser.CurrentLineNumber, {}))

    def text(data: str) -> None:
        place = "/".join(stack[1:])
        if place in _LEAVES:
            target = objects[-1][1] if place.startswith("object") else leaves
            target[place] = target.get(place, "") + data

    def refuse(*_: object) -> None:
        raise fault(path, "it declares a document type, which annotations have no use for", "remove the line <!DOCTYPE",
                    line=parser.CurrentLineNumber)  # fmt: skip

    parser.StartElementHandler, parser.CharacterDataHandler = start, text
    parser.EndElementHandler = lambda _: stack.pop()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(tree.bytes(name, MAX_BYTES), True)
    except expat.ExpatError as error:
        raise _damaged(tree, name, error) from error
    return _stripped(leaves), [(line, _stripped(each)) for line, each in objects]


def _stripped(leaves: dict[str, str]) -> dict[str, str]:
    return {place: text.strip() for place, text in leaves.items()}


def _damaged(tree: Tree, name: str, error: expat.ExpatError) -> DataFault:
    return fault(tree.root / name, f"not XML: {expat.errors.messages[error.code]}", _AGAIN, line=error.lineno)
