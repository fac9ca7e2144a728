"""How right the slots of orders are heard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric


class Heard(NamedTuple):
    """Orders: numbers of the values that were found and of those that were said, int64 [N, S] each, and the numbers of
    the samples, int64 [N]."""

    found: Array
    said: Array
    numbers: Array


class Orders(Metric):
    """All orders (`Heard`)."""

    def __init__(self) -> None:
        self._seen: list[Heard] = []

    def update(self, found: Array, said: Array, index: Array) -> None:
        """found int [N, S], said int [N, S], index int [N]."""
        self._seen.append(Heard(np.array(found), np.array(said), np.array(index)))

    def compute(self) -> Any:
        return Heard(*(np.concatenate(parts) for parts in zip(*self._seen, strict=True)))


class SlotAccuracy(Metric):
    """The share of slots whose value is right, that it is not said among them; or that of one slot alone.

    slot  its number; None: of all slots
    """

    def __init__(self, slot: int | None = None) -> None:
        self.slots = slice(None) if slot is None else slice(slot, slot + 1)
        self.hits = self.seen = 0

    def update(self, found: Array, said: Array, index: Any) -> None:
        right = found[:, self.slots] == said[:, self.slots]
        self.hits, self.seen = self.hits + int(right.sum()), self.seen + right.size

    def compute(self) -> float:
        return self.hits / self.seen if self.seen else float("nan")


class WholeOrders(SlotAccuracy):
    """The share of orders whose slots are all right."""

    def update(self, found: Array, said: Array, index: Any) -> None:
        right = (found == said).all(axis=1)
        self.hits, self.seen = self.hits + int(right.sum()), self.seen + len(right)


class SlotF1(Metric):
    """Micro F1 = 2 TP / (said + found) over the slots that are said, and those that are found; TP: found as said."""

    def __init__(self) -> None:
        self.hits = self.counted = 0

    def update(self, found: Array, said: Array, index: Any) -> None:
        self.hits += int(((found == said) & (said > 0)).sum())
        self.counted += int((found > 0).sum() + (said > 0).sum())

    def compute(self) -> float:
        return 2 * self.hits / self.counted if self.counted else float("nan")


def slot_metrics(names: Sequence[str]) -> dict[str, Metric]:
    """Whole orders, slots, each slot, F1; and all orders for the report."""
    own = {f"accuracy@{name}": SlotAccuracy(slot) for slot, name in enumerate(names)} if len(names) > 1 else {}
    return {"whole": WholeOrders(), "accuracy": SlotAccuracy(), **own, "f1": SlotF1(), "orders": Orders()}


def confused(heard: Heard, slots: Mapping[str, Sequence[str]]) -> list[tuple[str, str, str, int]]:
    """(slot, said, found, times) of values that are found as others, "" where there is none, the most frequent
    first."""
    counts = Counter[tuple[str, str, str]]()
    for row, k in np.argwhere(heard.found != heard.said).tolist():
        name = list(slots)[k]
        counts[name, slots[name][heard.said[row, k]], slots[name][heard.found[row, k]]] += 1
    return [(*each, times) for each, times in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]


def worded(numbers: Array, slots: Mapping[str, Sequence[str]], found: Array | None = None) -> str:
    """The values of the slots of an order, int [S], that are said: "size: small, roast: dark"; with what was found in
    their place, int [S], where that differs: "size: [small -> large]"."""
    parts = []
    for k, (name, values) in enumerate(slots.items()):
        value = values[numbers[k]]
        if found is not None and found[k] != numbers[k]:
            parts.append(f"{name}: [{value} -> {values[found[k]]}]")
        elif value:
            parts.append(f"{name}: {value}")
    return ", ".join(parts) or "nothing"
