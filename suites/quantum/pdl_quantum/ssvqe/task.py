"""Subspace-search VQE: one circuit turns several basis states at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.errors import ConfigError
from pdl.hints import Inherited, Range
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl.train import Recipe
from pdl.train.deployed import Deployed
from pdl_quantum.excited.ansatz import SubspaceAnsatz
from pdl_quantum.excited.task import Levels


class SSVQE(Levels):
    """Subspace-search VQE (Nakanishi et al., arXiv 1810.09434): sum_k w_k <b_k|U^+ H U|b_k> is least where the state of
    the largest weight is the ground state, the next the first level above, and so on.

    weights   w, descending and above 0: one for each reference of the model (`pdl_quantum.SubspaceAnsatz`)
    epoch_steps, names   as in `Variational`
    """

    monitor = "val/loss"

    def __init__(self, weights: Sequence[Annotated[float, Range(above=0)]], **options: Inherited) -> None:
        super().__init__(**options)
        if not weights or any(a <= b for a, b in pairwise(weights)):
            raise ConfigError(f"task: weights={list(weights)} must descend, so that each level has a place of its own")
        self.weights, self.count = np.array(weights, np.float64), len(weights)

    def total(self, energies: Tensor) -> Tensor:
        return (energies * pdl.as_tensor(self.weights)).sum() * (1.0 / float(self.weights.sum()))

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        super().check_model(model, datasets, recipe)
        if isinstance(model, Deployed):
            return
        if not isinstance(model, SubspaceAnsatz) or model.num_states != self.count:
            raise ConfigError(f"model: task.weights has {self.count} numbers; name a pdl_quantum.SubspaceAnsatz with "
                              "as many references")  # fmt: skip

    def title(self) -> str:
        return f"The {self.count} lowest levels of a Hamiltonian, by one circuit (SSVQE)"
