"""The items whose vectors fit a query best: exactly, or nearly and faster through FAISS.

index = ItemIndex(table, bias)                     # model.item_table()
scores, items = index.search(queries, 20)          # model.encode(sessions)
near = ItemIndex(table, bias, method="hnsw")       # pip install pdl-rec[ann]
near.recall(queries, 20)                           # of the exact index's items it finds this share
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np

from pdl.errors import ConfigError, ShapeError, UsageError
from pdl.ranking import Lists, top_k, top_products

Array = np.ndarray[Any, Any]
Method = Literal["exact", "hnsw"]


class ItemIndex:
    """The items 1 to n by the score query . table[item] + bias[item].

    table   float32 or float64 [n + 1, C]; row 0 is no item and never found
    bias    [n + 1] or None
    method  "exact": a matrix product by blocks that keeps the best (`pdl.ranking.top_products`); nothing is built, and
            memory stays small. "hnsw": a graph of near neighbours (Malkov and Yashunin, arXiv 1603.09320) in float32
            from the package faiss-cpu, which takes time and memory to build and misses some items; the bias goes in as
            one more dimension
    links, breadth  of the graph: links of a node; and how many candidates building keeps
    effort  how many candidates a search keeps; more find more, and take longer
    """

    def __init__(
        self,
        table: Array,
        bias: Array | None = None,
        *,
        method: Method = "exact",
        links: int = 32,
        breadth: int = 200,
        effort: int = 128,
    ) -> None:
        if method not in get_args(Method):
            raise ConfigError(f"method={method!r} is neither exact nor hnsw")
        if table.ndim != 2 or len(table) < 2 or (bias is not None and bias.shape != table.shape[:1]):
            raise ShapeError(f"ItemIndex: table {table.shape} and bias {None if bias is None else bias.shape} are not "
                             "[n + 1, C] and [n + 1] with an item at least")  # fmt: skip
        self.table = np.ascontiguousarray(table)
        self.bias = None if bias is None else np.ascontiguousarray(bias, table.dtype)
        self.method, self.effort = method, effort
        self._graph = _hnsw(self._wide(self.table, self.bias)[1:], links, breadth) if method == "hnsw" else None

    def __len__(self) -> int:
        return len(self.table) - 1

    def search(self, queries: Array, k: int, *, excluded: Lists | None = None) -> tuple[Array, Array]:
        """Scores [N, k] and items int64 [N, k] of queries [N, C], best first; -infinity and 0 where fewer are found.

        excluded   items that a row shall not get; of the approximate index as many more are asked for as the longest
                   list has
        """
        queries = np.ascontiguousarray(queries, self.table.dtype)
        if queries.ndim != 2 or queries.shape[1] != self.table.shape[1]:
            raise ShapeError(f"ItemIndex: queries {queries.shape} do not fit vectors of {self.table.shape[1]} numbers")
        if self._graph is None:
            return top_products(queries, self.table, k, bias=self.bias, excluded=excluded)
        return self._near(queries, k, excluded)

    def recall(self, queries: Array, k: int, *, excluded: Lists | None = None) -> float:
        """The share of the exact index's k items that this one finds, over all queries."""
        best = top_products(np.ascontiguousarray(queries, self.table.dtype), self.table, k, bias=self.bias,
                            excluded=excluded)[1]  # fmt: skip
        found = self.search(queries, k, excluded=excluded)[1]
        hits = (best[:, :, None] == found[:, None]) & (best[:, :, None] > 0)
        return float(hits.sum() / max(1, (best > 0).sum()))

    def _near(self, queries: Array, k: int, excluded: Lists | None) -> tuple[Array, Array]:
        faiss, longest = _faiss(), 0 if excluded is None else int(excluded.lengths.max(initial=0))
        wanted = min(k + longest, len(self))
        options = faiss.SearchParametersHNSW(efSearch=max(self.effort, wanted))
        wide = self._wide(queries, np.ones(len(queries)) if self.bias is not None else None)
        scores, places = self._graph.search(wide, wanted, params=options)  # type: ignore[union-attr]
        items = places + 1  # FAISS says -1 where it finds no more
        if excluded is not None:
            keys = np.repeat(np.arange(len(excluded)), excluded.lengths) * len(self.table) + excluded.values
            items[np.isin(np.arange(len(items))[:, None] * len(self.table) + items, keys)] = 0
        scores[items == 0] = -np.inf
        best, at = top_k(scores, k, first=0)
        return best.astype(self.table.dtype), np.where(at < 0, 0, np.take_along_axis(items, np.maximum(at, 0), axis=1))

    @staticmethod
    def _wide(vectors: Array, last: Array | None) -> Array:
        parts = vectors if last is None else np.concatenate([vectors, last[:, None]], axis=1)
        return np.ascontiguousarray(parts, np.float32)


def _hnsw(vectors: Array, links: int, breadth: int) -> Any:
    faiss = _faiss()
    graph = faiss.IndexHNSWFlat(vectors.shape[1], links, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = breadth
    graph.add(vectors)
    return graph


def _faiss() -> ModuleType:
    try:
        import faiss  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise UsageError(f"method='hnsw' needs the package faiss-cpu: pip install pdl-rec[ann] ({error})") from None
    found: ModuleType = faiss
    return found


__all__ = ["ItemIndex", "Method"]
