"""What a table of ops leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pdl import packages
from pdl.ops.base import OPS, Fused, Op
from pdl.ops.listeners import observed
from pdl.runtime.required import declaration
from pdl.tensor import Tensor
from pdl.testing.case import Case
from pdl.testing.ops import as_tuple


def ops_run_by(cases: Iterable[Case]) -> set[str]:
    """The names of the ops that cases run, forward and backward, and of those that their fused ops are composed of."""
    seen: set[str] = set()

    def observe(op: Op, ins: tuple[Any, ...], _outs: tuple[Any, ...]) -> None:
        new = op.op_name not in seen
        seen.add(op.op_name)
        if new and isinstance(op, Fused):  # the ops that only gradients of gradients meet
            op.compose(*[None if x is None else Tensor(x) for x in ins])

    with observed(observe):
        for case in cases:
            for y in as_tuple(case.call(*case.tensors(grad=True))):
                if y.requires_grad:
                    y.backward(Tensor(np.ones(y.shape, y.dtype)), retain_graph=True)
    return seen


def op_faults(package: str, cases: Iterable[Case]) -> list[str]:
    """What the ops of a package lack, as sentences: a case that runs them, the entry point that bundles find them by
    (gradients need none), an ONNX form or a reason why there is none."""
    from pdl.export.onnx.no_form import unwritten

    seen, found = ops_run_by(cases), []
    for name, kind in OPS.items():
        if name.partition(".")[0] != package or "." not in name:
            continue
        if name not in seen:
            found.append(f"{name}: no case runs it")
        if not name.endswith("Grad") and packages.provided(packages.OPS, name) is None:
            found.append(f"{name}: no bundle can hold it; its distribution lacks {declaration(kind, name)}")
        if unwritten(kind):
            found.append(f"{name}: neither compose nor onnx; say how it is written, or onnx = not_exported('reason')")
    return found
