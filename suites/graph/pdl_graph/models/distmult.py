"""DistMult."""

from __future__ import annotations

from typing import Annotated

from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_graph.models.knowledge import KnowledgeModel


class DistMult(KnowledgeModel):
    """A relation weighs the products of the two entities' numbers: Yang et al., "Embedding entities and relations for
    learning and inference in knowledge bases", arXiv 1412.6575.

        s(h, r, t) = sum_d h_d r_d t_d

    It is the same for (h, r, t) and (t, r, h); with `reciprocal` relations the two directions differ.

    scale   initial values U(-scale, scale)
    dim, reciprocal and sparse are those of `KnowledgeModel`.
    """

    def __init__(
        self,
        num_entities: Annotated[int, Range(1)] | None = None,
        num_relations: Annotated[int, Range(1)] | None = None,
        *,
        dim: Annotated[int, Range(1)] = 200,
        scale: Annotated[float, Range(above=0)] = 0.1,
        reciprocal: bool = False,
        sparse: bool = True,
    ) -> None:
        super().__init__(num_entities, num_relations, dim, dim, reciprocal, sparse)
        self.draw(scale)

    def inverse(self, relation: Tensor, sign: Tensor) -> Tensor:
        return relation

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        return entity * relation


TASK = "knowledge"
VARIANTS = {"distmult": {"_target_": "pdl_graph.DistMult"}}
