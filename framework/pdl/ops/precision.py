"""Mixed precision: which ops run in bfloat16, which in float32, inside ``with pdl.autocast():``.

Weights stay float32; the cast of one to bfloat16 is a recorded op, so its gradient comes back in float32. A weight is
cast once in a block, however often it is used. Gradients run outside the block's rule: an op's gradient has the dtype
of its input.
After Micikevicius et al., arXiv 1710.03740, and Kalamkar et al., arXiv 1905.12322: bfloat16 has float32's range, so the
loss is not scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from pdl.dtype import DType, bfloat16, float32, float64
from pdl.errors import UsageError
from pdl.ops.base import Op
from pdl.ops.cast import astype
from pdl.tensor import Tensor, TensorLike, _Autocast, as_tensor, casting, is_grad_enabled

Inputs: TypeAlias = "tuple[Tensor | None, ...]"


class Casting:
    """One `autocast` block: what it does to the inputs of ops, and the weights it has cast."""

    def __init__(self) -> None:
        self.cache: dict[tuple[int, bool], tuple[Tensor, Tensor]] = {}

    def to(self, x: Tensor, dtype: DType) -> Tensor:
        """`x` in a dtype; a leaf that wants a gradient (a weight) is cast once."""
        if x.dtype == dtype:
            return x
        if not (x.requires_grad and x.is_leaf):
            return astype(x, dtype)
        key = (id(x), is_grad_enabled())
        if key not in self.cache:
            self.cache[key] = x, astype(x, dtype)  # x itself is kept, so that its id is not given to another
        return self.cache[key][1]

    def inputs(self, op: Op, ins: Inputs) -> Inputs:
        """The inputs of an op as its rule wants them."""
        rule = rule_of(op)
        return ins if rule is None else rule(self, ins)

    def meet(self, ins: Inputs) -> Inputs:
        """bfloat16 mixed with float32, for functions that bring their arguments to one dtype before they call an op."""
        return together(self, ins)


Rule: TypeAlias = "Callable[[Casting, Inputs], Inputs]"


def _all_to(cast: Casting, ins: Inputs, old: DType, new: DType) -> Inputs:
    return tuple([x if x is None or x.dtype != old else cast.to(x, new) for x in ins])


def _has(ins: Inputs, dtype: DType) -> bool:
    return any(x is not None and x.dtype == dtype for x in ins)


def narrow(cast: Casting, ins: Inputs) -> Inputs:
    """In bfloat16: products, where nearly all of the time goes. float64 stays as it is."""
    return ins if _has(ins, float64) else _all_to(cast, ins, float32, bfloat16)


def wide(cast: Casting, ins: Inputs) -> Inputs:
    """In float32: long sums, and functions that magnify an error of their input."""
    return _all_to(cast, ins, bfloat16, float32)


def together(cast: Casting, ins: Inputs) -> Inputs:
    """As the inputs are; where bfloat16 meets float32 (a bias, a residual), in bfloat16, but scalars in float32."""
    if not (_has(ins, bfloat16) and _has(ins, float32)) or _has(ins, float64):
        return ins
    scalars = all(x is None or x.ndim == 0 for x in ins)
    return wide(cast, ins) if scalars else narrow(cast, ins)


def widest(cast: Casting, ins: Inputs) -> Inputs:
    """As the inputs are; where bfloat16 meets float32, in float32: comparisons should not see rounded numbers."""
    return wide(cast, ins) if _has(ins, float32) else ins


def like_first(cast: Casting, ins: Inputs) -> Inputs:
    """Inputs of the first one's shape (a residual) take its dtype; parameters and statistics of a norm stay float32."""
    x = ins[0]
    if x is None or x.dtype not in (bfloat16, float32):
        return ins
    return tuple([y if y is None or y.shape != x.shape or y.dtype == float64 else cast.to(y, x.dtype) for y in ins])


def narrow_first(cast: Casting, ins: Inputs) -> Inputs:
    """The image in bfloat16; weights and statistics stay float32, the kernel widens what it loads."""
    return ins if ins[0] is None or ins[0].dtype != float32 else (cast.to(ins[0], bfloat16), *ins[1:])


