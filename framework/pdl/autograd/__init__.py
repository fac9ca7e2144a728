"""Gradients: the tape, `backward`, `grad`, the finite-difference check and the NaN check."""

from pdl.autograd.anomaly import detect_anomaly
from pdl.autograd.gradcheck import gradcheck, gradgradcheck
from pdl.autograd.tape import Node, backward, bind, grad
from pdl.tensor import is_grad_enabled, no_grad, set_grad_enabled

bind()

__all__ = [
    "Node", "backward", "detect_anomaly", "grad", "gradcheck", "gradgradcheck", "is_grad_enabled", "no_grad",
    "set_grad_enabled",
]  # fmt: skip
