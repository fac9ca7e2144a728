"""Programs as ONNX files.

`to_onnx` writes a program that was traced in evaluation mode; `missing` says beforehand what cannot be written. How
each op is written stands in the modules emit_*.py; `registry.emits` adds more.
"""

from pdl.export.onnx.decoder import decoder_to_onnx
from pdl.export.onnx.model import DEFAULT, OLDEST, TOLERANCE, Port, Report, missing, to_onnx
from pdl.export.onnx.streaming import stream_to_onnx

__all__ = [
    "DEFAULT",
    "OLDEST",
    "TOLERANCE",
    "Port",
    "Report",
    "decoder_to_onnx",
    "missing",
    "stream_to_onnx",
    "to_onnx",
]
