"""Every op of pdl, as public functions; one file a family, one class an op (`pdl.ops.base.Op`).

Where a family and a function share a name (`sort`, `norm`, `embedding`), ``pdl.ops.sort`` is the function; the names of
the file come from ``from pdl.ops.sort import ...``.
"""

from pdl.ops import activation as _activation
from pdl.ops import attention as _attention
from pdl.ops import batchnorm as _batchnorm
from pdl.ops import broadcast as _broadcast
from pdl.ops import cast as _cast
from pdl.ops import chain as _chain  # noqa: F401 - an op that inference passes make
from pdl.ops import classifier as _classifier
from pdl.ops import conv as _conv
from pdl.ops import create as _create
from pdl.ops import cross_entropy as _cross_entropy
from pdl.ops import csr as _csr
from pdl.ops import ctc as _ctc
from pdl.ops import decompose as _decompose
from pdl.ops import distance as _distance
from pdl.ops import dropout as _dropout
from pdl.ops import einsum as _einsum
from pdl.ops import elementwise as _elementwise
from pdl.ops import embedding as _embedding
from pdl.ops import epilogue as _epilogue  # noqa: F401 - ops that programs fuse others into
from pdl.ops import index as _index
from pdl.ops import inference as _inference  # noqa: F401 - ops that inference passes make
from pdl.ops import layer_norm as _layer_norm
from pdl.ops import linalg as _linalg
from pdl.ops import logic as _logic
from pdl.ops import loss as _loss
from pdl.ops import methods as _methods  # noqa: F401 - binds the operators and methods of Tensor
from pdl.ops import norm as _norm
from pdl.ops import norm_conv as _norm_conv
from pdl.ops import packed as _packed  # noqa: F401 - ops that inference passes make
from pdl.ops import pad as _pad
from pdl.ops import pairs as _pairs
from pdl.ops import pool as _pool
from pdl.ops import precision as _precision
from pdl.ops import quant as _quant
from pdl.ops import reduce as _reduce
from pdl.ops import resize as _resize
from pdl.ops import rnn as _rnn
from pdl.ops import segment as _segment
from pdl.ops import shape as _shape
from pdl.ops import softmax as _softmax
from pdl.ops import sort as _sort
from pdl.ops import sparse as _sparse

_FAMILIES = (
    _activation, _attention, _broadcast, _cast, _classifier, _conv, _create, _cross_entropy, _csr, _ctc,
    _decompose, _distance, _dropout, _einsum, _elementwise, _embedding, _index, _layer_norm, _linalg, _logic, _loss,
    _batchnorm, _norm, _norm_conv, _pad, _pairs, _pool, _precision, _quant, _reduce, _resize, _rnn,
    _segment, _shape, _softmax, _sort, _sparse,
)  # fmt: skip

from pdl.ops.activation import *  # noqa: E402, F403
from pdl.ops.attention import *  # noqa: E402, F403
from pdl.ops.batchnorm import *  # noqa: E402, F403
from pdl.ops.broadcast import *  # noqa: E402, F403
from pdl.ops.cast import *  # noqa: E402, F403
from pdl.ops.classifier import *  # noqa: E402, F403
from pdl.ops.conv import *  # noqa: E402, F403
from pdl.ops.create import *  # noqa: E402, F403
from pdl.ops.cross_entropy import *  # noqa: E402, F403
from pdl.ops.csr import *  # noqa: E402, F403
from pdl.ops.ctc import *  # noqa: E402, F403
from pdl.ops.decompose import *  # noqa: E402, F403
from pdl.ops.distance import *  # noqa: E402, F403
from pdl.ops.dropout import *  # noqa: E402, F403
from pdl.ops.einsum import *  # noqa: E402, F403
from pdl.ops.elementwise import *  # noqa: E402, F403
from pdl.ops.embedding import *  # noqa: E402, F403
from pdl.ops.index import *  # noqa: E402, F403
from pdl.ops.layer_norm import *  # noqa: E402, F403
from pdl.ops.linalg import *  # noqa: E402, F403
from pdl.ops.logic import *  # noqa: E402, F403
from pdl.ops.loss import *  # noqa: E402, F403
from pdl.ops.norm import *  # noqa: E402, F403
from pdl.ops.norm_conv import *  # noqa: E402, F403
from pdl.ops.pad import *  # noqa: E402, F403
from pdl.ops.pairs import *  # noqa: E402, F403
from pdl.ops.pool import *  # noqa: E402, F403
from pdl.ops.precision import *  # noqa: E402, F403
from pdl.ops.quant import *  # noqa: E402, F403
from pdl.ops.reduce import *  # noqa: E402, F403
from pdl.ops.resize import *  # noqa: E402, F403
from pdl.ops.rnn import *  # noqa: E402, F403
from pdl.ops.segment import *  # noqa: E402, F403
from pdl.ops.shape import *  # noqa: E402, F403
from pdl.ops.softmax import *  # noqa: E402, F403
from pdl.ops.sort import *  # noqa: E402, F403
from pdl.ops.sparse import *  # noqa: E402, F403

__all__: list[str] = [name for family in _FAMILIES for name in family.__all__]
