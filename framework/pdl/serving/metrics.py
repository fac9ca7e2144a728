"""Counters, gauges and histograms, as Prometheus reads them (text format 0.0.4), of all worker processes together.

Numbers lie in memory that the workers share: each has a part of its own, which it alone writes, and whoever is asked
sums all parts. A part is a table of float64 values, and the series that they are of, a line each in order.
"""

from __future__ import annotations

import mmap
import os
import re
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

ROOM, TEXT = 4096, 1 << 19  # values, and bytes of their names, of each worker
PART = 8 * (ROOM + 1) + TEXT
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)

#: name -> its type, what it says
FAMILIES = {
    "pdl_requests_total": ("counter", "Requests by model, version, way in and status."),
    "pdl_refused_total": ("counter", "Requests without an answer by reason."),
    "pdl_request_seconds": ("histogram", "Time from a whole request to its answer."),
    "pdl_queue_seconds": ("histogram", "Time that requests waited for their batch."),
    "pdl_batch_seconds": ("histogram", "Time that batches ran."),
    "pdl_batch_rows": ("histogram", "Rows of batches."),
    "pdl_waiting": ("gauge", "Requests in queues."),
    "pdl_under_way": ("gauge", "Requests that are being answered."),
    "pdl_connections": ("gauge", "Open connections over HTTP."),
    "pdl_loads_total": ("counter", "Versions that were loaded, by outcome."),
    "pdl_model_bytes": ("gauge", "Size of the file of a version, which all workers map."),
    "pdl_shadow_total": ("counter", "Requests that a shadow version answered, too, by outcome."),
    "pdl_shadow_difference": ("histogram", "Largest difference of an output between a version and its shadow."),
    "pdl_workers": ("gauge", "Worker processes."),
    "pdl_restarts_total": ("counter", "Worker processes that ended and were started again."),
}
DIFFERENCES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
BOUNDS = {"pdl_batch_rows": ROWS, "pdl_shadow_difference": DIFFERENCES}


class Shared:
    """The memory of the metrics of so many workers, to be inherited by them under `descriptor`."""

    def __init__(self, workers: int = 1, descriptor: int | None = None) -> None:
        self.workers = workers
        if descriptor is None:
            descriptor = os.memfd_create("pdl-metrics", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, workers * PART)
        self.descriptor = descriptor
        self.memory = mmap.mmap(descriptor, workers * PART)

    def parts(self) -> Iterator[tuple[list[str], Any]]:
        """Series and values of each worker."""
        view = memoryview(self.memory)
        for begin in range(0, self.workers * PART, PART):
            values = view[begin : begin + 8 * (ROOM + 1)].cast("d")
            size = int(values[ROOM])
            names = bytes(view[begin + 8 * (ROOM + 1) : begin + 8 * (ROOM + 1) + size]).decode()
            yield names.splitlines(), values


