"""Tied tables in compiled steps: rows of a lookup go into the gradient that the output layer has made."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.program import CompiledStep

INDEX, LABELS = np.array([[3, 1], [3, 5]]), np.array([2, 0])


class Tied(nn.Module):
    def __init__(self, sparse: bool, padding: int | None = None) -> None:
        self.table, self.sparse, self.padding = nn.Parameter(pdl.zeros((7, 4))), sparse, padding
        self.table.data[...] = np.random.default_rng(2).standard_normal((7, 4))

    def loss(self, index: pdl.Tensor, labels: pdl.Tensor) -> pdl.Tensor:
        x = pdl.sum(pdl.embedding(self.table, index, sparse=self.sparse, padding_idx=self.padding), axis=1)
        return pdl.linear_cross_entropy(x, self.table, None, labels, transposed=True)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("padding", [None, 3])
def test_the_sum_is_made_in_place(sparse: bool, padding: int | None) -> None:
    net = Tied(sparse, padding)
    step = CompiledStep(net.loss, net)
    step(INDEX, LABELS)
    program = step.program_for(INDEX, LABELS)
    assert program is not None
    nodes = [type(n.op).__name__ for n in program.program.nodes]
    assert "AddRows" in nodes
    assert not {"SegmentSum", "Add"} & set(nodes)
    assert net.table.grad is not None
    found = net.table.grad.data.copy()
    (made,) = [n for n in program.program.nodes if type(n.op).__name__ == "AddRows"]
    plan = program.executable.plan
    assert plan.owner[made.inputs[0]] is plan.owner[made.outputs[0]]  # type: ignore[index]
    step.eager(pdl.tensor(INDEX), pdl.tensor(LABELS))
    np.testing.assert_allclose(found, net.table.grad.data, rtol=1e-5, atol=1e-7)


def test_rows_of_several_lookups_are_put_in_order_once() -> None:
    net = nn.Module()
    net.table = nn.Parameter(pdl.zeros((9, 3)))
    net.table.data[...] = np.random.default_rng(4).standard_normal((9, 3))

    def loss(one: pdl.Tensor, two: pdl.Tensor, three: pdl.Tensor) -> pdl.Tensor:
        a, b = (pdl.embedding(net.table, index, sparse=True) for index in (one, two))
        c = pdl.embedding(net.table, three, sparse=True, padding_idx=0)
        return pdl.sum(a * a) + pdl.sum(pdl.sin(b)) + pdl.sum(c * c * c)

    given = [np.array([3, 1, 3]), np.array([1, 8]), np.array([[0, 8], [2, 0]])]
    step = CompiledStep(loss, net)
    step(*given)
    program = step.program_for(*given)
    assert program is not None
    nodes = [type(n.op).__name__ for n in program.program.nodes]
    assert nodes.count("EmbeddingGradRows") == 2  # the padded lookup leaves rows out, and has one of its own
    assert net.table.grad is not None
    np.testing.assert_array_equal(net.table.grad.rows.data, [1, 2, 3, 8, -1, -1, -1, -1, -1])
    found = net.table.grad.to_dense().data.copy()
    step.eager(*map(pdl.tensor, given))
    np.testing.assert_allclose(found, net.table.grad.to_dense().data, rtol=1e-5, atol=1e-7)
