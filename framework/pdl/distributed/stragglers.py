"""Ranks that the others wait for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.dtype import Array

WINDOW = 50  # steps that a rank is judged by
_LEAST = 1e-3  # seconds a step that are worth a word


class Stragglers:
    """Names each rank once whose own time in a step, that without waiting, is more than `factor` times the median of
    the others; of the last `WINDOW` steps the medians of both halves count, so that single slow ones (a checkpoint, a
    first program) and a short load of a machine do not.

    hosts   the machine of each rank
    """

    def __init__(self, hosts: Sequence[str], factor: float) -> None:
        self.hosts, self.factor = list(hosts), factor
        self.named: set[int] = set()
        self._seconds = np.zeros((WINDOW, len(hosts)))
        self._steps = 0

    def see(self, seconds: Array) -> list[str]:
        """The own times of all ranks in a step, [ranks]; lines about those that are named now."""
        self._seconds[self._steps % WINDOW] = seconds
        self._steps += 1
        if self._steps % WINDOW or len(self.hosts) == 1:
            return []
        halves = np.median(np.array_split(self._seconds, 2), axis=1)
        return [line for rank in range(len(self.hosts)) if (line := self._judged(rank, halves))]

    def _judged(self, rank: int, halves: Array) -> str:
        """The line about a rank, given [2, ranks]: the medians of the halves; "" where there is nothing to say."""
        ours, theirs = halves[:, rank], np.median(np.delete(halves, rank, axis=1), axis=1)
        if rank in self.named or (ours <= self.factor * theirs).any() or (ours - theirs).min() < _LEAST:
            return ""
        mine, others = float(ours.mean()), float(theirs.mean())
        self.named.add(rank)
        return (
            f"warning: rank {rank} on {self.hosts[rank]} takes {mine / max(others, 1e-9):.1f} times as long as the "
            f"others, which wait for it: {mine * 1e3:.1f} ms of its own a step, they {others * 1e3:.1f} ms (medians of "
            f"{WINDOW} steps); see what else runs on that machine, and how fast it reads the data"
        )
