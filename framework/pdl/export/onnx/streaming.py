"""The step of a net that is read chunk by chunk as an ONNX file, whose states go in and out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pdl.dtype import Array, as_dtype
from pdl.export.onnx.model import DEFAULT, Report, to_onnx
from pdl.export.stream import TracedStream

MOST = 3  # chunks of a sequence that are compared


def stream_to_onnx(
    stream: TracedStream,
    path: str | Path,
    *,
    names: tuple[str, str] = ("x", "y"),
    sequences: Sequence[Array] = (),
    opset: int = DEFAULT,
    metadata: Mapping[str, Any] | None = None,
) -> Report:
    """Write NAME_step.onnx for `path` NAME.onnx; it is compared with ONNX Runtime on chunks of `sequences` [T, ...].

    It takes `names[0]` float32 [1, window, ...], how many frames of the chunk are real, counts int64 [1], and state.0,
    state.1, ..., zeros at first; it gives `names[1]` of shape [1, steps, ...] and next.0, next.1, ..., the states of
    the next chunk. Chunk c begins with element c chunk shift - before, and elements that the sequence does not have
    are 0.
    The metadata `stream` says these numbers, and shape and dtype of each state.
    """
    framing, states = stream.framing, [f"state.{i}" for i in range(len(stream.kinds))]
    takes, gives = [names[0], "counts", *states], [names[1], *(each.replace("state", "next") for each in states)]
    told = {
        "framing": {**asdict(framing), "window": framing.window, "steps": framing.steps(framing.chunk)},
        "state": [
            {"name": name, "next": new, "shape": [1, *kind.shape], "dtype": as_dtype(kind.dtype).name, "first": 0}
            for name, new, kind in zip(states, gives[1:], stream.kinds, strict=True)
        ],
    }
    target = Path(path)
    to = target.with_name(f"{target.stem}_step.onnx")
    options: dict[str, Any] = {
        "opset": opset, "metadata": {**(metadata or {}), "stream": told}, "channels_first": False,
        "samples": [sample for each in sequences for sample in stream.inputs(each, MOST)],
    }  # fmt: skip
    return to_onnx(stream.step, to, inputs=takes, outputs=gives, **options)


__all__ = ["stream_to_onnx"]
