"""Tables read by several threads: pieces of files side by side, blocks in the order of one reader."""

from __future__ import annotations

import io
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pdl.data.faults import DataFault
from pdl.files import open_file
from pdl_rec.data.columns import Columns
from pdl_rec.data.reading import Source

PIECE = 1 << 25
"""Bytes of a file that one thread reads; files that are packed are read by one thread each."""
_WAITING = 8  # blocks of a piece that are read ahead
Tell = Callable[[int, int], object]


def blocks_over(
    sources: Sequence[Source],
    numeric: Collection[str],
    only: Collection[str] | None,
    tell: Tell,
    readers: int,
) -> Iterator[Columns]:
    """The tables one after another in blocks, as `Source.blocks` gives them, by so many threads. Blocks may end at
    other rows; the rows are the same, in the same order, and so are the errors."""
    if readers == 1:
        yield from (block for source in sources for block in source.blocks(numeric, only, tell))
        return
    pieces = (piece for source in sources for piece in _pieces(source))
    at_work: deque[_Reader] = deque()
    try:
        while True:
            while len(at_work) < readers and (piece := next(pieces, None)) is not None:
                at_work.append(_Reader(piece, numeric, only))
            if not at_work:
                return
            piece = at_work[0].piece
            try:
                yield from at_work[0].blocks()
            except DataFault:
                for _ in piece.source.blocks(numeric, only) if piece.size else ():
                    pass  # one reader alone knows the number of the line
                raise
            at_work.popleft()
            if piece.size:
                tell(piece.begin + piece.size, piece.whole)
    finally:
        for reader in at_work:
            reader.stop()


@dataclass(frozen=True)
class _Piece:
    """Lines of a file, `size` of its `whole` bytes from `begin` on, to be read behind its header; size 0: all of it."""

    source: Source
    begin: int = 0
    size: int = 0
    whole: int = 0
    header: bytes = b""

    def blocks(self, numeric: Collection[str], only: Collection[str] | None) -> Iterator[Columns]:
        """What the lines hold."""
        if not self.size:
            yield from self.source.blocks(numeric, only)
            return
        import pyarrow as pa

        with open_file(self.source.path) as file:
            file.seek(self.begin)
            data = self.header + file.read(self.size)
        yield from self.source.blocks(numeric, only, data=pa.BufferReader(data))


def _pieces(source: Source) -> Iterator[_Piece]:
    if not source.path.is_file() or source.path.suffix in (".gz", ".bz2", ".zst", ".lz4"):
        yield _Piece(source)
        return
    with open_file(source.path) as file:
        whole, header = file.seek(0, io.SEEK_END), b""
        file.seek(0)
        if source.headed:
            while (header := file.readline()) and not header.strip():
                pass
        begin = file.tell()
        if begin == whole:
            yield _Piece(source)
        while begin < whole:
            file.seek(min(begin + PIECE, whole))
            file.readline()  # to the end of the line
            yield _Piece(source, begin, file.tell() - begin, whole, header)
            begin = file.tell()


class _Reader:
    """A thread that reads a piece ahead."""

    def __init__(self, piece: _Piece, numeric: Collection[str], only: Collection[str] | None) -> None:
        self.piece = piece
        self._found: queue.Queue[Any] = queue.Queue(_WAITING)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(numeric, only), name="pdl-rec-reader", daemon=True)
        self._thread.start()

    def blocks(self) -> Iterator[Columns]:
        """What it reads; an error of it is raised here."""
        while (found := self._found.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found
        self._thread.join()

    def stop(self) -> None:
        """End it soon; what it has read is lost."""
        self._stopped.set()
        self._thread.join()

    def _work(self, numeric: Collection[str], only: Collection[str] | None) -> None:
        try:
            for block in self.piece.blocks(numeric, only):
                if not self._put(block):
                    return
            self._put(None)
        except BaseException as error:  # handed to the caller, who raises it
            self._put(error)

    def _put(self, found: Any) -> bool:
        while not self._stopped.is_set():
            try:
                self._found.put(found, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
