"""Tables of numbers with a class in each row: those that are made up, and those in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data import ArrayDataset
from pdl.data.dataset import StandIn
from pdl.data.splits import check_ratios, stratified_split
from pdl.data.store import under_roots
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.runtime import tables

RATIOS = {"train": 0.7, "val": 0.1, "test": 0.2}
SPLITS = ("train", "val", "test")
Split = Literal["train", "val", "test"]
Array = np.ndarray


class Table(ArrayDataset):
    """Rows of numbers: sample i is {"features": float32 [D], "label": int}.

    columns   names of the D numbers
    features  the numbers, [N, D]
    split     which part of the points
    samples   how many points
    seed      of the points
    """

    def __init__(self, features: Array, labels: Array, classes: Sequence[str], columns: Sequence[str]) -> None:
        super().__init__(features=features.astype(np.float32), label=labels.astype(np.int64), classes=classes)
        self.columns = list(columns)


class Circle(Table):
    """Points of the square [-1, 1]^2, inside and outside of a circle of half its area; none lies nearer than gap / 2 to
    the circle. As many of each class, columns x and y. The same arguments give the same points; splits differ.

    gap  width of the ring about the circle without points
    """

    def __init__(
        self,
        *,
        split: Split = "train",
        samples: Annotated[int, Range(2)] = 200,
        gap: Annotated[float, Range(0, below=0.8)] = 0.5,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        rng = np.random.default_rng([seed, SPLITS.index(split)])
        radius = np.sqrt(2 / np.pi)
        found: tuple[list[Array], list[Array]] = ([], [])
        wanted = (samples - samples // 2, samples // 2)
        while any(len(each) < n for each, n in zip(found, wanted, strict=True)):
            point = rng.uniform(-1, 1, 2)
            off = float(np.hypot(*point)) - radius
            side = int(off > 0)
            if abs(off) >= gap / 2 and len(found[side]) < wanted[side]:
                found[side].append(point)
        labels = np.repeat([0, 1], wanted)
        order = rng.permutation(samples)
        super().__init__(np.array([*found[0], *found[1]])[order], labels[order], ("inside", "outside"), ("x", "y"))


class Moons(Table):
    """Two interleaving half circles with normal noise, columns x and y. The same arguments give the same points; splits
    differ.

    noise  standard deviation of what is added to each coordinate
    """

    def __init__(
        self,
        *,
        split: Split = "train",
        samples: Annotated[int, Range(2)] = 200,
        noise: Annotated[float, Range(0)] = 0.1,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        rng = np.random.default_rng([seed, SPLITS.index(split)])
        labels = np.arange(samples) % 2
        turn = rng.uniform(0, np.pi, samples)
        sign = 1 - 2 * labels
        points = np.stack([np.cos(turn) * sign + labels - 0.5, np.sin(turn) * sign + 0.5 * labels - 0.25], axis=1)
        super().__init__(points + rng.normal(0, noise, points.shape), labels, ("upper", "lower"), ("x", "y"))


class TableFile(Table):
    """A file *.csv or *.tsv with a header: numbers, and a class.

    path      relative ones are looked for in the current folder, then under PDL_DATA
    label     the column of the class; its names, sorted, are the classes
    columns   of the numbers; by default all others
    split     train, val or test by `ratios` of each class, drawn with `seed`; or all, for files of one split
    """

    def __init__(
        self,
        *,
        path: str | Path,
        label: str = "label",
        columns: Sequence[str] | None = None,
        split: Literal["train", "val", "test", "all"] = "all",
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        parts = check_ratios("TableFile", RATIOS if ratios is None else ratios)
        if split not in (*parts, "all"):
            raise ConfigError(f"TableFile: split={split!r} is none of {', '.join(parts)}, all")
        file = _found(path)
        names, features, chosen = _read(file, label, columns)
        classes = sorted(set(names))
        labels = np.array([classes.index(name) for name in names])
        rows = np.arange(len(labels)) if split == "all" else stratified_split(labels, parts, split, seed=seed)
        super().__init__(features[rows], labels[rows], classes, chosen)
        self.source = str(file)

    def path_of(self, index: int) -> str | None:
        return self.source

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """Three groups of points around three places, in the columns of the recipe."""
        rng = np.random.default_rng(0)
        columns = list(settings.get("columns") or ("a", "b", "c", "d"))
        labels = np.arange(150) % 3
        values = rng.normal(0, 0.2, (150, len(columns))) + rng.uniform(-1, 1, (3, len(columns)))[labels]
        lines = [",".join([*columns, str(settings.get("label", "label"))])]
        lines += [
            ",".join([*(f"{v:.4f}" for v in row), f"class{k}"]) for row, k in zip(values, labels, strict=True)
        ]
        path = folder / "rows.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return StandIn({**settings, "path": str(path)}, "three groups of points drawn around three places")


def _found(path: str | Path) -> Path:
    given = Path(path).expanduser()
    places = list(dict.fromkeys([given, *under_roots(given)]))
    for place in places:
        if place.is_file():
            return place
    looked = " and ".join(str(place) for place in places)
    raise DataError(f"data: there is no file {looked}; correct path, or set PDL_DATA")


def _read(path: Path, label: str, columns: Sequence[str] | None) -> tuple[list[str], Array, list[str]]:
    """(class names, numbers [N, D], columns) of a file."""
    if not {".csv", ".tsv"} & {*path.suffixes}:
        raise DataError(f"{path}: a table is a file *.csv or *.tsv with a header")
    names: list[str] = []
    values: list[list[float]] = []
    chosen: list[str] = []
    for line, row in tables.rows(path):
        if not chosen:
            chosen = [name for name in row if name != label] if columns is None else list(columns)
            absent = [name for name in (*chosen, label) if name not in row]
            if absent or not chosen:
                what = f"no column {absent[0]!r}" if absent else f"no column beside {label!r}"
                raise DataError(f"{path}:1: {what}; it has {', '.join(row)}: set label and columns")
        names.append(row[label].strip())
        values.append([_number(path, line, name, row[name]) for name in chosen])
    if len(set(names)) < 2:
        raise DataError(f"{path}: {len(set(names))} classes in column {label!r}; at least 2 are needed")
    return names, np.array(values), chosen


def _number(path: Path, line: str, column: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise DataError(f"{path}:{line}: {text!r} in column {column!r} is no number; correct it, or name the columns "
                        "to use in columns")  # fmt: skip
    return value
