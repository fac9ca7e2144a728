"""TransE."""

from __future__ import annotations

from typing import Annotated, Literal

from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_graph.models.knowledge import INNER, KnowledgeModel


class TransE(KnowledgeModel):
    """A relation is a step from the head to the tail: Bordes et al., "Translating embeddings for modeling
    multi-relational data", NIPS 2013.

        s(h, r, t) = margin - |h + r - t|

    metric  l1: the sum of absolute differences; l2: the root of the sum of squares
    margin  from which on distances count as true
    dim, reciprocal and sparse are those of `KnowledgeModel`. Initial values U(-b, b), b = (margin + 2) / dim.
    """

    def __init__(
        self,
        num_entities: Annotated[int, Range(1)] | None = None,
        num_relations: Annotated[int, Range(1)] | None = None,
        *,
        dim: Annotated[int, Range(1)] = 200,
        metric: Literal["l1", "l2"] = "l1",
        margin: Annotated[float, Range(0)] = 9.0,
        reciprocal: bool = False,
        sparse: bool = True,
    ) -> None:
        super().__init__(num_entities, num_relations, dim, dim, reciprocal, sparse)
        self.metric = metric
        self.margin = margin
        self.draw((margin + INNER) / dim)

    def inverse(self, relation: Tensor, sign: Tensor) -> Tensor:
        return relation * sign

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        return entity + relation


TASK = "knowledge"
VARIANTS = {"transe": {"_target_": "pdl_graph.TransE"}}
