"""The only place that prints. Results go to standard output, everything else to standard error.

On a terminal tables are drawn by rich; elsewhere they are plain aligned columns. A reader that closes the pipe ends
the program quietly.
"""

from __future__ import annotations

import json as _json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

CLOSED_PIPE = 141  # what a shell reports for a program that wrote to a pipe nobody reads


def out(text: str) -> None:
    """A line (or several) of result."""
    _write(sys.stdout, text)


def error(text: str) -> None:
    """What went wrong, on standard error: lines that begin with a place (`file:12: ...`) stay so, for editors."""
    _write(sys.stderr, text)


def note(text: str) -> None:
    """Something worth knowing that is no result, on standard error."""
    _write(sys.stderr, text)


def json(value: Any) -> None:
    """One line of JSON. Numbers that JSON lacks (NaN, infinity) become null."""
    out(_json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
    """Rows under column names; numbers are aligned right."""
    texts = [[cell(value) for value in row] for row in rows]
    right = [bool(texts) and all(_is_number(row[i]) for row in texts) for i in range(len(columns))]
    if sys.stdout.isatty():
        _rich_table(columns, texts, right, title)
        return
    widths = [max(len(row[i]) for row in [list(columns), *texts]) for i in range(len(columns))]
    lines = [_aligned(row, widths, right) for row in [list(columns), *texts]]
    out("\n".join([title, *lines] if title else lines))


def pairs(items: Iterable[tuple[str, Any]], *, title: str = "") -> None:
    """`name  value` lines; entries whose value is None are left out."""
    known = [(name, cell(value)) for name, value in items if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    out("\n".join([*([title] if title else []), *(f"{name:<{width}}  {value}" for name, value in known)]))


def working(text: str) -> None:
    """What is being done right now, on one line of standard error that the next call replaces; "" takes it away.
    Only on a terminal.
    """
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        _quietly(lambda: (sys.stderr.write(f"\r\x1b[K{text[:width]}"), sys.stderr.flush()))


def sign(mark: str, plain: str) -> str:
    """`mark` where standard output can show it, else `plain`."""
    try:
        mark.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return plain
    return mark


def cell(value: Any) -> str:
    """A value in a table: floats with four significant places, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.4g}"
    return str(value)


def progress(name: str, done: int, total: int) -> None:
    """How far a transfer of bytes is, on standard error: a line that is rewritten; one line where standard error is no
    terminal."""
    global _transfer
    if _transfer is None or _transfer.name != name:
        _settle()
        _transfer = _Transfer(name, total)
    _transfer.show(done)
    if done >= total:
        _settle()


def size(count: int) -> str:
    """Bytes as people write them: 640 B, 69.7 kB, 10.9 MB."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


class _Transfer:
    """One transfer, from its first to its last progress call."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.alive = name, total, sys.stderr.isatty()
        self.began, self.first, self.shown = time.monotonic(), -1, -math.inf

    def show(self, done: int) -> None:
        """Ten times a second at most."""
        now = time.monotonic()
        if self.first < 0:
            self.first = done
            if not self.alive:
                _quietly(lambda: sys.stderr.write(f"fetching {self.name} ({size(self.total)})\n"))
        if self.alive and now - self.shown >= 0.1:
            self.shown = now
            _quietly(lambda: sys.stderr.write(f"\r\x1b[K{self.line(done, now)}"))
            _quietly(sys.stderr.flush)

    def line(self, done: int, now: float) -> str:
        """`cv/net  [####    ]  43 %  4.7 MB of 10.9 MB  2.1 MB/s`."""
        part = min(done / self.total, 1.0) if self.total else 1.0
        speed = (done - self.first) / max(now - self.began, 1e-3)
        bar = f"{'#' * round(20 * part):<20}"
        return f"{self.name}  [{bar}] {part:4.0%}  {size(done)} of {size(self.total)}  {size(round(speed))}/s"


_transfer: _Transfer | None = None


def _settle() -> None:
    """Take away the line of a transfer, before anything else is written."""
    global _transfer
    if _transfer is not None and _transfer.alive:
        _quietly(lambda: sys.stderr.write("\r\x1b[K"))
        _quietly(sys.stderr.flush)
    _transfer = None


def traceback(problem: BaseException) -> None:
    """The whole story, for PDL_DEBUG=1."""
    import traceback as tb

    _write(sys.stderr, "".join(tb.format_exception(problem)).rstrip("\n"))


def flush() -> None:
    """Flush standard output; leaves with CLOSED_PIPE when its reader is gone."""
    _settle()
    _quietly(sys.stdout.flush)


def silence() -> None:
    """The reader of standard output is gone: discard what is still buffered."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stdout without a file descriptor has nothing to silence
        return


def _write(stream: TextIO, text: str) -> None:
    _settle()
    encoding = stream.encoding or "utf-8"
    _quietly(lambda: stream.write(text.encode(encoding, "replace").decode(encoding) + "\n"))


def _quietly(write: Callable[[], object]) -> None:
    try:
        write()
    except BrokenPipeError:
        silence()
        raise SystemExit(CLOSED_PIPE) from None


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if number else text.ljust(width)
        for text, width, number in zip(row, widths, right, strict=True)
    )
    return "  ".join(cells).rstrip()


def _rich_table(columns: Sequence[str], rows: list[list[str]], right: list[bool], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    view = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
    for name, number in zip(columns, right, strict=True):
        view.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        view.add_row(*map(Text, row))
    Console().print(view)


def _is_number(text: str) -> bool:
    return (
        text == "-"
        or text.replace(",", "").replace(".", "", 1).replace("e-", "").replace("e+", "").lstrip("-").isdigit()
    )


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    if hasattr(value, "tolist"):
        return _jsonable(value.tolist())
    if isinstance(value, float) and value - value != 0:
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
