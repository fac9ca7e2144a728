"""What the models of knowledge graphs have in common: a query (an entity, a relation, a direction) becomes a vector,
and the score of an answer is a product of that vector and the answer's, or a distance between them."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import pdl
from pdl.errors import ConfigError
from pdl.nn import Embedding, Module, init
from pdl.ops.distance import Metric
from pdl.tensor import Tensor

Query: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""(entity, relation, inverse), int64 [N] each: which tail does (entity, relation, ?) have where inverse is 0, and which
head has (?, relation, entity) where it is 1? Entities and relations have numbers from 1 on; 0 is an unknown one."""

INNER = 2.0  # of the initial range of distances: (margin + INNER) / columns, as the RotatE paper's code has it


class KnowledgeModel(Module):
    """Base of the models that answer queries about facts (head, relation, tail).

    num_entities, num_relations   names; tables have one row more, row 0 for the unknown
    dim         numbers in an entity's vector; models of complex vectors have dim / 2 complex numbers, all real parts
                before the imaginary ones
    reciprocal  a relation has a second vector for queries about heads (Lacroix et al., arXiv 1806.07297); without it
                its one vector is inverted
    sparse      gradients and updates of the entities in use alone

    A model defines how a relation is inverted (`inverse`), how it changes an entity's vector (`query`), and sets
    `metric` where its score is margin - distance and no product.
    """

    metric: Metric | None = None
    margin: float = 0.0

    def __init__(
        self, num_entities: int | None, num_relations: int | None, dim: int, width: int, reciprocal: bool, sparse: bool
    ) -> None:
        if num_entities is None or num_relations is None:
            raise ConfigError(f"{type(self).__name__} needs num_entities and num_relations; the task infers them")
        if self.paired and dim % 2:
            raise ConfigError(f"model.dim={dim}: {type(self).__name__} has complex vectors; dim must be even")
        self.num_entities, self.num_relations, self.dim = num_entities, num_relations, dim
        self.reciprocal = reciprocal
        self.entities = Embedding(num_entities + 1, dim, sparse=sparse)
        self.relations = Embedding(num_relations * (2 if reciprocal else 1) + 1, width)

    paired: ClassVar[bool] = False
    """Whether vectors are complex."""

    def draw(self, bound: float) -> None:
        """Initial values of all vectors: U(-bound, bound)."""
        for table in (self.entities, self.relations):
            init.uniform_(table.weight, -bound, bound)

    # -- what a model defines ------------------------------------------------------------------------------------------
    def inverse(self, relation: Tensor, sign: Tensor) -> Tensor:
        """The vectors [N, width] of relations, of the inverse ones where sign [N, 1] is -1."""
        raise NotImplementedError(f"{type(self).__name__} must define inverse")

    def query(self, entity: Tensor, relation: Tensor) -> Tensor:
        """The vectors of queries [N, dim], from those of their entities and relations."""
        raise NotImplementedError(f"{type(self).__name__} must define query")

    # -- what the task asks --------------------------------------------------------------------------------------------
    def vectors(self, query: Query) -> tuple[Tensor, Tensor]:
        """Those of the entities [N, dim], and of the relations as the queries' directions have them [N, width]."""
        entity, relation, inverse = query
        if self.reciprocal:
            row = relation + inverse * pdl.astype(pdl.greater(relation, 0), pdl.int64) * self.num_relations
            return self.entities(entity), self.relations(row)
        sign = pdl.expand_dims(1.0 - 2.0 * pdl.astype(inverse, pdl.float32), axis=1)
        return self.entities(entity), self.inverse(self.relations(relation), sign)

    def score(self, query: Tensor, answers: Tensor) -> Tensor:
        """The score of one answer [N, dim] to each query [N, dim]: [N]."""
        if self.metric is None:
            return (query * answers).sum(axis=-1)
        u = query - answers
        if self.metric == "l1":
            return self.margin - pdl.abs(u).sum(axis=-1)
        squares = pdl.square(u)
        if self.metric == "l2":
            return self.margin - _root(squares.sum(axis=-1))
        half = self.dim // 2
        return self.margin - _root(squares[:, :half] + squares[:, half:]).sum(axis=-1)

    def score_all(self, query: Tensor, answers: Tensor) -> Tensor:
        """The scores of all these answers [K, dim] to each query [N, dim]: [N, K]."""
        if self.metric is None:
            return pdl.matmul(query, pdl.swapaxes(answers, 0, 1))
        return self.margin - pdl.cdist(query, answers, metric=self.metric)

    def moduli(self, vectors: Tensor) -> Tensor:
        """The sizes of the numbers of vectors: [N, width] -> [N, width], or half as many of complex ones."""
        if not self.paired:
            return pdl.abs(vectors)
        half = vectors.shape[-1] // 2
        return _root(pdl.square(vectors[:, :half]) + pdl.square(vectors[:, half:]))

    def forward(self, entity: Tensor, relation: Tensor, inverse: Tensor) -> Tensor:
        """Scores of all entities: [N, num_entities + 1]; that of column 0 means nothing."""
        return self.score_all(self.query(*self.vectors((entity, relation, inverse))), self.entities.weight)


def _root(squares: Tensor) -> Tensor:
    """The square root, with a gradient of 0 at 0."""
    return pdl.sqrt(pdl.maximum(squares, 1e-30))


def complex_product(a: Tensor, b_real: Tensor, b_imaginary: Tensor) -> Tensor:
    """a b for complex rows: a [N, 2 C], the parts of b [N, C] -> [N, 2 C]."""
    half = a.shape[-1] // 2
    real, imaginary = a[:, :half], a[:, half:]
    return pdl.concat(
        [real * b_real - imaginary * b_imaginary, real * b_imaginary + imaginary * b_real], axis=1
    )  # fmt: skip
