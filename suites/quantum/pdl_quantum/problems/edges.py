"""Weighted undirected graphs: from edge lists, files and generators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.files import read_text
from pdl.runtime.tables import cells as csv_cells

Array = np.ndarray


@dataclass(frozen=True)
class Edges:
    """An undirected graph.

    n       nodes;    pairs  int64 [m, 2], each edge once, the smaller node first;    weights  float64 [m]
    names   of the nodes; by default their numbers
    """

    n: int
    pairs: Array
    weights: Array
    names: Sequence[str] = field(default_factory=list)

    def name(self, node: int) -> str:
        """What a node is called."""
        return self.names[node] if self.names else str(node)

    @staticmethod
    def of(edges: Iterable[Sequence[Any]], n: int | None = None, names: Sequence[str] = ()) -> Edges:
        """From (a, b) or (a, b, weight); edges that stand twice add up. DataError for loops and nodes not there."""
        found: dict[tuple[int, int], float] = {}
        for each in edges:
            if len(each) not in (2, 3):
                raise DataError(f"edge {each!r:.60}: give two nodes, and maybe a weight")
            a, b, weight = int(each[0]), int(each[1]), float(each[2]) if len(each) == 3 else 1.0
            if a == b:
                raise DataError(f"edge {a}-{b} joins a node to itself; no cut passes it, leave it out")
            if min(a, b) < 0 or (n is not None and max(a, b) >= n):
                raise DataError(f"edge {a}-{b}: there are only nodes 0 to {(n or 0) - 1}")
            if not np.isfinite(weight):
                raise DataError(f"edge {a}-{b}: a weight of {weight}; give a finite number")
            key = (min(a, b), max(a, b))
            found[key] = found.get(key, 0.0) + weight
        if not found:
            raise DataError("a graph without edges; give it at least one")
        pairs = np.array(sorted(found), np.int64)
        size = int(pairs.max()) + 1 if n is None else n
        return Edges(size, pairs, np.array([found[a, b] for a, b in pairs.tolist()]), list(names))

    @property
    def matrix(self) -> Array:
        """Weights as a symmetric matrix float64 [n, n]."""
        made = np.zeros((self.n, self.n))
        made[self.pairs[:, 0], self.pairs[:, 1]] = made[self.pairs[:, 1], self.pairs[:, 0]] = self.weights
        return made


def read_edges(path: str | Path) -> Edges:
    """An edge list: `source,target[,weight]` on each line of a *.csv, parted by tabs or spaces in other files; a header
    line may stand first, lines with # are comments. Nodes are named as they like, and numbered in the order of their
    numbers if all are numbers, else of their first line."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise DataError(f"{file}: no such file; give a list of edges, source,target,weight on each line")
    try:
        lines = read_text(file).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read ({error})") from None
    plain = [(i, line) for i, line in enumerate(lines, 1) if line.strip() and not line.lstrip().startswith("#")]
    held = [(i, _cells(line, f"{file}, line {i}")) for i, line in plain]
    if held and [cell.lower() for cell in held[0][1][:2]] in (["source", "target"], ["from", "to"]):
        held = held[1:]
    rows: list[tuple[str, str, float]] = []
    for number, cells in held:
        if len(cells) not in (2, 3) or not all(cells):
            raise DataError(f"{file}, line {number}: {','.join(cells)!r:.60} is no edge; write source,target[,weight]")
        try:
            rows.append((cells[0], cells[1], float(cells[2]) if len(cells) == 3 else 1.0))
        except ValueError:
            raise DataError(f"{file}, line {number}: the weight {cells[2]!r:.30} is no number") from None
    names = list(dict.fromkeys(name for a, b, _ in rows for name in (a, b)))
    if all(name.isdigit() for name in names):
        names.sort(key=int)
    place = {name: i for i, name in enumerate(names)}
    try:
        return Edges.of([(place[a], place[b], w) for a, b, w in rows], len(names), names)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None


def _cells(line: str, where: str) -> list[str]:
    if "," in line:
        return [cell.strip() for cell in csv_cells(line, where)]
    return line.split("\t") if "\t" in line else line.split()


def random_regular(n: int, degree: int, seed: int = 0) -> Edges:
    """A random simple graph of n nodes, each with `degree` neighbours: ends of edges are paired at random (the
    configuration model), drawn again until there are no loops and no edge twice."""
    if not 0 < degree < n or n * degree % 2:
        raise UsageError(f"no graph of {n} nodes has degree {degree}; give 0 < degree < n, one of them even")
    rng = np.random.default_rng(seed)
    for _ in range(100_000):
        ends = rng.permutation(np.repeat(np.arange(n), degree)).reshape(-1, 2)
        pairs = np.unique(np.sort(ends, axis=1), axis=0)
        if len(pairs) == len(ends) and (pairs[:, 0] != pairs[:, 1]).all():
            return Edges.of(pairs.tolist(), n)
    raise UsageError(f"no graph of {n} nodes with degree {degree} was found; choose a smaller degree")


def random_graph(n: int, probability: float, seed: int = 0) -> Edges:
    """Erdos and Renyi's: each pair is joined with this probability."""
    if n < 2 or not 0 < probability <= 1:
        raise UsageError(f"a random graph of {n} nodes and probability {probability}; give n > 1, 0 < p <= 1")
    upper = np.argwhere(np.triu(np.random.default_rng(seed).random((n, n)) < probability, 1))
    return Edges.of(upper.tolist(), n)
