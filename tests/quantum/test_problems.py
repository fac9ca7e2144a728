"""Problems over bit strings: against sums over edges, permutations, subsets, and dense matrices."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl_quantum import QUBO, TSP, MaxCut, Portfolio
from pdl_quantum.circuits import PauliSum
from pdl_quantum.problems import diagonal, least, moments, random_regular, read_edges, table
from pdl_quantum.problems.bits import bits_of, index_of, read_bits, text_of

ALL = Path(os.environ.get("PDL_DATA", "data")) / "quantum" / "maxcut_graphs.json"


def test_the_ising_sum_of_a_qubo_is_its_value_at_every_bit_string() -> None:
    rng = np.random.default_rng(0)
    qubo = QUBO(rng.normal(size=(7, 7)), 0.7)
    every = bits_of(np.arange(128), 7)
    direct = [sum(qubo.matrix[i, j] * x[i] * x[j] for i in range(7) for j in range(7)) + 0.7 for x in every.astype(int)]
    np.testing.assert_allclose(qubo.value(every), direct, atol=1e-12)
    np.testing.assert_allclose(np.diag(qubo.ising().matrix()).real, direct, atol=1e-12)
    back = QUBO.from_ising(qubo.ising())
    np.testing.assert_allclose(back.matrix, qubo.matrix, atol=1e-12)
    assert back.offset == pytest.approx(0.7)
    with pytest.raises(UsageError, match="in no QUBO"):
        QUBO.from_ising(PauliSum(3, {"ZZZ": 1.0}))


def test_tables_and_least_values_of_any_order_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    words = ["".join(word) for word in itertools.product("IZ", repeat=8)]
    cost = PauliSum(8, {word: round(rng.normal(), 1) for word in rng.choice(words, 30, replace=False)})
    exact = np.diag(cost.matrix()).real
    np.testing.assert_allclose(table(cost), exact, atol=1e-12)
    np.testing.assert_allclose(diagonal.values(cost, bits_of(np.arange(256), 8)), exact, atol=1e-12)
    for block in (3, 8):
        monkeypatch.setattr(diagonal, "BLOCK", block)
        found = least(cost)
        assert found.value == pytest.approx(exact.min())
        np.testing.assert_array_equal(found.indices, np.flatnonzero(exact < exact.min() + 1e-9))
    with pytest.raises(UsageError, match="not diagonal"):
        least(PauliSum(2, {"XZ": 1.0}))


def test_bits_are_most_significant_first() -> None:
    assert text_of(bits_of(4, 3)) == "100"
    assert index_of([1, 0, 0]) == 4
    assert read_bits("1,0 1", 3).tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="no bit string of 3"):
        read_bits("10", 3)


@pytest.mark.skipif(not ALL.exists(), reason="the graphs with proven optima are not on this machine")
def test_brute_force_finds_the_proven_cuts_and_no_heuristic_beats_them() -> None:
    for name, messages in json.loads(ALL.read_text()).items():
        problem = MaxCut(messages["edges"], messages["n"])
        if messages["n"] <= 20:
            assert problem.optimum == messages["maxcut"], name
            assert problem.value_of_energy(problem.best.value) == pytest.approx(messages["maxcut"])
        found = {method: float(problem.value(bits)) for method, bits in problem.classical().items()}
        assert max(found.values()) <= messages["maxcut"], (name, found)
        assert found["Goemans-Williamson"] >= 0.878 * messages["maxcut"]
        assert found["local search"] >= 0.9 * messages["maxcut"]


def test_a_cut_counts_the_edges_between_its_sides(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target,weight\nann,bob,2\nbob,cy,0.5\n# none\ncy,ann,1\n")
    problem = MaxCut(read_edges(tmp_path / "edges.csv"))
    bits = [0, 1, 0]
    assert problem.value(bits) == 2.5
    assert problem.value_of_energy(float(problem.energy(bits))) == 2.5
    assert problem.describe(bits) == {
        "bits": "010", "cut": 2.5, "energy": -1.5, "valid": True, "sides": [["ann", "cy"], ["bob"]],
    }  # fmt: skip
    assert problem.optimum == 3.0
    for text, fault in (("a,b,x\n", "line 1: the weight"), ("a\n", "is no edge"), ("a,a\n", "to itself")):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(DataError, match=fault):
            read_edges(tmp_path / "bad.csv")
    with pytest.raises(DataError, match="only nodes 0 to 2"):
        MaxCut([(0, 3)], 3)


def test_random_regular_graphs_are() -> None:
    a, b = random_regular(12, 3, 5), random_regular(12, 3, 6)
    assert (np.bincount(a.pairs.ravel(), minlength=12) == 3).all()
    assert len(np.unique(a.pairs, axis=0)) == 18
    assert not np.array_equal(a.pairs, b.pairs)
    with pytest.raises(UsageError, match="no graph of 5 nodes has degree 3"):
        random_regular(5, 3)


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_best_bits_of_a_tsp_are_the_shortest_permutation(n: int) -> None:
    rng = np.random.default_rng(n)
    distances = rng.random((n, n))
    problem = TSP(distances)
    tours = [(*order, n - 1) for order in itertools.permutations(range(n - 1))]
    shortest = min(tours, key=problem.length)
    assert problem.optimum == pytest.approx(problem.length(shortest))
    assert problem.num_qubits == (n - 1) ** 2
    best = bits_of(problem.best.indices[0], problem.num_qubits)
    assert problem.length(problem.tour(best)) == pytest.approx(problem.optimum)
    every = problem.valid(bits_of(np.arange(1 << problem.num_qubits), problem.num_qubits))
    assert every.sum() == len(tours)
    bits = problem.bits(tours[-1])
    assert problem.value(bits) == pytest.approx(problem.length(tours[-1]))
    assert np.isnan(problem.value(np.zeros(problem.num_qubits)))
    assert problem.decode(0 * bits) == {"tour": None}
    assert problem.value(problem.classical()["2-opt"]) >= problem.optimum - 1e-12


def test_the_best_bits_of_a_portfolio_are_the_best_subset() -> None:
    rng = np.random.default_rng(3)
    mean, covariance = moments(np.exp(np.cumsum(rng.normal(0.01, 0.05, size=(60, 8)), axis=0)))
    problem = Portfolio(mean, covariance, budget=3, risk=2.0)
    best = {}
    for chosen in itertools.combinations(range(8), 3):
        x = np.isin(np.arange(8), chosen).astype(float)
        best[chosen] = 2.0 * x @ covariance @ x - mean @ x
    chosen = min(best, key=lambda each: best[each])
    assert problem.optimum == pytest.approx(best[chosen])
    found = bits_of(problem.best.indices[0], 8)
    assert tuple(np.flatnonzero(found)) == chosen
    assert problem.decode(found)["assets"] == [str(i) for i in chosen]
    assert problem.value(problem.classical()["exchanges"]) >= problem.optimum - 1e-12
    with pytest.raises(UsageError, match="budget=9 of 8"):
        Portfolio(mean, covariance, budget=9)
