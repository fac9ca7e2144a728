"""Combinatorial problems as data sets of one problem: graphs to cut, cities to visit, assets to hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.hints import Range
from pdl.suites import suggest
from pdl_quantum.circuits import PauliSum
from pdl_quantum.data.columns import read_columns, read_matrix
from pdl_quantum.data.eigenproblems import Eigenproblems
from pdl_quantum.problems import (
    QUBO,
    TSP,
    BinaryProblem,
    Edges,
    MaxCut,
    Portfolio,
    moments,
    random_graph,
    random_regular,
    read_edges,
)
from pdl_quantum.problems.combinatorial import combinatorial
from pdl_quantum.problems.diagonal import MOST

DAYS = 252
"""Days of trading in a year: prices that are made up are those of one."""


class CombinatorialData(Eigenproblems):
    """A data set of one combinatorial problem."""

    def __init__(self, name: str, problem: BinaryProblem) -> None:
        self.problem = problem
        if problem.num_qubits <= MOST and np.isnan(problem.optimum):
            raise DataError(f"{name}: the least energy is that of bits that break the rules; give a larger penalty")
        super().__init__([combinatorial(name, problem)])


class MaxCutGraph(CombinatorialData):
    """A graph whose largest cut is looked for (`pdl_quantum.MaxCut`): one of these four.

    name     of a graph that comes with pdl-quantum: diamond (a ring of four and a chord), cube, petersen, florentine,
             dodecahedral, 3reg_12_seed1, 3reg_16_seed2, er_10_0.5_seed3, karate
    file     a list of edges, source,target[,weight] a line
    nodes    of a random graph: with `degree` regular, else each pair joined with `probability`; of this `seed`
    edges    [[a, b], [a, b, weight], ...]
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        file: str | Path | None = None,
        nodes: Annotated[int, Range(2)] | None = None,
        degree: Annotated[int, Range(1)] = 3,
        probability: Annotated[float, Range(above=0, high=1)] | None = None,
        seed: int = 0,
        edges: Sequence[Sequence[float]] | None = None,
    ) -> None:
        given = [each for each, value in (("name", name), ("file", file), ("nodes", nodes), ("edges", edges)) if value]
        if len(given) != 1:
            raise DataError(f"MaxCutGraph: give one of name, file, nodes and edges, not {', '.join(given) or 'none'}")
        if name is not None:
            title, graph = name, shipped(name)
        elif file is not None:
            title, graph = Path(file).stem, read_edges(file)
        elif nodes is not None and probability is not None:
            title, graph = (
                f"{nodes} nodes, edges with {probability:g}, seed {seed}",
                random_graph(nodes, probability, seed),
            )
        elif nodes is not None:
            title, graph = f"{nodes} nodes of degree {degree}, seed {seed}", random_regular(nodes, degree, seed)
        else:
            title, graph = "the recipe's edges", Edges.of(edges or ())
        super().__init__(title, MaxCut(graph))


class CostFunction(CombinatorialData):
    """Any cost of bit strings: one of these three.

    terms    {"ZZI": 1.0, "IIZ": -0.5, ...}: products of Z (an Ising sum, of any order), qubit 0 first
    matrix   Q [[...], ...] of x^T Q x over bits x (a QUBO, `pdl_quantum.QUBO`)
    file     Q as *.npy, or as *.csv without a header
    """

    def __init__(
        self,
        *,
        terms: Mapping[str, float] | None = None,
        matrix: Sequence[Sequence[float]] | None = None,
        file: str | Path | None = None,
    ) -> None:
        options = {"terms": terms, "matrix": matrix, "file": file}
        given = [each for each, value in options.items() if value]
        if len(given) != 1:
            raise DataError(f"CostFunction: give one of {', '.join(options)}, not {', '.join(given) or 'none'}")
        try:
            if terms is not None:
                cost = PauliSum(len(next(iter(terms))), terms)
            else:
                cost = QUBO(matrix if file is None else read_matrix(file)).ising()
            problem = BinaryProblem(cost)
        except UsageError as error:
            raise DataError(f"CostFunction: {error}") from None
        super().__init__(Path(file).stem if file else f"a cost of {cost.num_qubits} bits", problem)


