"""The quantum approximate optimisation algorithm on the shared trainer."""

from pdl_quantum.problems.combinatorial import Combinatorial, combinatorial
from pdl_quantum.qaoa.circuit import QAOACircuit
from pdl_quantum.qaoa.solve import Answer, solve
from pdl_quantum.qaoa.task import QAOA