class Metrics:
    """The part of one worker; any thread may count."""

    def __init__(self, shared: Shared | None = None, number: int = 0) -> None:
        self.shared = Shared() if shared is None else shared
        begin = number * PART
        view = memoryview(self.shared.memory)
        self._values = view[begin : begin + 8 * (ROOM + 1)].cast("d")
        self._text = view[begin + 8 * (ROOM + 1) : begin + PART]
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        known = bytes(self._text[: int(self._values[ROOM])]).decode().splitlines()
        self._places.update((name, place) for place, name in enumerate(known))  # of a worker that ended
        for name, place in self._places.items():
            if FAMILIES.get(name.partition("{")[0], ("",))[0] == "gauge":
                self._values[place] = 0.0

    def _place(self, series: str) -> int:
        found = self._places.get(series)
        if found is None:
            with self._lock:
                found = self._places.get(series)
                if found is not None:
                    return found
                found, size, line = len(self._places), int(self._values[ROOM]), f"{series}\n".encode()
                if found >= ROOM - 1 or size + len(line) > TEXT:
                    return ROOM - 1  # there is no room for more series: what has no name is not shown
                self._text[size : size + len(line)] = line
                self._values[found] = 0.0
                self._places[series] = found
                self._values[ROOM] = size + len(line)
        return found

    def count(self, name: str, amount: float = 1.0, /, **labels: Any) -> None:
        """Add to a counter."""
        place = self._place(name_of(name, labels))
        with self._lock:
            self._values[place] += amount

    def gauge(self, name: str, value: float, /, **labels: Any) -> None:
        """Set a gauge; those of all workers are added up."""
        self._values[self._place(name_of(name, labels))] = value

    def counter(self, name: str, **labels: Any) -> Counter:
        """A series to be counted often: its place is known."""
        return Counter(self, self._place(name_of(name, labels)))

    def histogram(self, name: str, **labels: Any) -> Histogram:
        """A series of observations."""
        bounds = BOUNDS.get(name, SECONDS)
        ends = [*(f"{bound:g}" for bound in bounds), "+Inf"]
        buckets = [self._place(name_of(f"{name}_bucket", {**labels, "le": end})) for end in ends]
        return Histogram(self, bounds, buckets, self._place(name_of(f"{name}_sum", labels)))

    def text(self) -> str:
        """All of it for Prometheus, summed over the workers."""
        total: dict[str, float] = {}
        for names, values in self.shared.parts():
            for place, series in enumerate(names):
                total[series] = total.get(series, 0.0) + values[place]
        lines: list[str] = []
        for family, (kind, about) in FAMILIES.items():
            if kind == "histogram":
                found = list(_cumulative(family, total))
            else:
                found = [f"{s} {_number(v)}" for s, v in sorted(total.items()) if s.partition("{")[0] == family]
            if found:
                lines += [f"# HELP {family} {about}", f"# TYPE {family} {kind}", *found]
        return "\n".join([*lines, ""])


class Counter:
    """One series of a `Metrics`."""

    __slots__ = ("_lock", "_place", "_values")

    def __init__(self, metrics: Metrics, place: int) -> None:
        self._values, self._place, self._lock = metrics._values, place, metrics._lock

    def add(self, amount: float = 1.0) -> None:
        """Add to it."""
        with self._lock:
            self._values[self._place] += amount


class Histogram:
    """Observations in buckets; each is counted in one, and `Metrics.text` adds up those below."""

    __slots__ = ("_bounds", "_buckets", "_lock", "_sum", "_values")

    def __init__(self, metrics: Metrics, bounds: Sequence[float], buckets: Sequence[int], place: int) -> None:
        self._values, self._bounds, self._buckets, self._sum = metrics._values, bounds, buckets, place
        self._lock = metrics._lock

    def see(self, value: float) -> None:
        """Add an observation."""
        at = bisect_left(self._bounds, value)
        with self._lock:
            self._values[self._buckets[at]] += 1.0
            self._values[self._sum] += value


def name_of(name: str, labels: dict[str, Any]) -> str:
    """A series as Prometheus writes it."""
    if not labels:
        return name
    inside = ",".join(f'{key}="{_ESCAPED.sub(_escape, str(value))}"' for key, value in labels.items())
    return f"{name}{{{inside}}}"


_ESCAPED = re.compile(r'[\\"\n\r]')


def _escape(found: re.Match[str]) -> str:
    return {"\\": r"\\", '"': r"\""}.get(found[0], r"\n")


def _cumulative(family: str, total: dict[str, float]) -> Iterator[str]:
    """The lines of a histogram."""
    ends = [*(f"{bound:g}" for bound in BOUNDS.get(family, SECONDS)), "+Inf"]
    for series in sorted(s for s in total if s.partition("{")[0] == f"{family}_sum"):
        labels = series.partition("{")[2].removesuffix("}")
        lead, so_far = f"{labels}," if labels else "", 0.0
        for end in ends:
            so_far += total.get(f'{family}_bucket{{{lead}le="{end}"}}', 0.0)
            yield f'{family}_bucket{{{lead}le="{end}"}} {_number(so_far)}'
        shown = f"{{{labels}}}" if labels else ""
        yield f"{family}_sum{shown} {_number(total[series])}"
        yield f"{family}_count{shown} {_number(so_far)}"


def _number(value: float) -> str:
    return f"{int(value)}" if value == int(value) else repr(value)
