"""The file against the program: both run on samples, ONNX Runtime here and pdl's own executor there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pdl.dtype import Array
from pdl.errors import CheckError, ShapeError
from pdl.program import Executable, Program, bind, specialise

if TYPE_CHECKING:
    from pdl.export.onnx.model import Report


def runtime_name() -> str:
    """ONNX Runtime and its version; "" where it is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return ""
    return f"onnxruntime {onnxruntime.__version__}"


Judge: TypeAlias = Callable[[int, Mapping[str, Array], Mapping[str, Array]], float]
"""How far the outputs by name of a sample (its number, ONNX Runtime's, the program's) are apart."""


def difference(
    report: Report, program: Program, samples: Sequence[Sequence[Array]], judge: Judge | None = None
) -> float:
    """The largest difference over samples: as `judge` says, by default the largest |a - b| over the larger of 1 and the
    largest |b|, b the program's output; infinite where shapes, or the places of NaN, differ.
    """
    session = _session(report)
    pairs = (_of_sample(session, report, program, list(arrays)) for arrays in samples)
    return max((judge(i, *pair) if judge else largest(*pair) for i, pair in enumerate(pairs)), default=0.0)


def largest(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> float:
    """The largest `distance` of several outputs."""
    return max(distance(found[name], y) for name, y in wanted.items())


def _session(report: Report) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(report.path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes share no base; a file that it cannot run has not been compared
        raise CheckError(f"{runtime_name()} does not run {report.path}: {error}") from error


def _of_sample(
    session: Any, report: Report, program: Program, arrays: list[Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs by name of ONNX Runtime and of the program, both in the program's layout."""
    if len(arrays) != len(report.inputs):
        raise ShapeError(f"a sample has {len(arrays)} arrays, the model {len(report.inputs)} inputs")
    feed = {p.name: np.asarray(p.of_program(a), order="C") for p, a in zip(report.inputs, arrays, strict=True)}
    taken = {port.name for port in session.get_inputs()}
    found = session.run([p.name for p in report.outputs], {k: v for k, v in feed.items() if k in taken})
    wanted = Executable(specialise(program, bind(program, [a.shape for a in arrays])))(*arrays)
    outputs = [y for y in wanted if y is not None]
    ours = {p.name: p.to_program(y) for p, y in zip(report.outputs, found, strict=True)}
    return ours, {p.name: y for p, y in zip(report.outputs, outputs, strict=True)}


def distance(found: Array, wanted: Array) -> float:
    """|found - wanted| at most, over the larger of 1 and the largest |wanted|."""
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.size:
        return 0.0
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    gap = np.where(same, 0.0, np.abs(a - b))
    scale = max(1.0, float(np.abs(b, where=np.isfinite(b), out=np.zeros_like(b)).max()))
    return float(np.nan_to_num(gap, nan=np.inf).max()) / scale
