"""The only place that prints. Results go to standard output, everything else to standard error.

On a terminal tables fit its width: prose is broken between words, names and numbers are not broken at all; elsewhere
every row is one line. A reader that closes the pipe ends the program quietly. Names and texts may be a
stranger's: what a terminal would obey in them is shown (`\\x1b`) instead.
"""

from __future__ import annotations

import json as _json
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any, TextIO

CLOSED_PIPE = 141  # what a shell reports for a program that wrote to a pipe nobody reads


#: what terminals obey: control characters but line breaks and tabs, and marks that change the direction of writing
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def shown(text: str) -> str:
    """Text with what a terminal would obey written out: `\\x1b[2J` clears no screen."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def out(text: str) -> None:
    """A line (or several) of result."""
    _write(sys.stdout, text)


def piece(text: str) -> None:
    """A part of a line of result, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def error(text: str) -> None:
    """What went wrong, on standard error: lines that begin with a place (`file:12: ...`) stay so, for editors."""
    _write(sys.stderr, text)


def note(text: str) -> None:
    """Something worth knowing that is no result, on standard error."""
    _write(sys.stderr, text)


def json(value: Any) -> None:
    """One line of JSON. Numbers that JSON lacks (NaN, infinity) become null."""
    out(_json_text(value))


def json_list(values: Iterable[Any]) -> None:
    """The same of a list, whose values are written as they come and not kept; the line of one that ends with an error
    ends there, too."""
    lead, end = "[", ""
    try:
        for value in values:
            _write(sys.stdout, f"{lead}{_json_text(value)}", end="")
            lead = ", "
        end = "]" if lead == ", " else "[]"
    finally:
        if end or lead == ", ":
            out(end)


def _json_text(value: Any) -> str:
    text = _json.dumps(_jsonable(value), ensure_ascii=False, allow_nan=False)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # as JSON writes it


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
    """Rows under column names; numbers are aligned right. Columns that a terminal has no room for come in a further
    table below, with the first column again."""
    columns = [_one_line(name) for name in columns]
    rows = list(rows)
    wide = [
        max((abs(row[i]) for row in rows if isinstance(row[i], float)), default=0) >= 100 for i in range(len(columns))
    ]
    texts = [[cell(value, coarse=wide[i]) for i, value in enumerate(row)] for row in rows]
    right = [bool(texts) and all(_is_number(row[i]) for row in texts) for i in range(len(columns))]
    lines = list(columns), *texts
    widths = [max(_width(row[i]) for row in lines) for i in range(len(columns))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sum(widths) + 2 * len(widths)
    prose = [any(len(row[i]) > _PROSE and " " in row[i] for row in texts) for i in range(len(columns))]
    out("\n".join([*([title] if title else []), *_laid_out(lines, widths, right, prose, room)]))


def pairs(items: Iterable[tuple[str, Any]], *, title: str = "") -> None:
    """`name  value` lines; entries whose value is None are left out."""
    known = [(name, cell(value)) for name, value in items if value is not None]
    width = max((_width(name) for name, _ in known), default=0)
    lines = [f"{name}{' ' * (width - _width(name))}  {value}" for name, value in known]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        lines = [line if len(line) <= room else "\n".join(_broken(line, room, " " * (width + 2))) for line in lines]
    out("\n".join([*([title] if title else []), *lines]))


def entry(name: str, about: str, text: str) -> None:
    """A name with what it is on a line, and a text below; broken between words where the terminal is narrow."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
    lines = _broken(f"{name}  {about}", room, " " * 8)
    out("\n".join([*lines, *(_broken(f"    {text}", room, " " * 4) if text else ())]))


def working(text: str, *, end: bool = False) -> None:
    """What is being done right now, on one line of standard error that the next call replaces; "" takes it away.
    Only on a terminal. Of what is too long for it, the beginning is shown, or the `end`.
    """
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        line = _one_line(text)
        line = line[-width:] if end else line[:width]
        _quietly(lambda: (sys.stderr.write(f"\r\x1b[K{line}"), sys.stderr.flush()))


def sign(mark: str, plain: str) -> str:
    """`mark` where standard output can show it, else `plain`."""
    try:
        mark.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return plain
    return mark


def cell(value: Any, *, coarse: bool = False) -> str:
    """A value in a table, on one line: floats with four significant places, None and NaN (nothing to measure) as a
    dash. `coarse`: of a column with numbers from 100 on, such as pixels, where one place behind the point is enough."""
    if value is None or value != value:
        return "-"
    if isinstance(value, float):
        if coarse and (value == 0 or 0.05 <= abs(value) < 1e5):
            return f"{value:.1f}"
        return f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.4g}"
    return _one_line(str(value))


def _one_line(text: str) -> str:
    return shown(text).replace("\n", "\\n").replace("\t", "\\t")


def progress(name: str, done: int, total: int) -> None:
    """How far a transfer of bytes is, on standard error: a line that is rewritten; one line where standard error is no
    terminal."""
    _tell(_Transfer, name, done, total)


def steps(name: str, done: int, total: int) -> None:
    """How many steps of something are done, likewise."""
    _tell(_Steps, name, done, total)


def _tell(kind: type[_Transfer], name: str, done: int, total: int) -> None:
    global _transfer
    if _transfer is None or _transfer.name != name:
        _settle()
        _transfer = kind(name, total)
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
                _quietly(lambda: sys.stderr.write(f"{shown(self.beginning())}\n"))
        if self.alive and now - self.shown >= 0.1:
            self.shown = now
            _quietly(lambda: sys.stderr.write(f"\r\x1b[K{shown(self.line(done, now))}"))
            _quietly(sys.stderr.flush)

    def beginning(self) -> str:
        """The one line where standard error is no terminal."""
        return f"fetching {self.name} ({size(self.total)})"

    def line(self, done: int, now: float) -> str:
        """`cv/net  [####    ]  43 %  4.7 MB of 10.9 MB  2.1 MB/s`."""
        speed = (done - self.first) / max(now - self.began, 1e-3)
        return f"{self.bar(done)}  {size(done)} of {size(self.total)}  {size(round(speed))}/s"

    def bar(self, done: int) -> str:
        """The name, and the share that is done."""
        part = min(done / self.total, 1.0) if self.total else 1.0
        return f"{self.name}  [{'#' * round(20 * part):<20}] {part:4.0%}"


class _Steps(_Transfer):
    """Things that are done one by one."""

    def beginning(self) -> str:
        return f"{self.name} ({self.total})"

    def line(self, done: int, now: float) -> str:
        """`timing products  [####    ]  43 %  7 of 16`."""
        return f"{self.bar(done)}  {done} of {self.total}"


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


def _write(stream: TextIO, text: str, end: str = "\n") -> None:
    _settle()
    encoding = stream.encoding or "utf-8"
    _quietly(lambda: stream.write(shown(text).encode(encoding, "replace").decode(encoding) + end))


def _quietly(write: Callable[[], object]) -> None:
    try:
        write()
    except BrokenPipeError:
        silence()
        raise SystemExit(CLOSED_PIPE) from None


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    gaps = [" " * (width - _width(text)) for text, width in zip(row, widths, strict=True)]
    cells = (gap + text if number else text + gap for text, gap, number in zip(row, gaps, right, strict=True))
    return "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """How many columns of a terminal a text takes: letters of East Asia two, marks above others none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "FW") for c in text)


