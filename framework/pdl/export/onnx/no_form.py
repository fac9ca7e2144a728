"""Ops that are not written, and why: the message of a refused export says it."""

from __future__ import annotations

from pdl.ops.base import OPS

_COMPLEX = "ONNX has no operators on complex numbers"
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
    "CircuitExpectation": "ONNX has no quantum circuits",
    "CircuitState": "ONNX has no quantum circuits",
    "PauliWords": "ONNX has no quantum circuits",
    "Complex": _COMPLEX,
    "Conj": _COMPLEX,
    "ConvDw": _UPDATE,
    "CrossEntropy": _LOSS,
    "CtcLoss": _LOSS,
    "Dropout": _RANDOM,
    "DropoutMask": _RANDOM,
    "EigH": _LAPACK,
    "EmbeddingGradRows": _UPDATE,
    "Erfinv": "ONNX has no inverse of Erf",
    "Imag": _COMPLEX,
    "Inv": _LAPACK,
    "Noise": _RANDOM,
    "Places": _UPDATE,
    "PutItem": _UPDATE,
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
    "Unique": "its outputs are sorted values with counts, whose sizes a program cannot hold",
}


def reason_of(name: str) -> str:
    """Why an op is not written; "" where a setting of it is at fault or it is not known here."""
    if name.endswith("Grad"):
        return "a gradient, which belongs to training"
    if name in OPS and OPS[name].__module__ in PASSES:
        return "made by passes of pdl's own runtime; export the program that they were run on"
    return NO_FORM.get(name, "")
