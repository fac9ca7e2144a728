"""Schedules of pipelines: in which order a process runs the stages of a model on the pieces of a batch.

1F1B has as few pieces under way as keep all processes busy (PipeDream-Flush: Narayanan et al., arXiv 2006.09503);
where a process has several stages, stage r + k P on process r of P, fewer of its steps are idle (interleaved: Narayanan
et al., arXiv 2104.04473).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Action(NamedTuple):
    """A stage forward or backward, on one micro-batch."""

    forward: bool
    stage: int
    micro: int


def orders(ranks: int, chunks: int, micros: int) -> list[list[Action]]:
    """The actions of each of `ranks` processes with `chunks` stages each, for so many micro-batches."""
    more = 0
    while True:  # micro-batches that are no multiple of the processes may need a longer start
        made = [_order(rank, ranks, chunks, micros, more) for rank in range(ranks)]
        if makespan(made, lambda action: 1.0) is not None:
            return made
        more += 1


def _order(rank: int, ranks: int, chunks: int, micros: int, more: int) -> list[Action]:
    def turn(forward: bool) -> list[Action]:
        step = micros if chunks == 1 else ranks
        kinds = range(chunks) if forward else reversed(range(chunks))
        groups = [range(first, min(first + step, micros)) for first in range(0, micros, step or 1)]
        stages = [chunk * ranks + rank for chunk in kinds]
        return [Action(forward, stage, micro) for group in groups for stage in stages for micro in group]

    forwards, backwards = turn(True), turn(False)
    ahead = ranks - 1 - rank if chunks == 1 else 2 * (ranks - 1 - rank) + (chunks - 1) * ranks
    ahead = min(ahead + more, len(forwards))
    steady = [action for pair in zip(forwards[ahead:], backwards, strict=False) for action in pair]
    return [*forwards[:ahead], *steady, *backwards[len(forwards) - ahead :]]


def makespan(orders: Sequence[Sequence[Action]], seconds: Callable[[Action], float], hop: float = 0.0) -> float | None:
    """Seconds until all are done, of which a message takes `hop`; None for orders that wait for each other."""
    ranks, last = len(orders), max((a.stage for order in orders for a in order), default=0)
    done: dict[Action, float] = {}
    at, clock, moved = [0] * ranks, [0.0] * ranks, True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                forward, stage, micro = action = order[at[rank]]
                needs = [] if forward else [Action(True, stage, micro)]
                if stage != (0 if forward else last):
                    needs.append(Action(forward, stage - 1 if forward else stage + 1, micro))
                if any(need not in done for need in needs):
                    break
                come = [done[need] + (hop if need.stage % ranks != rank else 0.0) for need in needs]
                clock[rank] = done[action] = max(clock[rank], *come, 0.0) + seconds(action)
                at[rank] += 1
                moved = True
    return max(clock) if all(n == len(order) for n, order in zip(at, orders, strict=True)) else None


def most_under_way(order: Sequence[Action]) -> dict[int, int]:
    """Of each stage in an order: the most micro-batches that are forward and not yet backward at one time."""
    now, most = Counter[int](), Counter[int]()
    for action in order:
        now[action.stage] += 1 if action.forward else -1
        most[action.stage] = max(most[action.stage], now[action.stage])
    return dict(most)