_PROSE = 24  # characters: longer cells with spaces may be broken between words


def _laid_out(
    rows: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool], prose: Sequence[bool], room: int
) -> list[str]:
    """The lines of a table, or of as many as its columns need, one below the other."""
    lines: list[str] = []
    least = [_least(column, prose[i], widths[i]) for i, column in enumerate(zip(*rows, strict=True))]
    for chosen in _blocks(least, room):
        free = max(room - sum(least[i] + 2 for i in chosen) + 2, 0)
        share = free // max(sum(prose[i] for i in chosen), 1)
        own = [min(widths[i], least[i] + share) for i in chosen]
        lines += [""] if lines else []
        for row in rows:
            cells = [_broken(row[i], width, "") if prose[i] else [row[i]] for i, width in zip(chosen, own, strict=True)]
            for parts in zip_longest(*cells, fillvalue=""):
                lines.append(_aligned(parts, own, [right[i] for i in chosen]))
    return lines


def _least(column: Sequence[str], prose: bool, width: int) -> int:
    """The characters that a column needs: all of them, or of prose those of the longest word and some more."""
    if not prose:
        return width
    return min(width, max(_PROSE, *(_width(word) for text in column for word in text.split())))


def _blocks(needed: Sequence[int], room: int) -> list[list[int]]:
    """Columns side by side: as many as fit, then the first one again and as many as fit of the rest."""
    blocks, last = [[0]], needed[0]
    for i in range(1, len(needed)):
        if last + 2 + needed[i] > room and len(blocks[-1]) > 1:
            blocks.append([0])
            last = needed[0]
        blocks[-1].append(i)
        last += 2 + needed[i]
    return blocks


def _broken(text: str, width: int, indent: str) -> list[str]:
    """Lines of whole words."""
    from textwrap import wrap

    return wrap(text, max(width, 1), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


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
