"""Pure wheels, written directly (the binary distribution format of packaging.python.org, PEP 427): a zip archive, its
metadata, and RECORD with the hash of every file. The same content gives the same bytes, on every machine and day.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pdl.errors import UsageError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip archive
_READABLE = 0o100644 << 16  # a regular file, rw-r--r--


@dataclass(frozen=True)
class Wheel:
    """What goes into a wheel for any Python 3.

    name, version   of the distribution, both in their normal form (PEP 503, PEP 440)
    files           path in site-packages -> content
    licences        file name -> content, in the metadata's licenses/
    entry_points    group -> {name: value}
    description     markdown
    """

    name: str
    version: str
    summary: str
    licence: str
    requires: Sequence[str]
    files: Mapping[str, bytes]
    licences: Mapping[str, bytes] = field(default_factory=dict)
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    description: str = ""
    requires_python: str = ">=3.11"

    @property
    def stem(self) -> str:
        """`pdl_my_model-1.0`."""
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def filename(self) -> str:
        """`pdl_my_model-1.0-py3-none-any.whl`."""
        return f"{self.stem}-py3-none-any.whl"

    def to_bytes(self) -> bytes:
        """The file. Members are stored and not compressed: weights hardly shrink, and compressors differ by version."""
        info = f"{self.stem}.dist-info"
        made = "Wheel-Version: 1.0\nGenerator: pdl package\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        members = {
            **dict(sorted(self.files.items())),
            **{f"{info}/licenses/{name}": data for name, data in sorted(self.licences.items())},
            f"{info}/METADATA": self._metadata().encode(),
            f"{info}/WHEEL": made.encode(),
            f"{info}/entry_points.txt": self._entry_points().encode(),
        }
        record = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in members.items()]
        members[f"{info}/RECORD"] = "".join(f"{line}\n" for line in [*record, f"{info}/RECORD,,"]).encode()
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for name, data in members.items():
                member = zipfile.ZipInfo(name, _EPOCH)
                member.create_system, member.external_attr = 3, _READABLE
                archive.writestr(member, data)
        return stream.getvalue()

    def _metadata(self) -> str:
        headers = [
            ("Metadata-Version", "2.4"), ("Name", self.name), ("Version", self.version), ("Summary", self.summary),
            ("License-Expression", self.licence), *(("License-File", name) for name in sorted(self.licences)),
            ("Requires-Python", self.requires_python), *(("Requires-Dist", each) for each in self.requires),
            ("Description-Content-Type", "text/markdown"),
        ]  # fmt: skip
        for key, value in headers:
            if not value.isprintable():
                raise UsageError(f"{key} of a wheel is one line of text, got {value!r}")
        return "".join(f"{key}: {value}\n" for key, value in headers) + f"\n{self.description}"

    def _entry_points(self) -> str:
        groups = [
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in sorted(entries.items()))
            for group, entries in sorted(self.entry_points.items())
        ]
        return "\n".join(groups)


def _digest(data: bytes) -> str:
    """sha256 as RECORD writes it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
