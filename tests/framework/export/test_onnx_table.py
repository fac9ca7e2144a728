"""Every op as ONNX, from the op tables: the file passes the checker and ONNX Runtime computes what pdl does, or the op
is refused for a reason that stands in one table.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdl.errors import UsageError
from pdl.export.onnx import missing, to_onnx
from pdl.export.onnx.no_form import NO_FORM, reason_of, unwritten
from pdl.export.onnx.registry import emitter_of
from pdl.ops.base import OPS
from pdl.testing import Case
from pdl.testing.ops import OPSETS, onnx_programs
from tests.framework.ops.test_ops import every_traceable_case

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

#: faults that are not of the op, but of its setting
SETTINGS = re.compile(
    r"needs opset \d+|complex\d+ has no operators in ONNX|Python needs the values of a tensor|ONNX has no .* of boxes"
)


@every_traceable_case
def test_case_as_onnx(case: Case, tmp_path: Path) -> None:
    for program, given in onnx_programs(case):
        for opset in OPSETS:
            faults = missing(program, opset=opset)
            for what, where in faults:
                kind = OPS.get(what.split(":")[0])
                assert (kind and reason_of(kind)) or SETTINGS.search(what) or "belongs to" in what, what
                assert where.endswith(tuple("0123456789")) or "complex" in what, "a fault names its line"
            if faults:
                with pytest.raises(UsageError, match=re.escape(faults[0][0])):
                    to_onnx(program, tmp_path / "refused.onnx", opset=opset)
                continue
            made = to_onnx(program, tmp_path / "case.onnx", opset=opset, samples=[given])
            assert made.difference is not None
            assert made.difference <= 2e-5


def test_every_op_is_written_or_has_a_reason() -> None:
    silent = [name for name, kind in OPS.items() if "." not in name and unwritten(kind)]
    assert not silent, "neither an emitter nor a reason in NO_FORM"
    stale = {name for name in NO_FORM if name not in OPS or emitter_of(OPS[name]) is not None}
    assert not stale, f"NO_FORM names ops that do not exist or are written: {sorted(stale)}"
