"""Gradients over ranks are what NumPy says; ranks that differ, or do not answer, are named."""

from __future__ import annotations

import pytest

from tests.framework.distributed.conftest import Ranks

MEANS = """
    import numpy as np
    import pdl
    from pdl.distributed.group import world
    from pdl.distributed.reduction import Reduction
    from pdl.ops.sparse import SparseGrad
    from pdl.tensor import Tensor

    group = world()
    shapes = ((3, 5), (70,), (1000, 30), (7,), (50, 4), (6,))
    dtypes = ("float32", "float32", "float32", "bfloat16", "float32", "complex64")
    params = [pdl.zeros(s, dtype=d) for s, d in zip(shapes, dtypes)]

    def drawn(step, rank, i):
        rng = np.random.default_rng([step, rank, i])
        x = rng.normal(size=shapes[i])
        if dtypes[i] == "complex64":
            x = x + 1j * rng.normal(size=shapes[i])
        return pdl.tensor(x).astype(dtypes[i])

    def given(step, rank, i):
        '''The gradient of parameter i on a rank: 0 alone has that of 1; that of 4 comes as rows, none on rank 1.'''
        if (i == 1 and rank) or (i == 4 and rank == 1):
            return None
        if i != 4:
            return drawn(step, rank, i)
        rows = np.array([rank, 3 + step, -1])
        values = np.random.default_rng([step, rank]).normal(size=(3, 4)).astype(np.float32) * (rows >= 0)[:, None]
        return SparseGrad((50, 4), Tensor(rows), Tensor(values.astype(np.float32)))

    def whole(g, i):
        if g is None:
            return np.zeros(shapes[i], np.float64)
        g = g.to_dense() if isinstance(g, SparseGrad) else g
        return np.asarray(g.data).astype(np.complex128 if dtypes[i] == "complex64" else np.float64)

    for overlap in (False, True):
        for wire, most in (("fp32", 1e-6), ("bf16", 0.03)):
            reduction = Reduction(group, params, wire=wire, megabytes=0.01, overlap=overlap)
            for step in range(3):
                weights = [0.0 if step == 2 and r == 2 else r + 1.0 for r in range(group.size)]
                mine = [given(step, group.rank, i) if weights[group.rank] else None for i in range(len(params))]
                reduction.begin(weights[group.rank], 2.0 * group.rank, [g is not None for g in mine])
                for i in reversed(range(len(params))):
                    if mine[i] is not None:
                        reduction.take(i, mine[i])
                header = reduction.finish()
                assert header.weight == sum(weights)
                assert header.loss == sum(2.0 * r * w for r, w in enumerate(weights))
                for i in range(len(params)):
                    want = sum(w * whole(given(step, r, i), i) for r, w in enumerate(weights) if w) / sum(weights)
                    got = whole(reduction.gradient(i), i)
                    allowed = 0.03 if dtypes[i] == "bfloat16" else most
                    assert np.allclose(got, want, atol=allowed), (i, step, wire, np.abs(got - want).max())
            reduction.begin(1.0, 0.0, [False] * len(params))
            reduction.finish()
            assert all(reduction.gradient(i) is None for i in range(len(params)))
    assert group.texts("x" * group.rank) == ["", "x", "xx"][: group.size]
    big = np.full(10, group.rank)
    group.broadcast(big, root=1)
    assert (big == 1).all()
"""


def test_means_of_all_kinds_of_gradients(ranks: Ranks) -> None:
    ranks(3, MEANS)


UNEQUAL = """
    import sys
    from pdl.distributed.group import world
    from pdl.distributed.group import RankError

    group = world()
    try:
        group.check_same({"samples": "7", "version": f"1.{group.rank}"})
    except RankError as error:
        assert "version: 1.0 on rank 0, 1.1 on rank 1 (" in str(error), error
        assert "samples" not in str(error)
    else:
        raise SystemExit("no error")
"""

SILENT = """
    import os, time
    import numpy as np
    from pdl.distributed.group import world
    from pdl.distributed.group import RankError

    group = world()
    if group.rank == 1:
        time.sleep(600)
    group.timeout = 0.3
    try:
        group.rows(np.zeros(1))
    except RankError as error:
        assert f"no answer from rank 1 on {group.hosts[1]}" in str(error), error
        assert "rank 0 on" not in str(error) or group.rank == 0
        print(f"rank {group.rank} named it")
        from pdl.distributed.launcher import end_job
        time.sleep(1.0)
        end_job(5)
"""


def test_ranks_that_differ_are_named(ranks: Ranks) -> None:
    ranks(2, UNEQUAL)


def test_a_rank_that_does_not_answer_is_named(ranks: Ranks) -> None:
    done = ranks(3, SILENT, expect=5)
    assert "rank 0 named it" in done.stdout
    assert "rank 2 named it" in done.stdout


def test_alone() -> None:
    from pdl.distributed.group import world

    assert world() is None


@pytest.mark.parametrize("lines", [[], ["a\n", "b\n"]])
def test_nothing_to_leave_out(lines: list[str]) -> None:
    from pdl.distributed.launcher import told

    assert list(told(lines)) == lines
