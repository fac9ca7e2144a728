"""Images named by a list file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pdl.data.dataset import Sample
from pdl.data.faults import DataFault, Fault, fault, unreadable
from pdl.files import read_bytes
from pdl.hints import Inherited
from pdl_cv.data.base import ImageFiles, locate

MAX_BYTES = 1 << 30


class ImageList(ImageFiles):
    """Pictures and labels from a text file: a line for each, `path<TAB>label` or `path label`; empty lines are skipped.

    file     the list, UTF-8; a relative one is also looked for under PDL_DATA
    root     what the paths are relative to; by default the list's folder
    classes  the class names: a list, or the path of a file with one name a line. A label is a number 0..n-1 or a
             name. Without it, numbers give the classes 0..largest, names give their sorted list; the splits of one
             data set then may differ, so name the classes where there are several splits
    All else is as in `ImageFiles`.
    """

    def __init__(
        self,
        file: str | Path,
        *,
        root: str | Path | None = None,
        classes: Sequence[str] | str | Path | None = None,
        **options: Inherited,
    ) -> None:
        self.file = locate(file)
        names = _read_lines(locate(classes)) if isinstance(classes, str | Path) else classes
        lines = enumerate(_read_lines(self.file), 1)
        entries = [_entry(self.file, number, line) for number, line in lines if line.strip()]
        if not entries:
            raise fault(self.file, "the list is empty", "write a line `path label` for each picture")
        self.lines = [number for number, _, _ in entries]
        found = _classes([label for _, _, label in entries]) if names is None else names
        known = [str(name) for name in found if str(name).strip()]
        index = {name: i for i, name in enumerate(known)}
        labels = [_label(self.file, number, label, index, len(known)) for number, _, label in entries]
        base = self.file.parent if root is None else locate(root)
        super().__init__(base, [path for _, path, _ in entries], labels, known, **options)

    def __getitem__(self, index: int) -> Sample:
        try:
            return super().__getitem__(index)
        except DataFault as error:
            old = error.fault
            what = f"{old.what} (listed in {self.file}:{self.lines[index]})"
            raise DataFault(Fault(old.path, index, what, old.advice)) from error.__cause__


def _read_lines(path: Path) -> list[str]:
    try:
        data = read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise fault(path, "not UTF-8 text", "save the list as UTF-8", line=line) from error


def _entry(file: Path, number: int, line: str) -> tuple[int, str, str]:
    """(line number, path, label)."""
    parts = line.strip().rsplit("\t", 1) if "\t" in line.strip() else line.strip().rsplit(None, 1)
    if len(parts) != 2 or not all(part.strip() for part in parts) or "\0" in line:
        raise fault(
            file, f"{line.strip()[:60]!r} is not `path label`", "write a path, a tab or space, and a label", line=number
        )
    return number, parts[0].strip(), parts[1].strip()


def _is_number(label: str) -> bool:
    return label.isascii() and label.removeprefix("-").isdigit() and len(label) < 10


def _classes(labels: list[str]) -> list[str]:
    if all(map(_is_number, labels)):
        top = max(int(label) for label in labels)
        if top < max(10_000, 10 * len(labels)):  # a typo must not ask for billions of names; _label reports it
            return [str(i) for i in range(top + 1)]
        return [str(i) for i in range(len(labels))]
    return sorted(set(labels))


def _label(file: Path, number: int, label: str, index: dict[str, int], count: int) -> int:
    if label in index:
        return index[label]
    if _is_number(label) and 0 <= int(label) < count:
        return int(label)
    known = ", ".join(list(index)[:5]) + (", ..." if count > 5 else "")
    raise fault(
        file,
        f"label {label!r} is outside of 0..{count - 1} and no name of the class list ({known})",
        "correct the label, or the class list (classes=)",
        line=number,
    )
