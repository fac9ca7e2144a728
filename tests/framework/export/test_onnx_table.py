"""Every op as ONNX, from the op tables: the file passes the checker and ONNX Runtime computes what pdl does, or the op
is refused for a reason that stands in one table.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.export.onnx import missing, to_onnx
from pdl.export.onnx.no_form import NO_FORM, reason_of
from pdl.export.onnx.registry import emitter_of
from pdl.ops.base import OPS, Fused, Spec
from pdl.program import Program, trace
from tests.framework.ops.case import Case
from tests.framework.ops.test_ops import every_traceable_case

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

#: the oldest, the default, and one where more operators exist
OPSETS = (13, 17, 23)
#: faults that are not of the op, but of its setting
SETTINGS = re.compile(r"needs opset \d+|complex\d+ has no operators in ONNX|Python needs the values of a tensor")


def programs(case: Case) -> list[tuple[Program, list[np.ndarray]]]:
    """The case with all inputs given at run time, and with all but the first constant; float32."""
    tensors = case.tensors(np.float32)
    present = [i for i, t in enumerate(tensors) if t is not None]
    found = []
    for free in [present] if len(present) < 2 else [present, present[:1]]:

        def function(*xs: object, free: list[int] = free) -> object:
            full = list(tensors)
            for i, x in zip(free, xs, strict=True):
                full[i] = x  # type: ignore[assignment, call-overload]
            return case.call(*full)

        given = [tensors[i].data for i in free]  # type: ignore[union-attr]
        found.append((trace(function, *[Spec(a.shape, a.dtype) for a in given]), given))
    return found


@every_traceable_case
def test_case_as_onnx(case: Case, tmp_path: Path) -> None:
    for program, given in programs(case):
        for opset in OPSETS:
            faults = missing(program, opset=opset)
            for what, where in faults:
                assert reason_of(what.split(":")[0]) or SETTINGS.search(what) or "belongs to" in what, what
                assert where.endswith(tuple("0123456789")) or "complex" in what, "a fault names its line"
            if faults:
                with pytest.raises(UsageError, match=re.escape(faults[0][0])):
                    to_onnx(program, tmp_path / "refused.onnx", opset=opset)
                continue
            made = to_onnx(program, tmp_path / "case.onnx", opset=opset, samples=[given])
            assert made.difference is not None
            assert made.difference <= 2e-5


def test_every_op_is_written_or_has_a_reason() -> None:
    for name, kind in OPS.items():
        if emitter_of(kind) is None and not reason_of(name):
            assert issubclass(kind, Fused), f"{name} has neither an emitter nor a reason in NO_FORM"
    stale = {name for name in NO_FORM if name not in OPS or emitter_of(OPS[name]) is not None}
    assert not stale, f"NO_FORM names ops that do not exist or are written: {sorted(stale)}"
