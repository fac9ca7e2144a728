"""ComplEx."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.hints import Range
from pdl.tensor import Tensor
from pdl_graph.models.knowledge import KnowledgeModel, complex_product


class ComplEx(KnowledgeModel):
    """DistMult with complex numbers, so that the two directions of a relation may differ: Trouillon et al., "Complex
    embeddings for simple link prediction", arXiv 1606.06357.

        s(h, r, t) = Re(sum_d h_d r_d conj(t_d))

    A query about heads has t conj(r) for its vector.

    scale   initial values U(-scale, scale)
    dim, reciprocal and sparse are those of `KnowledgeModel`: there are dim / 2 complex numbers.
    """

    paired = True

    def __init__(
        self,
        num_entities: Annotated[int, Range(1)] | None = None,
        num_relations: Annotated[int, Range(1)] | None = None,
        *,
        dim: Annotated[int, Range(2)] = 200,
        scale: Annotated[float, Range(above=0)] = 0.1,
        reciprocal: bool = False,
        sparse: bool = True,
    ) -> None:
        super().__init__(num_entities, num_relations, dim, dim, reciprocal, sparse)
        self.draw(scale)

    def inverse(self, relation: Tensor, sign: Tensor) -> Tensor:
        half = self.dim // 2
        return pdl.concat([relation[:, :half], relation[:, half:] * sign], axis=1)

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        half = self.dim // 2
        return complex_product(entity, relation[:, :half], relation[:, half:])


TASK = "knowledge"
VARIANTS = {"complex": {"_target_": "pdl_graph.ComplEx"}}
