"""GraphSAGE."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np

import pdl
from pdl import Tensor
from pdl.errors import ConfigError
from pdl.nn import Module, ModuleList, Parameter, init
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch, SparseFeatures, dropped, project
from pdl_graph.models.layered import LayeredModel
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import required

Aggregator = Literal["mean", "max", "lstm"]
_GATHER = 16  # what it costs to fetch a number of another row, in multiplications


class SAGEConv(Module):
    """y = x_own W_1 + aggregate(x of the neighbours) W_2 + b: Hamilton et al., "Inductive representation learning on
    large graphs", arXiv 1706.02216, lines 4 and 5 of algorithm 1 (their one matrix for both, joined, is W_1 over W_2).

    aggregator   "mean"   the neighbours' mean (where a node has none: 0)
                 "max"    the maximum of relu(x W_p + b_p), their equation 3
                 "lstm"   the last state of an LSTM that reads the neighbours in an order drawn from `seed`
    width        of W_p, or of the LSTM's state; out_features without it

    Weights of edges are not read. The LSTM reads nodes with about as many neighbours together, at most half as many
    steps again as there are edges; its lengths depend on the graph, so steps on graphs that change run in eager mode.
    """

    def __init__(
        self,
        in_features: Size,
        out_features: Size,
        *,
        aggregator: Aggregator = "mean",
        width: Size | None = None,
        bias: bool = True,
        seed: int = 0,
    ) -> None:
        if aggregator not in ("mean", "max", "lstm"):
            raise ConfigError(f"SAGEConv: aggregator={aggregator!r}; expected mean, max or lstm")
        self.aggregator, self.seed = aggregator, seed
        width = in_features if aggregator == "mean" else width or out_features
        self.own = Parameter(init.xavier_uniform_(pdl.zeros((in_features, out_features))))
        self.neighbour = Parameter(init.xavier_uniform_(pdl.zeros((width, out_features))))
        self.bias = Parameter(pdl.zeros((out_features,))) if bias else None
        if aggregator != "mean":
            gates = 4 * width if aggregator == "lstm" else width
            self.inner = Parameter(init.xavier_uniform_(pdl.zeros((in_features, gates))))
            self.inner_bias = Parameter(pdl.zeros((gates,)))
        if aggregator == "lstm":
            self.state = Parameter(init.xavier_uniform_(pdl.zeros((width, 4 * width))))

    def forward(self, adjacency: CSR, x: Any) -> Tensor:
        """x [columns, in], dense or `SparseFeatures` -> [rows, out]; the rows' own vectors are the first of x."""
        rows, columns = adjacency.shape
        if isinstance(x, SparseFeatures):
            own = project(x, self.own)[:rows] if rows != columns else project(x, self.own)
        else:
            x = pdl.as_tensor(x)
            own = pdl.matmul(x if rows == columns else x[:rows], self.own)
        y = own + self._received(adjacency, x)
        return y if self.bias is None else y + self.bias

    def _received(self, adjacency: CSR, x: Any) -> Tensor:
        if self.aggregator == "mean":
            if self._narrow_first(adjacency, x):
                return pdl.spmm(adjacency, project(x, self.neighbour), reduce="mean")
            return pdl.matmul(pdl.spmm(adjacency, x, reduce="mean"), self.neighbour)
        inner = project(x, self.inner) + self.inner_bias
        if self.aggregator == "max":
            found = pdl.spmm(adjacency, pdl.relu(inner), reduce="max")
        else:
            found = read_neighbours(adjacency, inner, self.state, self.seed)
        return pdl.matmul(found, self.neighbour)

    def _narrow_first(self, adjacency: CSR, x: Any) -> bool:
        """Whether to multiply before the mean is taken, or after: the same, at a different price."""
        if isinstance(x, SparseFeatures):
            return True
        (rows, columns), (wide, narrow) = adjacency.shape, self.neighbour.shape
        if rows == columns:
            return narrow < wide
        edges = _GATHER * adjacency.nonzeros
        return columns * wide * narrow + edges * narrow < rows * wide * narrow + edges * wide


