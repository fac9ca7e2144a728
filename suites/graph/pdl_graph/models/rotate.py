"""RotatE."""

from __future__ import annotations

import math
from typing import Annotated

import pdl
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_graph.models.knowledge import INNER, KnowledgeModel, complex_product


class RotatE(KnowledgeModel):
    """A relation turns each complex number of the head by an angle: Sun et al., "RotatE: knowledge graph embedding by
    relational rotation in complex space", arXiv 1902.10197.

        s(h, r, t) = margin - sum_d |h_d e^(i a_d) - t_d|

    Of the inverse relation the angles are negative: |h e^(ia) - t| = |t e^(-ia) - h|.

    margin  from which on distances count as true (the paper's gamma)
    dim, reciprocal and sparse are those of `KnowledgeModel`: there are dim / 2 complex numbers and as many angles (the
    paper counts the complex ones). Initial values U(-b, b), b = (margin + 2) / (dim / 2); an angle is its number times
    pi / b, so that the steps of one optimiser suit both.
    """

    metric = "complex"
    paired = True

    def __init__(
        self,
        num_entities: Annotated[int, Range(1)] | None = None,
        num_relations: Annotated[int, Range(1)] | None = None,
        *,
        dim: Annotated[int, Range(2)] = 400,
        margin: Annotated[float, Range(0)] = 9.0,
        reciprocal: bool = False,
        sparse: bool = True,
    ) -> None:
        super().__init__(num_entities, num_relations, dim, dim // 2, reciprocal, sparse)
        self.margin = margin
        bound = (margin + INNER) / (dim // 2)
        self.angle = math.pi / bound
        self.draw(bound)

    def inverse(self, relation: Tensor, sign: Tensor) -> Tensor:
        return relation * sign

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        angle = relation * self.angle
        return complex_product(entity, pdl.cos(angle), pdl.sin(angle))


TASK = "knowledge"
VARIANTS = {"rotate": {"_target_": "pdl_graph.RotatE"}}
