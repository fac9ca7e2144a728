"""A net that writes token by token as two ONNX files: what is computed once, and one step with its caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.decoder_state import Kept, KeyValues
from pdl.dtype import Array
from pdl.export.onnx.model import DEFAULT, Report, to_onnx
from pdl.program import Program
from pdl.runtime.decoding.options import Writing
from pdl.runtime.decoding.programs import Programs
from pdl.runtime.decoding.running import Running

ROOM = 5
"""Positions that the caches of samples have room for."""


def decoder_to_onnx(
    encode: Program | None,
    step: Program,
    kinds: Sequence[Kept],
    path: str | Path,
    *,
    writing: Writing | None = None,
    samples: Sequence[Mapping[str, Array]] = (),
    opset: int = DEFAULT,
    metadata: Mapping[str, Any] | None = None,
) -> list[Report]:
    """Write NAME_step.onnx and, where sources are read, NAME_encode.onnx for `path` NAME.onnx; the reports, that of the
    step last. Both are compared with ONNX Runtime on `samples`, inputs by name each. `writing` goes into the metadata:
    which tokens answers begin behind, and end with.

    The step takes tokens int64 [rows, steps], counts and lengths int64 [rows], state.0, state.1, ... and memory.0, ...
    (what encode gives), and gives scores [rows, V] and next.0, next.1, ..., the new states: feed them back, with counts
    added to lengths. Caches are arrays [rows, room, width] of any room that lengths + counts do not exceed.
    """
    target = Path(path)
    made, memory = [], [] if encode is None else [f"memory.{i}" for i in range(len(encode.outputs))]
    if encode is not None:
        to = target.with_name(f"{target.stem}_encode.onnx")
        names = [v.name or f"x{i}" for i, v in enumerate(encode.inputs)]
        common: dict[str, Any] = {"opset": opset, "metadata": metadata, "inputs": names, "outputs": memory}
        read = [[each[name] for name in names] for each in samples]
        made.append(to_onnx(encode, to, samples=read, **common))
    states = [f"state.{i}" for i in range(len(kinds))]
    decoding, sources = Programs(encode, step, kinds), [] if encode is None else [v.name or "" for v in encode.inputs]
    begin = (list(writing.begin) if writing is not None else []) or [0]
    steps = [_step_sample(decoding, begin[0], [each[name] for name in sources]) for each in samples]
    if encode is None and not samples:
        steps = [_step_sample(decoding, begin[0], [])]
    to = target.with_name(f"{target.stem}_step.onnx")
    names = ["tokens", "counts", "lengths", *states, *memory]
    gives = ["scores", *(name.replace("state", "next") for name in states)]
    more = {"state": [_told(kind) for kind in kinds], **(metadata or {})}
    if writing is not None:
        more["writing"] = writing.to_dict()
    made.append(to_onnx(step, to, opset=opset, metadata=more, samples=steps, inputs=names, outputs=gives))
    return made


def _step_sample(decoding: Programs, begin: int, inputs: Sequence[Array]) -> list[Array]:
    """Inputs of a step behind a first one, so that states are not empty."""
    memory = decoding.encode(inputs)
    sources = len(memory[0]) if memory else 1
    run = Running(decoding, memory, sources, ROOM)
    tokens = np.full((sources, 1), begin, np.int64)
    run.step(tokens, np.ones(sources, np.int64))
    states = zip(decoding.kinds, run.state, strict=True)
    room = max(ROOM, int(run.lengths.max(initial=0)) + 2 + run.ahead)
    kept = [np.array(s[:, :room] if isinstance(kind, KeyValues) else s) for kind, s in states]
    return [np.repeat(tokens, 2, axis=1), np.full(sources, 2, np.int64), run.lengths, *kept, *map(np.array, memory)]


def _told(kind: Kept) -> str:
    """A state for people."""
    if isinstance(kind, KeyValues):
        first = "zeros" if kind.memory is None else f"memory.{kind.memory}, lengths memory.{kind.lengths}"
        room = "" if not kind.ahead else f"; room for {kind.ahead} more than lengths + counts"
        return f"keys or values [rows, room, {kind.width}], {first} at first{room}"
    return "replaced at every step, " + ("zeros at first" if kind.memory is None else f"memory.{kind.memory} at first")


__all__ = ["decoder_to_onnx"]