#: the rule of every op; the last row needs none: one float input, float32 inside, for gradients only, on bytes,
#: or made by passes that run when types are settled
POLICY: dict[Rule | None, str] = {
    narrow: """
        Conv ConvDx ConvDw ConvStats ConvAct ConvThen MatMul Linear LinearAct LinearThen ScaledDotProductAttention""",
    narrow_first: "NormConv",
    wide: """
        Sum Mean Prod Norm LogSumExp CumSum CumProd LinearScan LogSoftmax CtcLoss CrfLoss CrfMarginals CrfDecode
        Recurrent LinearCrossEntropy RelativeAttention
        PairProducts CDist Exp Expm1 Log Log1P Log2 Log10 Pow Logaddexp LogSigmoid Softplus Reciprocal Rsqrt Hypot Atan2
        Sinh Cosh Tan Asin Acos Atan Asinh Acosh Atanh Erfinv Angle Complex
        Inv Det LogAbsDet Solve Cholesky QR FullQR EigH SVD FullSVD Pinv FFT RealFFT InverseRealFFT SpMM SDDMM
        STFT OverlapAdd Spectrogram MelSpectrogram
        GridSample RoiAlign RoiMax BoxIoU SelectBoxes NonMaxSuppression FocalLoss DistributionFocalLoss""",
    together: """
        Add Subtract Multiply Divide FloorDivide Remainder Copysign Nextafter Maximum Minimum Where Concat Stack Chain
        PutItem AddAt Scatter ScatterAdd""",
    widest: "Equal NotEqual Less LessEqual Greater GreaterEqual SearchSorted",
    like_first: "BatchNorm BatchNormEval LayerNorm AddLayerNorm GroupNorm",
    None: """
        AsType Real Imag Conj Identity Clone Reshape PermuteDims ExpandDims Squeeze BroadcastTo Flip Roll Pad Tril Triu
        OneHot DropoutMask Diagonal DiagEmbed GetItem GetAt Gather Steps Embedding BagNumbers SegmentSum SegmentTake
        ServedEmbedding
        SegmentExtremum SegmentCount RunningAverage ArgSort ArgTopK Unique NonZero ArgMax ArgMin Max Min AllTrue AnyTrue
        Resize Pick Place
        Negative Abs Sign Square Sqrt Sin Cos Tanh Erf Erfc Floor Ceil Trunc Round Clip
        Positive Signbit Isnan Isinf Isfinite LogicalNot LogicalAnd LogicalOr LogicalXor
        BitwiseInvert BitwiseAnd BitwiseOr BitwiseXor BitwiseLeftShift BitwiseRightShift
        Relu Hardtanh LeakyRelu Hardsigmoid Hardswish Elu Sigmoid Softsign Gelu GeluTanh Silu Mish
        MaxPool AdaptiveMaxPool AvgPool AdaptiveAvgPool Softmax CrossEntropy SoftCrossEntropy SumTo
        ActivationGrad SoftmaxGrad CtcLossGrad CrfLossGrad MaxPoolGrad AdaptiveMaxPoolGrad AvgPoolGrad PairProductsGrad
        CDistGrad AdaptiveAvgPoolGrad CrossEntropyGrad BatchNormGrad
        BatchNormEvalGrad LayerNormGrad GroupNormGrad ResizeGrad GridSampleGrad RoiAlignGrad BoxIoUGrad FocalLossGrad
        ScaledDotProductAttentionGrad RelativeAttentionGrad RecurrentGrad LinearCrossEntropyGrad EmbeddingGradRows
        ServedGradRows
        Places AddRows Seed Noise Dropout ActivatedDropout ActivatedDropoutGrad AddLayerNormGrad SoftCrossEntropyGrad
        DistributionFocalLossGrad
        SpMMExtremum SpMMExtremumXGrad SpMMExtremumValueGrad EdgeSoftmax EdgeSoftmaxGrad InverseSizes
        TakeEnds TakeEndsGrad Rotate CachedAttention LinearNBits
        Positions Moments MomentsGrad JoinMoments SumAcross SumOver SpreadOver JoinParts TakePart OwnRows
        NormConvGrad PackedConv PackedLinear ExpandDepthwise QuantizeLinear DequantizeLinear
        QConv QConvPacked QLinear QLinearPacked QAdd QMap QMaxPool QAvgPool QGlobalMean""",
}
RULES: dict[str, Rule] = {name: rule for rule, names in POLICY.items() if rule is not None for name in names.split()}
_BY_NAME: dict[str, Rule] = {rule.__name__: rule for rule in POLICY if rule is not None}


def rule_of(op: Op) -> Rule | None:
    """What `autocast` does to the inputs of an op: what `POLICY` says, or, of an op from outside of pdl, it itself."""
    return RULES.get(op.op_name) or _BY_NAME.get(op.autocast)


@contextmanager
def autocast(dtype: Any = "bfloat16") -> Iterator[None]:
    """Run products in bfloat16 and delicate ops in float32 inside the block, op by op after `POLICY`; this thread
    only.

    ``with pdl.autocast(): loss = model(x)`` and then ``loss.backward()``. `dtype` "float32" switches an outer block
    off.
    """
    name = getattr(dtype, "name", dtype)
    if name not in ("bfloat16", "float32"):
        raise UsageError(f"autocast: dtype is {name!r}; expected 'bfloat16', or 'float32' to switch it off")
    with casting(Casting() if name == "bfloat16" else None):
        yield


def in_float32(*values: TensorLike) -> tuple[Tensor, ...]:
    """bfloat16 tensors as float32 inside an `autocast` block (losses begin with it); outside of one, as they are."""
    tensors = tuple([as_tensor(v) for v in values])
    return tensors if _Autocast.active is None else wide(_Autocast.active, tensors)  # type: ignore[return-value]


def in_product(*values: Any) -> Inputs:
    """float32 tensors (None stays None) as a product takes them inside an `autocast` block; outside, as they are.

    For functions that look at the dtypes of their arguments before they call the op.
    """
    return values if _Autocast.active is None else narrow(_Autocast.active, values)


def in_full(*values: Any) -> Inputs:
    """bfloat16 tensors in float32 inside an `autocast` block, as `in_product` the other way round."""
    return values if _Autocast.active is None else wide(_Autocast.active, values)


__all__ = ["autocast"]
