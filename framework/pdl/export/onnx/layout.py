"""Which ops read images, and which keep the layout of what they read: the input of a model that reaches one of the
former through the latter becomes [N, C, H, W].
"""

from __future__ import annotations

from typing import Any

from pdl.export.onnx.emit_math import BODIES
from pdl.ops.base import Identity
from pdl.ops.batchnorm import BatchNormEval
from pdl.ops.conv import _Window
from pdl.ops.norm import GroupNorm
from pdl.ops.norm_conv import NormConv
from pdl.ops.pad import Pad
from pdl.ops.pool import _Pool
from pdl.ops.quant import DequantizeLinear, QuantizeLinear
from pdl.ops.resize import Resize
from pdl.ops.shape import Concat, Flip, Roll

WANTS: tuple[type[Any], ...] = (_Window, _Pool, GroupNorm, BatchNormEval, NormConv, Resize)
KEEPS: tuple[type[Any], ...] = (*BODIES, Identity, Pad, Flip, Concat, Roll, QuantizeLinear, DequantizeLinear)
