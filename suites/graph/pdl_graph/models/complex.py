"""ComplEx."""

from __future__ import annotations

import pdl
from pdl.tensor import Tensor
from pdl_graph.models.distmult import DistMult
from pdl_graph.models.knowledge import complex_product


class ComplEx(DistMult):
    """DistMult with complex numbers, so that the two directions of a relation may differ: Trouillon et al., "Complex
    embeddings for simple link prediction", arXiv 1606.06357.

        s(h, r, t) = Re(sum_d h_d r_d conj(t_d))

    A query about heads has t conj(r) for its vector.

    Arguments are those of `DistMult`; dim is even: there are dim / 2 complex numbers.
    """

    paired = True

    def inverse(self, relation: Tensor, sign: Tensor) -> Tensor:
        half = self.dim // 2
        return pdl.concat([relation[:, :half], relation[:, half:] * sign], axis=1)

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        half = self.dim // 2
        return complex_product(entity, relation[:, :half], relation[:, half:])


TASK = "knowledge"
VARIANTS = {"complex": {"_target_": "pdl_graph.ComplEx"}}
