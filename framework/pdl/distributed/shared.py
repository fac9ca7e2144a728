"""Memory that all ranks of one machine read and write."""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress

import numpy as np

from pdl.distributed.group import Group, Pending
from pdl.dtype import Array

_PLACE = "/dev/shm"


def shared(group: Group, nbytes: int) -> Array | None:
    """uint8 [nbytes] of zeros, the same memory on all ranks, which make the call together; None where the system has no
    room, or no such memory."""
    handle, path = -1, ""
    if group.rank == 0:
        with suppress(OSError, AttributeError):
            handle, path = tempfile.mkstemp(prefix="pdl-", dir=_PLACE)
            os.posix_fallocate(handle, 0, nbytes)  # now, and not when it is written to
    path = group.texts(path)[0]
    if group.rank and path:
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR)
    found: Array | None = None
    with suppress(OSError, ValueError):
        if handle >= 0:
            found = np.frombuffer(mmap.mmap(handle, nbytes), np.uint8)
    missing = group.any(found is None)
    if handle >= 0:
        os.close(handle)
    if group.rank == 0 and path:
        os.unlink(path)
    return None if missing else found


def meeting(group: Group, what: str = "meeting", size: int = 0, *, later: bool = False) -> Pending:
    """Done when all ranks have come here: what each has written to shared memory before it, all may then read. `later`:
    its turn is among the gathers that begin when something has come. `what` is read then, in bytes: `size`."""
    return Pending(group, (group.later if later else group.comm).Ibarrier(), None, what, size)
