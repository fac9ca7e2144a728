"""Stand-ins: graphs drawn from a seeded block model, written in the formats of other data sets, so that recipes and
readers can be tried where those are not (`pdl selftest`)."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

NODES, WORDS, DEGREE = 420, 96, 6
WITHIN = 0.85  # of the edges: so many join nodes of one class
OWN = 0.6  # of a node's words: so many are of its class
SEED = 11
WHAT = f"a graph of {NODES} nodes drawn from a seeded block model"


def draw_edges(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """int64 [E, 2], each edge once, none to itself; most join nodes of one class."""
    n = len(y)
    source = np.repeat(np.arange(n), DEGREE // 2)
    order = np.argsort(y, kind="stable")
    start, count = np.searchsorted(y[order], y), np.bincount(y)[y]
    near = order[(start + (rng.random((DEGREE // 2, n)) * count).astype(np.int64)).T.ravel()]
    target = np.where(rng.random(len(source)) < WITHIN, near, rng.integers(0, n, len(source)))
    pairs = np.sort(np.stack([source, target], 1), axis=1)
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def draw_words(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """bool [N, WORDS]: the words that nodes of each class use more often."""
    classes, words = int(y.max()) + 1, 12
    own = rng.permutation(WORDS)[: classes * (WORDS // classes)].reshape(classes, -1)
    chosen = np.where(
        rng.random((len(y), words)) < OWN,
        own[y[:, None], rng.integers(0, own.shape[1], (len(y), words))],
        rng.integers(0, WORDS, (len(y), words)),
    )
    x = np.zeros((len(y), WORDS), bool)
    x[np.arange(len(y))[:, None], chosen] = True
    return x


def write_planetoid(file: Path, classes: int) -> None:
    """NAME.npz as `Planetoid` reads it: 20 training nodes of each class, 100 for val and 140 for test."""
    rng = np.random.default_rng(SEED)
    y = rng.permutation(np.arange(NODES) % classes)
    x = draw_words(y, rng)
    rows, columns = np.nonzero(x)
    order = np.argsort(y, kind="stable")
    first = np.arange(NODES) - np.searchsorted(y[order], y[order])  # the place of each within its class
    train = np.sort(order[first < 20])
    rest = rng.permutation(np.setdiff1d(np.arange(NODES), train))
    np.savez(
        file, x_data=np.ones(len(rows), np.float32), x_indices=columns.astype(np.int32),
        x_indptr=np.searchsorted(rows, np.arange(NODES + 1)).astype(np.int32), x_shape=np.array(x.shape), y=y,
        edges=draw_edges(y, rng), train_idx=train, val_idx=np.sort(rest[:100]), test_idx=np.sort(rest[100:240]),
    )  # fmt: skip


def draw_graph(classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """(edges int64 [E, 2], classes of nodes)."""
    rng = np.random.default_rng(SEED)
    y = rng.permutation(np.arange(NODES) % classes)
    return draw_edges(y, rng), y


def write_edges(file: Path, *, weighted: bool = False) -> None:
    """A list of edges as SNAP writes it."""
    edges, _ = draw_graph()
    lines = [f"{a}\t{b}" + ("\t1" if weighted else "") for a, b in edges.tolist()]
    file.write_text("\n".join(["# drawn", *lines, ""]), "utf-8")


def write_links(file: Path, names: Sequence[str]) -> None:
    """An .npz file with a list of edges under each name."""
    edges, _ = draw_graph()
    np.savez(file, **dict.fromkeys(names, edges))  # type: ignore[arg-type]


def write_blogs(file: Path) -> None:
    """A zip as `BlogCatalog` reads it; every node is in the group of its class, and some in one more."""
    edges, y = draw_graph()
    rng = np.random.default_rng(SEED)
    groups = np.stack([np.arange(NODES), y], 1)
    more = np.stack([np.arange(NODES), (y + 1) % (y.max() + 1)], 1)[rng.random(NODES) < 0.2]
    tables = {
        "nodes": np.arange(NODES)[:, None],
        "groups": np.unique(y)[:, None],
        "edges": edges,
        "group-edges": np.concatenate([groups, more]),
    }
    with zipfile.ZipFile(file, "w") as archive:
        for name, table in tables.items():
            lines = [",".join(map(str, row)) for row in (table + 1).tolist()]
            archive.writestr(f"BlogCatalog/{name}.csv", "\n".join([*lines, ""]))


def write_folder(folder: Path) -> None:
    """nodes.csv and edges.csv as `GraphFolder` reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    edges, y = draw_graph()
    x = draw_words(y, np.random.default_rng(SEED)).astype(int)
    splits = np.random.default_rng(SEED).choice(["train", "val", "test"], NODES, p=[0.5, 0.2, 0.3])
    rows = [f"n{i},c{y[i]},{splits[i]}," + ",".join(map(str, x[i])) for i in range(NODES)]
    header = "id,label,split," + ",".join(f"w{i}" for i in range(WORDS))
    (folder / "nodes.csv").write_text("\n".join([header, *rows, ""]), "utf-8")
    lines = [f"n{a},n{b}" for a, b in edges.tolist()]
    (folder / "edges.csv").write_text("\n".join(["source,target", *lines, ""]), "utf-8")