def read_neighbours(adjacency: CSR, gates: Tensor, state: Tensor, seed: int) -> Tensor:
    """The last state of an LSTM over the neighbours of each row: gates [columns, 4 H], what each neighbour gives to the
    gates, state [H, 4 H] -> [rows, H]; 0 for rows without neighbours.

    The graph's values are needed: where they are not known when a step is traced, it is not compiled.
    """
    indptr, indices = (np.asarray(pdl.as_tensor(a).data) for a in (adjacency.indptr, adjacency.indices))
    last, place, begin = [], np.full(adjacency.shape[0], -1), 0
    for rows, ids in orders(indptr, indices, seed):
        x = pdl.reshape(pdl.segment_take(gates, pdl.as_tensor(ids.reshape(-1))), (*ids.shape, -1))
        last.append(pdl.lstm_from_gates(x, state, lengths=(ids >= 0).sum(1))[1])
        place[rows] = np.arange(begin, begin + len(rows))
        begin += len(rows)
    if not last:
        return pdl.zeros((adjacency.shape[0], state.shape[0]))
    return pdl.segment_take(pdl.concat(last), pdl.as_tensor(place))


def orders(indptr: np.ndarray, indices: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The neighbours of each row in an order drawn from the seed: (rows [n], ids [n, L]) for rows with about L, -1
    behind the last. Rows without neighbours are left out."""
    degree = np.diff(indptr)
    row = np.repeat(np.arange(len(degree)), degree)
    shuffled = indices[np.lexsort((np.random.default_rng(seed).random(len(indices)), row))]
    found, above, most = [], 0, int(degree.max(initial=0))
    while above < most:
        length = min(max(above + 1, above * 3 // 2), most)
        rows = np.flatnonzero((degree > above) & (degree <= length))
        if len(rows):
            steps = np.arange(length)
            at = np.minimum(indptr[rows][:, None] + steps, len(indices) - 1)
            found.append((rows, np.where(steps < degree[rows][:, None], shuffled[at], -1)))
        above = length
    return found


class GraphSAGE(LayeredModel):
    """Layers of `SAGEConv` with ReLU between them: Hamilton et al., arXiv 1706.02216, algorithm 1.

    hidden          width of the layers between;  num_layers  how many there are in all
    aggregator      how neighbours are joined, see `SAGEConv`
    dropout         before each layer but the first;  input_dropout  before the first
    normalize       divide the vectors between by their length (line 7)
    """

    def __init__(
        self,
        num_features: Size | None = None,
        num_classes: Size | None = None,
        *,
        hidden: Size = 128,
        num_layers: Size = 2,
        aggregator: Aggregator = "mean",
        dropout: Rate = 0.5,
        input_dropout: Rate = 0.0,
        normalize: bool = False,
    ) -> None:
        self.num_features = required(self, num_features=num_features)
        self.num_classes = required(self, num_classes=num_classes)
        self.num_layers, self.normalize = num_layers, normalize
        self.dropout, self.input_dropout = dropout, input_dropout
        sizes = [self.num_features, *[hidden] * (num_layers - 1), self.num_classes]
        pairs = pairwise(sizes)
        self.convs = ModuleList(
            SAGEConv(a, b, aggregator=aggregator, width=hidden, seed=i) for i, (a, b) in enumerate(pairs)
        )

    def layer(self, index: int, graph: GraphBatch, x: Any) -> Tensor:
        x = dropped(x, self.dropout if index else self.input_dropout, training=self.training)
        y: Tensor = self.convs[index](graph.adjacency, x)
        if index == self.num_layers - 1:
            return y
        return pdl.normalize(pdl.relu(y)) if self.normalize else pdl.relu(y)


TASK = "node classification"
VARIANTS = {
    "graphsage": {"_target_": "pdl_graph.GraphSAGE"},
    "graphsage_max": {"_target_": "pdl_graph.GraphSAGE", "aggregator": "max"},
    "graphsage_lstm": {"_target_": "pdl_graph.GraphSAGE", "aggregator": "lstm"},
}
