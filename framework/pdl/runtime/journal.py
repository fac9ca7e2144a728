"""Answers that were found before their file is complete: FILE.partial, a line for each, so that what is interrupted, be
it by `kill -9`, goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pdl.errors import DataError, UsageError

SUFFIX = ".partial"


class Journal:
    """The lines of FILE.partial: first what command they are of, then {"name", "rows"} of an input each, and "error" of
    one without an answer. A line counts when it is whole.

    done      inputs that have one
    without   those of them that have no answer
    """

    def __init__(self, target: str | Path, identity: Mapping[str, Any], *, resume: bool = False) -> None:
        """For the answers of FILE, `target`, of the command that `identity` (plain values) says. With `resume` those
        that are there are kept; UsageError where they are of another command."""
        self.path = Path(f"{target}{SUFFIX}")
        self.done = self.without = 0
        head = json.dumps(identity, ensure_ascii=False, sort_keys=True)
        if resume and self.path.exists():
            self._keep_whole(head)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(head + "\n", encoding="utf-8")

    def add(self, name: str, rows: list[dict[str, Any]], error: str | None = None) -> None:
        """The answer for one more input, or why it has none."""
        entry = {"name": name, "rows": rows} | ({} if error is None else {"error": error})
        line = json.dumps(entry, ensure_ascii=False, default=_number)
        with self.path.open("a", encoding="utf-8") as file:  # what the system has outlives this process
            file.write(line + "\n")
        self.done += 1
        self.without += error is not None

    def entries(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Name and rows of each input."""
        with self.path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                entry = json.loads(line)
                yield entry["name"], entry["rows"]

    def close(self) -> None:
        """The file of answers is complete."""
        with suppress(FileNotFoundError):
            self.path.unlink()

    def _keep_whole(self, head: str) -> None:
        """Read what is there, and cut off a line that was not finished."""
        whole = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file):
                try:
                    value = json.loads(line) if line.endswith(b"\n") else None
                except ValueError:
                    value = None
                if value is None:
                    break
                if number == 0 and json.dumps(value, ensure_ascii=False, sort_keys=True) != head:
                    raise UsageError(
                        f"{self.path}: answers of another command: its model, inputs or options differ; "
                        "leave out --resume to begin again"
                    )
                if number and not (isinstance(value, dict) and {"name", "rows"} == value.keys() - {"error"}):
                    raise DataError(f"{self.path}: line {number + 1} is no answer; delete the file to begin again")
                whole += len(line)
                self.done += number > 0
                self.without += number > 0 and "error" in value
        if whole == 0:
            raise DataError(f"{self.path}: its first line is damaged; delete the file to begin again")
        os.truncate(self.path, whole)


def _number(value: Any) -> Any:
    """A number of NumPy's as Python's."""
    return value.item()
