"""Losses of knowledge graphs: the answer of a fact against other entities.

All take positive float [N], the scores of the answers, and negatives [N, K], those of entities that (as far as is
known) do not answer; columns that do stand at `NEVER`. All return the loss of each query, [N].
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import pdl
from pdl.tensor import Tensor

Kind: TypeAlias = Literal["self_adversarial", "softmax", "margin"]
NEVER = -1e9  # the score of what counts for nothing


def self_adversarial(positive: Tensor, negatives: Tensor, temperature: float = 1.0) -> Tensor:
    """-(log sigmoid(positive) + sum_k p_k log sigmoid(-negative_k)) / 2, p the softmax of temperature * negatives,
    taken as it is (no gradient goes through it). Sun et al., arXiv 1902.10197, equations 5 and 6."""
    weights = pdl.softmax(negatives.detach() * temperature, axis=1)
    return (pdl.softplus(-positive) + (weights * pdl.softplus(negatives)).sum(axis=1)) * 0.5


def softmax(positive: Tensor, negatives: Tensor, num_entities: int) -> Tensor:
    """-positive + log(exp(positive) + (num_entities - 1) / K sum_k exp(negative_k)): cross-entropy over all entities,
    of which the negatives are K, drawn uniformly. Over all of them: Lacroix et al., arXiv 1806.07297, section 2.
    """
    more = math.log(max(num_entities - 1, 1) / negatives.shape[1])
    logits = pdl.concat([pdl.expand_dims(positive, axis=1), negatives + more], axis=1)
    return pdl.cross_entropy(logits, pdl.zeros(positive.shape, dtype=pdl.int64), reduction="none")


def margin_loss(positive: Tensor, negatives: Tensor, margin: float = 1.0) -> Tensor:
    """The mean over negatives of max(0, margin - positive + negative). Bordes et al., NIPS 2013, with distances
    negated."""
    return pdl.relu(negatives - pdl.expand_dims(positive, axis=1) + margin).mean(axis=1)


def n3(moduli: tuple[Tensor, ...]) -> Tensor:
    """The nuclear 3-norm: the sum of |x|^3 over the numbers x of the vectors that took part, [N, C] each, a query's
    mean (0-d). Lacroix et al., arXiv 1806.07297, equation 4."""
    total = sum(((pdl.square(m) * m).sum() for m in moduli[1:]), (pdl.square(moduli[0]) * moduli[0]).sum())
    return total * (1.0 / moduli[0].shape[0])