class TSPCities(CombinatorialData):
    """Cities to visit on the shortest round trip (`pdl_quantum.TSP`): one of these three.

    places     [[x, y], ...];    file  a table with the columns name, x, y;    distances  [[...], ...], a row for a city
    cities     as many at random in the unit square, of this `seed`
    penalty    of a broken rule; by default large enough
    """

    def __init__(
        self,
        *,
        places: Sequence[Sequence[float]] | None = None,
        file: str | Path | None = None,
        distances: Sequence[Sequence[float]] | None = None,
        cities: Annotated[int, Range(3)] | None = None,
        seed: int = 0,
        penalty: float | None = None,
    ) -> None:
        options = {"places": places, "file": file, "distances": distances, "cities": cities}
        given = [each for each, value in options.items() if value]
        if len(given) != 1:
            raise DataError(f"TSPCities: give one of {', '.join(options)}, not {', '.join(given) or 'none'}")
        if distances is not None:
            name, problem = f"{len(distances)} cities", TSP(distances, penalty=penalty)
        elif file is not None:
            table = read_columns(file, ["x", "y"], names="name")
            name, problem = Path(file).stem, TSP.of_places(table.values, names=table.names, penalty=penalty)
        else:
            at = np.random.default_rng(seed).random((cities, 2)) if cities else np.asarray(places, np.float64)
            name = f"{len(at)} cities" + (f", seed {seed}" if cities else "")
            problem = TSP.of_places(at, penalty=penalty)
        super().__init__(name, problem)


class PortfolioAssets(CombinatorialData):
    """Assets of which `budget` are to be held (`pdl_quantum.Portfolio`): prices of a file, or made-up ones.

    file     a table of prices, a column for each asset and a row for each day; a first column "date" is left out
    assets   as many made-up ones: a year of daily prices that move at random and together, of this `seed`
    risk     how much variance counts against return;    penalty  of another number of assets

    Returns and covariances are those of a year (252 days of the mean and covariance of daily changes).
    """

    def __init__(
        self,
        *,
        file: str | Path | None = None,
        assets: Annotated[int, Range(2)] | None = None,
        seed: int = 0,
        budget: Annotated[int, Range(1)],
        risk: Annotated[float, Range(0)] = 0.5,
        penalty: float | None = None,
    ) -> None:
        if (file is None) == (assets is None):
            raise DataError("PortfolioAssets: give either file or assets")
        if file is not None:
            table = read_columns(file, None, skip="date")
            name, prices, names = Path(file).stem, table.values, table.columns
        else:
            name, prices = f"{assets} made-up assets, seed {seed}", made_up_prices(assets or 0, seed)
            names = [f"asset {k}" for k in range(assets or 0)]
        mean, covariance = moments(prices)
        super().__init__(
            name, Portfolio(mean * DAYS, covariance * DAYS, budget=budget, risk=risk, penalty=penalty, names=names)
        )


def made_up_prices(assets: int, seed: int) -> np.ndarray:
    """Prices [253, assets] of 100 to begin with: geometric Brownian motion with yearly drifts from -5 to 25 %, yearly
    deviations from 15 to 40 %, and a market that explains half of each variance."""
    rng = np.random.default_rng(seed)
    drift, deviation = rng.uniform(-0.05, 0.25, assets), rng.uniform(0.15, 0.4, assets)
    market, own = rng.normal(size=(DAYS, 1)), rng.normal(size=(DAYS, assets))
    daily = (drift - deviation**2 / 2) / DAYS + deviation / np.sqrt(DAYS) * (market + own) / np.sqrt(2)
    prices: np.ndarray = 100 * np.exp(np.concatenate([np.zeros((1, assets)), np.cumsum(daily, axis=0)]))
    return prices


@cache
def _library() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(
        files("pdl_quantum.data").joinpath("files/maxcut_graphs.json").read_text(encoding="utf-8")
    )
    return found


def shipped(name: str) -> Edges:
    """A graph that comes with pdl-quantum."""
    if name not in _library():
        raise DataError(f"there is no graph {name!r}{suggest(name, _library())}; there are {', '.join(_library())}")
    return Edges.of(_library()[name]["edges"], int(_library()[name]["n"]))


def known_cuts() -> dict[str, int]:
    """The largest cut of each graph that comes with pdl-quantum, all proven."""
    return {name: int(each["maxcut"]) for name, each in _library().items()}
