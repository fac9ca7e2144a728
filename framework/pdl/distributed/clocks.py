"""How far the clocks of ranks are apart."""

from __future__ import annotations

import time

import numpy as np

from pdl.distributed.group import _PIECE, Group, Pending, _bytes
from pdl.dtype import Array

_TAG = 62
_ROUNDS = 16


def clock_offsets(group: Group) -> Array:
    """float64 [ranks, 2]: what is to be added to `time.perf_counter` of each rank to have that of rank 0, and by how
    much this may be wrong, in seconds. All ranks make this call.

    Rank 0 asks each rank for its time and takes that for the middle between question and answer; the quickest answer
    counts, and half of its way is the bound (Cristian, 1989).
    """
    found, time_of = np.zeros((group.size, 2)), np.zeros(1)
    if group.rank:
        for _ in range(_ROUNDS):
            _receive(group, np.zeros(1), 0)
            time_of[0] = time.perf_counter()
            _send(group, time_of, 0)
    for rank in range(1, group.size) if not group.rank else ():
        found[rank, 1] = np.inf
        for _ in range(_ROUNDS):
            begin = time.perf_counter()
            _send(group, np.zeros(1), rank)
            _receive(group, time_of, rank)
            end = time.perf_counter()
            if (end - begin) / 2 < found[rank, 1]:
                found[rank] = (begin + end) / 2 - time_of[0], (end - begin) / 2
    group.broadcast(found)
    return found


def texts_on_first(group: Group, mine: str) -> list[str]:
    """On rank 0 the texts of all ranks, which go to nobody else; on others none. All ranks make this call."""
    data = np.frombuffer(mine.encode(), np.uint8)
    sizes = group.rows(np.array([len(data)], np.int64))[:, 0].tolist()
    if group.rank:
        _send(group, data, 0)
        return []
    found = [mine]
    for rank in range(1, group.size):
        came = np.empty(sizes[rank], np.uint8)
        _receive(group, came, rank)
        found.append(came.tobytes().decode())
    return found


def _send(group: Group, values: Array, rank: int) -> None:
    for piece in _pieces(values):
        Pending(group, group.comm.Isend(_bytes(piece), dest=rank, tag=_TAG), piece).wait()


def _receive(group: Group, values: Array, rank: int) -> None:
    for piece in _pieces(values):
        Pending(group, group.comm.Irecv(_bytes(piece), source=rank, tag=_TAG), piece).wait()


def _pieces(values: Array) -> list[Array]:
    flat = values.view(np.uint8)
    return [flat[begin : begin + _PIECE] for begin in range(0, len(flat), _PIECE)]
