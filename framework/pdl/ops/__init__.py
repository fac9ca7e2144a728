"""Every op of pdl, as public functions; one file a family, one class an op (`pdl.ops.base.Op`).

Where a family and a function share a name (`sort`, `norm`, `embedding`), ``pdl.ops.sort`` is the function; the names of
the file come from ``from pdl.ops.sort import ...``.
"""

import typing as _typing
from types import FunctionType as _FunctionType
from types import ModuleType as _ModuleType

from pdl.habits import missing_from as _missing_from
from pdl.ops import chain, cut, epilogue, fourier, inference, methods, moments, nbits, packed  # noqa: F401 - ops of programs and pdl.fft
from pdl.ops.activation import *
from pdl.ops.attention import *
from pdl.ops.batchnorm import *
from pdl.ops.boxes import *
from pdl.ops.broadcast import *
from pdl.ops.cached import *
from pdl.ops.cast import *
from pdl.ops.classifier import *
from pdl.ops.conv import *
from pdl.ops.create import *
from pdl.ops.crf import *
from pdl.ops.cross_entropy import *
from pdl.ops.csr import *
from pdl.ops.ctc import *
from pdl.ops.decompose import *
from pdl.ops.deform import *
from pdl.ops.distance import *
from pdl.ops.dropout import *
from pdl.ops.dtypes import *
from pdl.ops.einsum import *
from pdl.ops.elementwise import *
from pdl.ops.embedding import *
from pdl.ops.focal import *
from pdl.ops.index import *
from pdl.ops.layer_norm import *
from pdl.ops.linalg import *
from pdl.ops.logic import *
from pdl.ops.loss import *
from pdl.ops.norm import *
from pdl.ops.norm_conv import *
from pdl.ops.pad import *
from pdl.ops.pairs import *
from pdl.ops.pool import *
from pdl.ops.precision import *
from pdl.ops.quant import *
from pdl.ops.reduce import *
from pdl.ops.regions import *
from pdl.ops.relative import *
from pdl.ops.resize import *
from pdl.ops.rnn import *
from pdl.ops.rotary import *
from pdl.ops.running import *
from pdl.ops.segment import *
from pdl.ops.shape import *
from pdl.ops.softmax import *
from pdl.ops.sort import *
from pdl.ops.sparse import *
from pdl.ops.spectral import *
from pdl.ops.words import explained as _explained

if not _typing.TYPE_CHECKING:  # who takes what the families list
    __all__ = [name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _ModuleType)]
    for _name in __all__:
        if isinstance(globals()[_name], _FunctionType):
            globals()[_name] = _explained(globals()[_name])
    __getattr__ = _missing_from(__name__)
