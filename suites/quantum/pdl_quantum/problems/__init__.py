"""Combinatorial problems as Hamiltonians, and what bit strings say about them: cuts, tours, portfolios;
chains of spins."""

from pdl_quantum.problems.base import BinaryProblem
from pdl_quantum.problems.diagonal import least, table
from pdl_quantum.problems.edges import Edges, random_graph, random_regular, read_edges
from pdl_quantum.problems.maxcut import MaxCut, goemans_williamson
from pdl_quantum.problems.portfolio import Portfolio, moments
from pdl_quantum.problems.qubo import QUBO
from pdl_quantum.problems.spins import heisenberg, transverse_ising
from pdl_quantum.problems.tsp import TSP
