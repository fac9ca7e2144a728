"""Structure of graphs against plain NumPy and Python, and the frequencies of what is drawn."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl import threads
from pdl.compressed import from_coo, rows_of
from pdl.errors import ShapeError, UsageError
from pdl_graph import Neighbours, page_rank
from pdl_graph.analysis import components


def edges_of(seed: int, n: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, n, e), rng.integers(0, n, e)


def made(edges: int, n: int, e: int, **options: Any) -> Neighbours:
    indptr, indices, _ = from_coo(*edges_of(edges, n, e), (n, n), ascending=True)
    return Neighbours(indptr, indices, **options)


def simple(seed: int, n: int, e: int) -> Neighbours:
    """Ascending lists, each id once."""
    row, column = np.divmod(np.unique(np.ravel_multi_index(edges_of(seed, n, e), (n, n))), n)
    return Neighbours(*from_coo(row, column, (n, n))[:2])


def lists(near: Neighbours) -> list[list[int]]:
    return [list(near.indices[a:b]) for a, b in zip(near.indptr[:-1], near.indptr[1:], strict=True)]


def star(leaves: int, **options: Any) -> Neighbours:
    """Node 0 has all others on its list."""
    return Neighbours(np.array([0] + [leaves] * (leaves + 1)), np.arange(1, leaves + 1), **options)


def fits(counts: np.ndarray, chances: np.ndarray) -> bool:
    """Whether counts agree with chances: chi-square within four standard deviations of its mean."""
    expected = chances * counts.sum()
    assert (counts[expected == 0] == 0).all()
    counts, expected = counts[expected > 0], expected[expected > 0]
    degrees = len(counts) - 1
    return bool(((counts - expected) ** 2 / expected).sum() < degrees + 4 * np.sqrt(2 * degrees))


sizes = st.tuples(st.integers(0, 2**31), st.integers(1, 12), st.integers(0, 60))


def test_lists_are_checked() -> None:
    with pytest.raises(ShapeError, match="outside"):
        Neighbours(np.array([0, 1]), np.array([3]))
    with pytest.raises(ShapeError, match="ascend"):
        Neighbours(np.array([0, 2, 1]), np.array([0]))


@given(sizes)
def test_components(size: tuple[int, int, int]) -> None:
    source, target = edges_of(size[0], size[1], size[2] // 4)
    n = size[1]
    label, tree = components(source, target, n)
    reach = np.eye(n, dtype=bool)
    reach[source, target] = reach[target, source] = True
    for _ in range(n):
        reach = reach @ reach
    np.testing.assert_array_equal(label[:, None] == label, reach)
    assert tree.sum() == n - (label.max() + 1)
    np.testing.assert_array_equal(components(source[tree], target[tree], n)[0], label)


class TestBlocks:
    @given(sizes, st.lists(st.sampled_from([-1, 1, 3]), min_size=1, max_size=3), st.booleans())
    def test_hops(self, size: tuple[int, int, int], fanouts: list[int], replace: bool) -> None:
        near = made(*size, seed=3)
        nodes = np.unique(edges_of(size[0] + 1, size[1], 5)[0])
        blocks = near.blocks(nodes, fanouts, replace=replace)
        assert len(blocks) == len(fanouts)
        wanted = nodes
        for block, fanout in zip(blocks[::-1], fanouts, strict=True):
            receivers = len(block.indptr) - 1
            np.testing.assert_array_equal(block.nodes[:receivers], wanted)
            assert len(np.unique(block.nodes)) == len(block.nodes)
            senders = block.nodes[block.indices]
            np.testing.assert_array_equal(near.indices[block.edges], senders)
            np.testing.assert_array_equal(rows_of(near.indptr)[block.edges], wanted[rows_of(block.indptr)])
            degree = near.degrees[wanted]
            many = replace and fanout >= 0
            want = degree if fanout < 0 else np.where(degree > 0, fanout, 0) if many else np.minimum(degree, fanout)
            np.testing.assert_array_equal(np.diff(block.indptr), want)
            if not many:
                assert len(np.unique(block.edges)) == len(block.edges)
            wanted = block.nodes

    def test_what_a_node_gets_does_not_depend_on_its_company(self) -> None:
        near = made(1, 50, 2000, seed=5)
        alone = near.blocks(np.array([7]), (4,), step=3)[0]
        among = near.blocks(np.arange(50), (4,), step=3)[0]
        np.testing.assert_array_equal(alone.edges, among.edges[28:32])
        assert not np.array_equal(alone.edges, near.blocks(np.array([7]), (4,), step=4)[0].edges)

    @pytest.mark.parametrize(("replace", "weighted"), [(a, b) for a in (False, True) for b in (False, True)])
    def test_frequencies(self, replace: bool, weighted: bool) -> None:
        weights = np.arange(10.0) if weighted else None  # one is 0
        near = star(10, weights=weights, seed=1)
        k = 3 if replace else 1
        drawn = np.concatenate(
            [near.blocks(np.array([0]), (k,), step=s, replace=replace)[0].edges for s in range(4000)]
        )
        chances = np.arange(10) / 45 if weighted else np.full(10, 0.1)
        assert fits(np.bincount(drawn, minlength=10), chances)

    @pytest.mark.parametrize("weighted", [False, True])
    def test_pairs_without_repetition(self, weighted: bool) -> None:
        weight = np.array([1.0, 2.0, 3.0, 4.0]) if weighted else np.ones(4)
        near = star(4, weights=weight if weighted else None, seed=2)
        drawn = [near.blocks(np.array([0]), (2,), step=s)[0].edges for s in range(6000)]
        chance = weight / weight.sum()
        pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
        exact = [chance[a] * chance[b] * (1 / (1 - chance[a]) + 1 / (1 - chance[b])) for a, b in pairs]
        counts = Counter(map(tuple, drawn))
        assert fits(np.array([counts[pair] for pair in pairs]), np.array(exact))

    def test_long_lists_give_even_subsets(self) -> None:
        near = star(200, seed=4)
        drawn = np.concatenate([near.blocks(np.array([0]), (60,), step=s)[0].edges for s in range(300)])
        assert len(drawn) == 300 * 60
        counts = np.bincount(drawn, minlength=200)  # 60 of 200: the variance of a count is 0.7 of the binomial's
        assert (((counts - 90) ** 2).sum() / (300 * 0.3 * 0.7)) < 200 + 4 * np.sqrt(400)

    def test_nodes_twice_or_unknown(self) -> None:
        near = star(3)
        with pytest.raises(UsageError, match="more than once"):
            near.blocks(np.array([1, 1]), (2,))
        with pytest.raises(UsageError, match="node 9 at place 0 is none of the 4"):
            near.blocks(np.array([9]), (2,))


def node2vec_chances(near: Neighbours, last: int, at: int, p: float, q: float, weight: np.ndarray) -> np.ndarray:
    """The exact distribution of the next node."""
    rows = lists(near)
    chance = np.zeros(near.num_nodes)
    for e in range(near.indptr[at], near.indptr[at + 1]):
        node = int(near.indices[e])
        chance[node] += weight[e] * (1 / p if node == last else 1.0 if node in rows[last] else 1 / q)
    return chance / chance.sum()


class TestWalks:
    @given(sizes, st.sampled_from([(1.0, 1.0), (0.25, 4.0)]))
    def test_steps_are_edges_and_dead_ends_stay(self, size: tuple[int, int, int], pq: tuple[float, float]) -> None:
        near = made(*size)
        rows = lists(near)
        walks = near.walks(np.arange(size[1]), 6, p=pq[0], q=pq[1])
        np.testing.assert_array_equal(walks[:, 0], np.arange(size[1]))
        for walk in walks:
            for a, b in pairwise(walk):
                assert b == -1 if a < 0 or not rows[a] else b in rows[a]

    @pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 2.0), (4.0, 0.25), (1e-3, 1e3), (1e6, 1e6)])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_frequencies(self, p: float, q: float, weighted: bool) -> None:
        near = simple(8, 9, 40)
        weight = np.random.default_rng(0).uniform(0.1, 3, len(near.indices))
        if weighted:
            near = Neighbours(near.indptr, near.indices, weights=weight, seed=0)
        walks = near.walks(np.full(20_000, 2), 2, p=p, q=q)
        ones = weight if weighted else np.ones_like(weight)
        plain = node2vec_chances(near, 0, 2, 1.0, 1.0, ones)
        assert fits(np.bincount(walks[:, 1], minlength=9), plain)
        middle = int(np.bincount(walks[:, 1]).argmax())
        after = walks[walks[:, 1] == middle, 2]
        assert fits(np.bincount(after, minlength=9), node2vec_chances(near, 2, middle, p, q, ones))

    def test_frequencies_where_nearly_all_is_refused(self) -> None:
        """All neighbours are joined, and a step away would be 65 times as likely: what is listed in the end is fair."""
        n, p, walks = 6, 3.0, 1_500_000
        near = Neighbours(np.arange(n + 1) * (n - 1), np.nonzero(1 - np.eye(n))[1])
        found = near.walks(np.zeros(walks, int), 2, p=p, q=1 / 65)
        after = found[found[:, 1] == 5, 2]
        assert fits(np.bincount(after, minlength=n), node2vec_chances(near, 0, 5, p, 1 / 65, np.ones(n * (n - 1))))

    def test_a_walk_is_its_number(self) -> None:
        near = made(3, 100, 3000)
        starts = np.arange(100)
        for p in (1.0, 0.5):
            whole = near.walks(starts, 20, epoch=2, p=p)
            part = near.walks(starts[40:77], 20, epoch=2, p=p, streams=np.arange(40, 77))
            np.testing.assert_array_equal(part, whole[40:77])
            assert not np.array_equal(whole, near.walks(starts, 20, epoch=3, p=p))

    def test_metapath(self) -> None:
        near = made(4, 60, 3000)
        types = np.random.default_rng(0).integers(0, 3, 60)
        path = [1, 2, 0]
        walks = near.walks(np.flatnonzero(types == 0), 7, along=[near.to_type(types, t) for t in path])
        assert (walks >= 0).all()
        np.testing.assert_array_equal(types[walks[:, 1:]], np.resize(path, 7)[None].repeat(len(walks), 0))

    def test_any_number_of_threads(self) -> None:
        near = made(5, 2000, 30_000)
        starts = np.arange(2000)
        for draw in (
            lambda: near.walks(starts, 30),
            lambda: near.walks(starts, 30, p=0.5, q=2.0),
            lambda: near.blocks(starts, (5, 5))[0].edges,
            lambda: near.negatives(starts, 4),
            lambda: near.enclosing_subgraphs(starts[:300, None], hops=1).edges,
            lambda: page_rank(near.indptr, near.indices),
        ):
            found = []
            for count in (1, 2):
                with threads.limit(count):
                    found.append(draw())
            np.testing.assert_array_equal(found[0], found[1])

    def test_refusals(self) -> None:
        near = Neighbours(np.array([0, 2, 2, 2]), np.array([2, 1]))
        with pytest.raises(UsageError, match="ascending"):
            near.walks(np.array([0]), 3, p=0.5)
        with pytest.raises(UsageError, match="above 0"):
            star(3).walks(np.array([0]), 3, p=0.0)
        with pytest.raises(UsageError, match="edge 1 has -1"):
            star(3, weights=[1.0, -1.0, 0.0])
        with pytest.raises(UsageError, match=r"below 2\*\*31"):
            Neighbours(np.array([0, 1]), np.array([2**32]))
        with pytest.raises(UsageError, match="length is -1"):
            near.walks(np.array([0]), -1)
        with pytest.raises(UsageError, match="fanout is -2"):
            near.blocks(np.array([0]), [-2])
        wide = Neighbours(np.array([0, 1]), np.array([4]), columns=5)  # node 4 has no list: nothing to read there
        for use in (lambda: wide.walks(np.array([0]), 3), lambda: wide.enclosing_subgraphs(np.array([[0]]), hops=2)):
            with pytest.raises(UsageError, match="only 1 have a list"):
                use()
        with pytest.raises(ShapeError, match="one for each of 4 nodes"):
            star(3).to_type(np.zeros(3), 0)


class TestNegatives:
    @given(sizes)
    def test_none_is_a_neighbour(self, size: tuple[int, int, int]) -> None:
        near = simple(*size)
        rows = lists(near)
        free = [v for v in range(size[1]) if len({*rows[v], v}) < size[1]]
        drawn = near.negatives(np.array(free, np.int64), 8)
        for v, row in zip(free, drawn, strict=True):
            assert not {*row} & {*rows[v], v}
            assert ((row >= 0) & (row < size[1])).all()

    def test_frequencies(self) -> None:
        near = star(9)  # node 1 has nobody on its list
        near = Neighbours(np.array([0, 2] + [2] * 9), np.array([3, 5]))
        degrees = np.arange(10.0)
        drawn = near.negatives(np.zeros(5000, np.int64), 2, weights=degrees)
        left = np.where(np.isin(np.arange(10), [0, 3, 5]), 0, degrees)
        assert fits(np.bincount(drawn.ravel(), minlength=10), left / left.sum())

    def test_the_last_one_left_is_found(self) -> None:
        n = 500
        near = Neighbours(np.array([0] + [n - 2] * n), np.setdiff1d(np.arange(n), [0, 123]))
        assert (near.negatives(np.zeros(3, np.int64), 2) == 123).all()
        full = Neighbours(np.array([0, 1, 2]), np.array([1, 0]))
        with pytest.raises(UsageError, match="joined to every node"):
            full.negatives(np.array([0]), 1)


class TestParts:
    @given(sizes, st.integers(0, 3))
    def test_enclosing_subgraphs(self, size: tuple[int, int, int], hops: int) -> None:
        near, n = made(*size), size[1]
        seeds = edges_of(size[0] + 2, n, 3)
        parts = near.enclosing_subgraphs(np.stack(seeds, axis=1), hops=hops)
        step = np.zeros((n, n), bool)
        step[rows_of(near.indptr), near.indices] = True
        for i in range(3):
            far = np.full(n, hops + 1)
            reached = np.zeros(n, bool)
            reached[[seeds[0][i], seeds[1][i]]] = True
            for hop in range(hops + 1):
                far[reached & (far > hop)] = hop
                reached = reached | step[reached].any(0)
            begin, end = parts.node_start[i], parts.node_start[i + 1]
            nodes = parts.nodes[begin:end]
            assert sorted(nodes) == list(np.flatnonzero(far <= hops))
            np.testing.assert_array_equal(parts.hops[begin:end], np.minimum(far[nodes], hops))
            inside = far <= hops
            for v, a, b in zip(nodes, parts.indptr[begin:end], parts.indptr[begin + 1 : end + 1], strict=True):
                kept = [u for u in lists(near)[v] if inside[u]]
                assert list(parts.nodes[parts.indices[a:b]]) == kept == list(near.indices[parts.edges[a:b]])
                assert ((parts.indices[a:b] >= begin) & (parts.indices[a:b] < end)).all()

    def test_induced(self) -> None:
        near = made(6, 30, 300)
        nodes = np.array([4, 1, 9, 20, 3])
        part = near.induced_subgraph(nodes)
        np.testing.assert_array_equal(part.nodes, nodes)
        dense = np.zeros((30, 30), int)
        np.add.at(dense, (rows_of(near.indptr), near.indices), 1)
        found = np.zeros((5, 5), int)
        np.add.at(found, (rows_of(part.indptr), part.indices), 1)
        np.testing.assert_array_equal(found, dense[np.ix_(nodes, nodes)])


@given(sizes, st.booleans(), st.booleans())
def test_page_rank(size: tuple[int, int, int], weighted: bool, personal: bool) -> None:
    near, n = made(*size), size[1]
    rng = np.random.default_rng(size[0])
    weight = rng.uniform(0.5, 2, len(near.indices)) if weighted else np.ones(len(near.indices))
    jump = rng.uniform(0.1, 1, n) if personal else np.ones(n)
    links = np.zeros((n, n))
    np.add.at(links, (rows_of(near.indptr), near.indices), weight)
    total, jump = links.sum(0), jump / jump.sum()
    links = np.where(total > 0, links / np.where(total > 0, total, 1), jump[:, None])
    exact = np.linalg.solve(np.eye(n) - 0.85 * links, 0.15 * jump)
    rank = page_rank(near.indptr, near.indices, weights=weight if weighted else None, teleport=jump)
    np.testing.assert_allclose(rank, exact, atol=1e-9)


def test_page_rank_faults() -> None:
    near = star(3)
    assert page_rank(np.zeros(1, int), np.zeros(0, int)).shape == (0,)
    for fields, messages in (
        ({"teleport": np.zeros(4)}, "teleport must be 4"), ({"teleport": np.ones(3)}, "teleport must be 4"),
        ({"weights": np.ones(2)}, "weights must be"), ({"weights": -np.ones(len(near.indices))}, "weights must be"),
        ({"damping": 1.5}, "damping=1.5"), ({"steps": 0}, "steps is 0"), ({"steps": 1}, "give more, or less tolerance"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=messages):
            page_rank(near.indptr, near.indices, **fields)  # type: ignore[arg-type]
