"""Ops that are not written, and why: the message of a refused export says it."""

from __future__ import annotations

from pdl.export.onnx.registry import emitter_of
from pdl.ops.base import Fused, Op, not_exported

_COMPLEX = "ONNX has no operators on complex numbers"
_CRF = "ONNX has no Viterbi; export the net up to its emissions (of taggers: --form emissions)"
_LAPACK = "ONNX has no such operator on matrices"
_RANDOM = "draws random numbers, which belongs to training; trace the model in evaluation mode (.eval())"
_LOSS = "a loss, which belongs to training"
_UPDATE = "part of training"
#: modules of ops that passes of the runtime write
PASSES = ("pdl.ops.inference", "pdl.ops.packed", "pdl.ops.chain")

#: op class -> reason; gradients (classes that end in "Grad") have one reason for all, see `reason_of`
NO_FORM: dict[str, str] = {
    "AddAt": _UPDATE,
    "AddRows": _UPDATE,
    "Angle": _COMPLEX,
    "Cholesky": _LAPACK,
    "Complex": _COMPLEX,
    "Conj": _COMPLEX,
    "ConvDw": _UPDATE,
    "CrossEntropy": _LOSS,
    **dict.fromkeys(("CrfDecode", "CrfMarginals"), _CRF),
    "CrfLoss": _LOSS,
    "CtcLoss": _LOSS,
    "Dropout": _RANDOM,
    "DropoutMask": _RANDOM,
    "EigH": _LAPACK,
    "EmbeddingGradRows": _UPDATE,
    "Erfinv": "ONNX has no inverse of Erf",
    **dict.fromkeys(("FFT", "InverseRealFFT", "OverlapAdd", "RealFFT", "STFT"), _COMPLEX),
    "FullQR": _LAPACK,
    "FullSVD": _LAPACK,
    "Imag": _COMPLEX,
    "Inv": _LAPACK,
    "JoinMoments": _UPDATE,
    **dict.fromkeys(("JoinParts", "OwnRows", "SpreadOver", "SumOver", "TakePart"), _UPDATE),
    "LinearNBits": "weights of few bits in panels for pdl's own runtime; export the net in floats instead",
    "Nextafter": "ONNX has no operator on the bits of floats",
    "Noise": _RANDOM,
    "NonMaxSuppression": "how many boxes it keeps depends on values; select_boxes has fixed sizes",
    "Pinv": _LAPACK,
    "Places": _UPDATE,
    "PutItem": _UPDATE,
    **dict.fromkeys(("ServedEmbedding", "ServedGradRows"), _UPDATE),
    **dict.fromkeys(
        (
            "QAdd",
            "QAvgPool",
            "QConv",
            "QConvPacked",
            "QGlobalMean",
            "QLinear",
            "QLinearPacked",
            "QMap",
            "QMaxPool",
        ),
        "made by passes of pdl's own runtime; export the program of QuantizeLinear and DequantizeLinear instead",
    ),
    "QR": _LAPACK,
    "Real": _COMPLEX,
    "RunningAverage": _UPDATE,
    "SVD": _LAPACK,
    "Seed": _RANDOM,
    "SoftCrossEntropy": _LOSS,
    "Solve": _LAPACK,
    "SumAcross": _UPDATE,
    "Unique": "its outputs are sorted values with counts, whose sizes a program cannot hold",
}


def reason_of(kind: type[Op]) -> str:
    """Why an op is not written; "" where a setting of it is at fault or it is not known here."""
    if isinstance(kind.onnx, not_exported):
        return kind.onnx.reason
    if kind.__name__.endswith("Grad"):
        return "a gradient, which belongs to training"
    if kind.__module__ in PASSES:
        return "made by passes of pdl's own runtime; export the program that they were run on"
    if "." in kind.op_name and unwritten(kind):
        return "it brings no ONNX form: its class may define `onnx`, or `compose` as a `Fused` op"
    return NO_FORM.get(kind.op_name, "")


def unwritten(kind: type[Op]) -> bool:
    """Whether nothing says how an op is written, nor why it is not."""
    excluded = kind.op_name in NO_FORM or kind.__name__.endswith("Grad") or kind.__module__ in PASSES
    return not (excluded or issubclass(kind, Fused) or kind.onnx is not None or emitter_of(kind))
