"""Read the members of a tar archive in memory: nothing is unpacked to disk, and sizes are bounded."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from pdl.data.faults import fault, unreadable
from pdl.files import DAMAGED, open_file

MAX_MEMBERS = 2_000_000
MAX_MEMBER_BYTES = 64 << 20
MAX_TOTAL_BYTES = 4 << 30
_AGAIN = "download the archive again from its source"
_DISTRUST = "an honest data set has no such member; get the archive from its source"


def read_tar(path: str | Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the regular files of a tar (plain, gz, bz2, xz) whose name is `wanted`, in archive order.

    Raises DataFault for a damaged or cut-off archive, names that are absolute or climb with `..`, links and devices,
    and for more members or bytes than the limits of this module.
    """
    total = 0
    try:
        with open_file(path) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
            for count, member in enumerate(archive):
                total += member.size
                _check(Path(path), member, count, total)
                if member.isfile() and wanted(member.name):
                    stream = archive.extractfile(member)
                    data = stream.read() if stream is not None else b""
                    if len(data) != member.size:
                        raise fault(path, f"member {member.name} is cut off: {len(data)} of {member.size} B", _AGAIN)
                    yield member.name, data
    except (*DAMAGED, TypeError) as error:  # TypeError: tarfile, of a gzip header that is cut off
        raise fault(path, f"the archive is damaged or cut off: {error}", _AGAIN) from error
    except OSError as error:
        if error.errno is None:  # gzip's and bz2's own complaints
            raise fault(path, f"the archive is damaged or cut off: {error}", _AGAIN) from error
        raise unreadable(path, error) from error


def _check(path: Path, member: tarfile.TarInfo, count: int, total: int) -> None:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise fault(path, f"unsafe member name {member.name!r}", _DISTRUST)
    if not (member.isfile() or member.isdir()):
        raise fault(path, f"member {member.name!r} is a link or a device", _DISTRUST)
    if member.size > MAX_MEMBER_BYTES or total > MAX_TOTAL_BYTES or count >= MAX_MEMBERS:
        raise fault(
            path,
            f"member {member.name!r} passes the limits ({MAX_MEMBER_BYTES} bytes each, {MAX_TOTAL_BYTES} "
            f"in all, {MAX_MEMBERS} members)",
            "unpack it yourself and name the folder",
        )
