"""Matrix factorisation for ranking."""

from __future__ import annotations

from typing import Annotated

import pdl
from pdl.hints import Range
from pdl.nn import Embedding, init
from pdl.tensor import Tensor
from pdl_rec.models.matching import Query, TwoTower, inferred


class BPRMF(TwoTower):
    """A vector for every user and one for every item; the score is their product: Rendle et al., "BPR: Bayesian
    personalized ranking from implicit feedback", arXiv 1205.2618, section 4.3.1.

        s(u, i) = <w_u, h_i> + b_i        (b only with `bias`)

    dim     numbers in a vector
    bias    a number of each item's own, added to its score
    std     of the initial values, N(0, std)
    sparse  gradients and updates of the rows in use alone: for large tables
    """

    def __init__(
        self,
        num_users: Annotated[int, Range(1)] | None = None,
        num_items: Annotated[int, Range(1)] | None = None,
        *,
        dim: Annotated[int, Range(1)] = 64,
        bias: bool = False,
        std: Annotated[float, Range(above=0)] = 0.01,
        sparse: bool = False,
    ) -> None:
        num_users, num_items = inferred("BPRMF", num_users=num_users), inferred("BPRMF", num_items=num_items)
        self.num_users, self.num_items = num_users, num_items
        self.users = Embedding(num_users + 1, dim, sparse=sparse)
        self.items = Embedding(num_items + 1, dim, sparse=sparse)
        self.bias = Embedding(num_items + 1, 1, sparse=sparse) if bias else None
        init.normal_(self.users.weight, std=std)
        init.normal_(self.items.weight, std=std)
        if self.bias is not None:
            init.zeros_(self.bias.weight)

    def user_vectors(self, query: Query) -> Tensor:
        """[N, dim]; with `bias` one column of ones more."""
        found = self.users(query["user"])
        return found if self.bias is None else pdl.concat([found, pdl.ones((found.shape[0], 1))], axis=1)

    def item_vectors(self, items: Tensor | None = None) -> Tensor:
        """[..., dim]; with `bias` one column more, which holds it."""
        if self.bias is None:
            return self.items.weight if items is None else self.items(items)
        if items is None:
            return pdl.concat([self.items.weight, self.bias.weight], axis=1)
        return pdl.concat([self.items(items), self.bias(items)], axis=-1)


TASK = "matching"
VARIANTS = {"bpr_mf": {"_target_": "pdl_rec.BPRMF"}}
