"""Memory that programs run in."""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

import numpy as np

from pdl.dtype import Array
from pdl.errors import MemoryLimitError
from pdl.kernels.memory import empty
from pdl.ops.packed import HUGE

#: bytes below which a block comes from pdl's allocator: less than a page a piece would be waste
SMALL = 16 << 10


class Tenant(Protocol):
    """What runs in an `Arena`."""

    def release(self) -> None:
        """Let go of the block, which is to be replaced."""


class Arena:
    """A block of memory that several executables run in, one at a time: as large as the largest of them needs. Outputs
    of one are overwritten by the next run of any.
    """

    def __init__(self, block: Array | None = None) -> None:
        self.block = empty((0,), np.dtype(np.uint8)) if block is None else block
        self.lock = threading.RLock()
        self.tenants: WeakSet[Tenant] = WeakSet()

    def take(self, tenant: Tenant, nbytes: int) -> None:
        """Make room for one more, in a new block where this one is too small."""
        with self.lock:
            self.tenants.add(tenant)
            if nbytes > self.block.nbytes:
                for each in self.tenants:
                    each.release()
                self.block = empty((0,), np.dtype(np.uint8))  # first: the old block goes before the new one comes
                self.block = pages(nbytes)


def pages(nbytes: int) -> Array:
    """Memory straight from the operating system, uint8 [nbytes], which gets it back when the array goes.

    Blocks of plans have any size; in an allocator's free list those of forgotten plans would pile up.
    """
    if nbytes < SMALL:
        return empty((nbytes,), np.dtype(np.uint8))
    try:
        if nbytes < HUGE or not hasattr(mmap, "MADV_HUGEPAGE"):
            return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)
        room = -(-nbytes // HUGE) * HUGE + HUGE  # whole pages, wherever the first one begins
        taken = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has small pages alone
        with suppress(OSError):  # a kernel without huge pages
            taken.madvise(mmap.MADV_HUGEPAGE)
        found = np.frombuffer(taken, np.uint8)
        begin = -found.ctypes.data % HUGE
        return found[begin : begin + nbytes]
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryLimitError(
            f"a run needs {nbytes / 2**30:.3g} GiB, which this machine does not give ({error}); "
            "give it fewer or smaller inputs"
        ) from None
