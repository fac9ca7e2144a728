"""What is wrong with a data set: one `Fault` per trouble, and the error that carries it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pdl.errors import DataError

LEAVE_OUT = "leave such samples out: data.on_error=skip in a recipe, DataLoader(on_error='skip')"


@dataclass(frozen=True)
class Fault:
    """One trouble in a data set: where (path, line, sample index, split), what, and what to do about it."""

    path: str | None
    index: int | None
    what: str
    advice: str
    line: int | None = None
    split: str | None = None
    severity: str = "error"  # "warning": training goes on, but the numbers may mislead

    def __str__(self) -> str:
        place = self.path or ""
        if self.line is not None:
            place += f":{self.line}"
        index = None if self.index is None else f"index {self.index}"
        where = " ".join(part for part in (self.split and f"[{self.split}]", place, index and f"({index})") if part)
        return f"{where}: {self.what}; {self.advice}" if where else f"{self.what}; {self.advice}"


class DataFault(DataError):
    """A `DataError` that knows its `Fault` (path, index, what, advice)."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))

    def at(self, *, path: str | None = None, index: int | None = None) -> DataFault:
        """The same fault, with the path and index filled in where they are not known yet."""
        old = self.fault
        return DataFault(replace(old, path=old.path or path, index=index if old.index is None else old.index))


def fault(path: str | Path | None, what: str, advice: str, *, index: int | None = None,
          line: int | None = None) -> DataFault:
    """A ready-made `DataFault` to raise."""
    return DataFault(Fault(None if path is None else str(path), index, what, advice, line))


def unreadable(path: str | Path, error: OSError, *, index: int | None = None) -> DataFault:
    """The `DataFault` for a file that the operating system refuses to read."""
    if isinstance(error, FileNotFoundError):
        return fault(path, "no such file", "restore it, or take it out of the list", index=index)
    if isinstance(error, PermissionError):
        return fault(path, "permission denied", "make it readable for this user (chmod u+r)", index=index)
    if isinstance(error, IsADirectoryError):
        return fault(path, "a folder stands where a file was expected", "name the file itself", index=index)
    return fault(path, f"cannot be read: {error.strerror or error}", "check the disk and the file", index=index)
