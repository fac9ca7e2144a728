"""The zip archive around a bundle: stored members, written for mapping into memory, read with suspicion.

Own code for the part of the format that a bundle uses (PKWARE APPNOTE 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16), so
that nothing in a file is believed before it is checked, and nothing is unpacked. Any zip tool can list and extract it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from pdl.runtime.strict import check, fault

ALIGN = 64  # bytes: where the content of each member begins
MAX_BYTES = 2**32 - 2**16  # without zip64
LOCAL, CENTRAL, END = struct.Struct("<4s5H3L2H"), struct.Struct("<4s6H3L5H2L"), struct.Struct("<4s4H2LH")
_VERSION, _UTF8 = 20, 0x800
_DATE = (1 << 5) | 1  # 1980-01-01: the same content gives the same bytes
_PADDING = 0xD935  # the extra field that zipalign uses


def pack(members: Mapping[str, bytes]) -> bytes:
    """The archive of these members, in order; each begins at a multiple of 64 bytes. The same input, the same bytes."""
    body, directory = bytearray(), bytearray()
    for name, data in members.items():
        label, crc, at = name.encode("ascii"), zlib.crc32(data), len(body)
        gap = -(at + LOCAL.size + len(label) + 4) % ALIGN
        extra = struct.pack("<2H", _PADDING, gap) + bytes(gap)
        common = (_VERSION, 0, 0, 0, _DATE, crc, len(data), len(data), len(label), len(extra))
        body += LOCAL.pack(b"PK\x03\x04", *common) + label + extra + data
        directory += CENTRAL.pack(b"PK\x01\x02", _VERSION, *common[:-1], 0, 0, 0, 0, 0, at) + label
    size = len(body) + len(directory) + END.size
    check(
        size <= MAX_BYTES, "bundle", "size", f"{size} bytes, more than the limit of {MAX_BYTES}", "use a smaller model"
    )
    end = END.pack(b"PK\x05\x06", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return bytes(body + directory + end)


def unpack(
    data: memoryview, source: str, allowed: Mapping[str, int], more: Callable[[str], int | None] = lambda name: None
) -> dict[str, memoryview]:
    """The members' contents, as views on `data`.

    `allowed` gives the names that members have and the most bytes each may take; `more` says the same of a member that
    may be there or not. DataError for anything else: a cut-off file, unknown, repeated or missing names, compressed or
    encrypted members, offsets out of range or overlapping, local headers that contradict the directory.
    """
    check(len(data) <= MAX_BYTES, source, "size", f"{len(data)} bytes, more than the limit of {MAX_BYTES}")
    count, start = _directory(data, source)
    found: dict[str, memoryview] = {}
    spans: list[tuple[int, int, str]] = []
    at, limit = start, start
    for _ in range(count):
        check(at + CENTRAL.size <= len(data) - END.size, source, "zip directory", "it is cut off")
        entry = CENTRAL.unpack_from(data, at)
        label = bytes(data[at + CENTRAL.size :][: entry[10]])
        name, size, extra, where = _entry(entry, label, source, allowed, more)
        check(name not in found, source, name, "stands twice in the archive")
        begin = _local(data, where, name, entry, limit, source)
        found[name] = data[begin : begin + size]
        spans.append((where, begin + size, name))
        at += CENTRAL.size + entry[10] + extra
    check(at == len(data) - END.size, source, "zip directory", "its size is not what its entries take")
    spans.sort()
    for (_, end, first), (begin, _, second) in pairwise(spans):
        check(end <= begin, source, second, f"overlaps {first} in the archive")
    missing = [name for name in allowed if name not in found]
    check(not missing, source, "archive", f"it lacks {', '.join(missing)}")
    return found


def _directory(data: memoryview, source: str) -> tuple[int, int]:
    """Number of entries and start of the central directory, from the record at the very end."""
    todo = "the file is cut off or no bundle; copy it again, or export it again with: pdl export RUN"
    if len(data) < END.size or bytes(data[:4]) != b"PK\x03\x04":
        raise fault(source, "archive", f"not a zip archive ({len(data)} bytes)", todo)
    sign, disk, first, here, count, size, start, comment = END.unpack_from(data, len(data) - END.size)
    check(sign == b"PK\x05\x06" and comment == 0, source, "archive", "its end record is not at the end", todo)
    check(disk == first == 0 and here == count, source, "archive", "it is one part of several")
    check(start + size == len(data) - END.size, source, "zip directory", f"{size} bytes at {start} do not fit the file")
    return count, start


def _entry(
    entry: tuple[Any, ...],
    label: bytes,
    source: str,
    allowed: Mapping[str, int],
    more: Callable[[str], int | None],
) -> tuple[str, int, int, int]:
    """Name, size, length of the extra fields, and offset of a member, from its directory entry."""
    sign, _, _, flags, method, _, _, _, packed, size, length, extra, comment, disk, _, _, where = entry
    check(sign == b"PK\x01\x02" and len(label) == length, source, "zip directory", "a damaged entry")
    name = label.decode("ascii", "backslashreplace")
    shown = name if len(name) <= 80 else name[:77] + "..."
    limit = allowed[name] if name in allowed else more(name)
    if limit is None:
        raise fault(source, repr(shown), f"no member of a bundle, which has {', '.join(allowed)}")
    check(flags & ~_UTF8 == 0, source, name, f"encrypted or streamed (zip flags {flags:#x}); expected a plain member")
    check(method == 0 and packed == size, source, name, f"compressed (zip method {method}); expected a stored member")
    check(disk == 0, source, name, "lies on another disk")
    check(size <= limit, source, name, f"{size} bytes, more than the limit of {limit}")
    return name, size, extra + comment, where


def _local(data: memoryview, where: int, name: str, entry: tuple[Any, ...], limit: int, source: str) -> int:
    """Where a member's content begins; its own header must say what the directory says, and it must end before it."""
    check(where + LOCAL.size <= limit, source, name, f"its offset {where} is outside the archive")
    local = LOCAL.unpack_from(data, where)
    begin = where + LOCAL.size + local[9] + local[10]
    check(begin + entry[9] <= limit, source, name, f"{entry[9]} bytes at {begin} reach beyond the members")
    label = bytes(data[where + LOCAL.size :][: local[9]])
    same = (
        local[0] == b"PK\x03\x04" and label == name.encode() and local[2:4] == entry[3:5] and local[6:9] == entry[7:10]
    )
    check(same, source, name, "its header contradicts the directory")
    return begin
