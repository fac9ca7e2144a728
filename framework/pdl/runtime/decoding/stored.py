"""A decoder in program.json, and back: nothing of it runs before its programs fit each other and what they are told.

{"format": 1, "kind": "decoder", "inputs": ["tokens"], "outputs": ["tokens", "scores", "ended"],
 "encode": {...} or null, "step": {...},
 "state": [{"key_values": 64, ...}, {"carried": [64], "memory": 0, ...}, ...],
 "writing": {"ends": [2], "begin": [1], "prompt": null, "pad": 0, "options": {"beams": 4}}}
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from pdl.decoder_state import Carried, Kept, KeyValues, first_lengths
from pdl.dims import Dim, same
from pdl.dtype import ALL, Array, int64, is_differentiable
from pdl.errors import PdlError
from pdl.ops.base import Spec
from pdl.program import Program
from pdl.program.ir import is_state, show_spec
from pdl.runtime.checked import program_of
from pdl.runtime.decoding.options import OUTPUTS, Writing
from pdl.runtime.decoding.programs import FIRST
from pdl.runtime.strict import check, check_keys, fault

MOST_STATES = 4096
MOST_AHEAD = 64
MOST_CARRIED = 1 << 26  # elements of a state of a row
_WHERE = "program.json"


def content_of(
    encode: Program | None, step: Program, kinds: Sequence[Kept], writing: Writing, inputs: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """program.json and the arrays of both programs; what both read stands in the file once."""
    programs = {"step": step} if encode is None else {"encode": encode, "step": step}
    stored, arrays = stored_together(programs)
    state = [kind_to_dict(kind) for kind in kinds]
    more = {"inputs": list(inputs), "outputs": list(OUTPUTS), "state": state, "writing": writing.to_dict()}
    return {"kind": "decoder", "encode": None, **stored, **more}, arrays


def stored_together(programs: Mapping[str, Program]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Programs by name as plain values, and the arrays of all of them by name; weights that several read, and
    constants that are equal, stand there once."""
    arrays: dict[str, Array] = {}
    known: dict[Hashable, str] = {}
    stored: dict[str, Any] = {}
    for part, program in programs.items():
        program = program.copy()
        names, own = program.names(), set[str]()
        for value in program.captures:
            assert value.tensor is not None
            key = id(value.tensor) if is_state(value.tensor) else _content(value.tensor._data)
            name = known.get(key)
            if name is None or name in own:  # names are of one value each in a program
                name = names[value] if names[value] not in arrays else f"{part}.{names[value]}"
                known[key] = name
            own.add(name)
            value.name = name
            arrays[name] = value.tensor._data
        stored[part] = program.to_dict()
    return stored, arrays


def _content(array: Array) -> Hashable:
    return array.dtype, array.shape, sha256(array.tobytes()).digest()


def read(
    stored: Mapping[str, Any], weights: Mapping[str, Array], source: str
) -> tuple[Program | None, Program, tuple[Kept, ...], Writing]:
    """The programs and settings of a decoder, verified; DataError where anything is wrong."""
    texts = [*stored["inputs"], *stored["outputs"]]
    check(all(isinstance(each, str) for each in texts), source, _WHERE, "a name that is no text")
    check(stored["outputs"] == list(OUTPUTS), source, _WHERE, f"outputs must be {', '.join(OUTPUTS)}")
    check(len(stored["state"]) <= MOST_STATES, source, _WHERE, f"{len(stored['state'])} states, limit {MOST_STATES}")
    kinds = tuple(kind_from_dict(each, source) for each in stored["state"])
    try:
        first_lengths(kinds)
    except PdlError as error:
        raise fault(source, f"{_WHERE}: state", str(error)) from None
    try:
        writing = Writing.from_dict(stored["writing"])
    except (PdlError, TypeError) as error:
        raise fault(source, f"{_WHERE}: writing", str(error)) from None
    parts = [each for each in (stored["encode"], stored["step"]) if each is not None]
    check_all_read(parts, weights, source)
    encode = None if stored["encode"] is None else one_of(stored["encode"], weights, source)
    step = one_of(stored["step"], weights, source)
    _check_fit(encode, step, kinds, writing, stored["inputs"], source)
    return encode, step, kinds, writing


def check_all_read(parts: Sequence[Any], weights: Mapping[str, Array], source: str) -> None:
    """DataError for weights that none of several programs reads."""
    used = {name for part in parts for name in _captured(part, source)}
    unused = sorted(weights.keys() - used)
    check(not unused, source, "weights.safetensors", f"holds {unused[:3]}, which no program reads")


def one_of(part: Any, weights: Mapping[str, Array], source: str) -> Program:
    """One of several programs of a bundle, verified, with its share of the weights."""
    own = _captured(part, source)
    return program_of(part, {name: weights[name] for name in own if name in weights}, source)


def _captured(part: Any, source: str) -> list[str]:
    """The names of a program's weights."""
    captures: Any = part.get("captures") if isinstance(part, dict) else None
    good = isinstance(captures, list) and all(isinstance(c, dict) and isinstance(c.get("name"), str) for c in captures)
    check(good, source, _WHERE, "its captures are not a list of named values")
    return [c["name"] for c in captures]


def _check_fit(
    encode: Program | None, step: Program, kinds: Sequence[Kept], writing: Writing, inputs: Sequence[str], source: str
) -> None:
    """DataError unless the programs fit each other: what encode makes is what step takes, and so are states."""
    own = [name for name in inputs if name != writing.prompt]
    good = len(set(inputs)) == len(inputs) and len(own) + (writing.prompt is not None) == len(inputs)
    check(good and inputs, source, f"{_WHERE}: inputs", f"{', '.join(inputs)}; the prompt is {writing.prompt}")
    takes = [] if encode is None else encode.inputs
    check(len(takes) == len(own), source, f"{_WHERE}: inputs", f"{len(own)} names, encode takes {len(takes)}")
    for value, name in zip(takes, own, strict=True):
        value.name = name
    memory = [] if encode is None else [v.spec for v in encode.outputs if v is not None]
    where = f"{_WHERE}: step"
    given = [v.spec for v in step.inputs]
    check(len(given) == FIRST + len(kinds) + len(memory), source, where, f"{len(given)} inputs")
    tokens = given[0]
    check(len(tokens.shape) == 2 and tokens.dtype == int64, source, where, f"its tokens are {show_spec(tokens)}")
    rows, steps = tokens.shape
    check(isinstance(rows, Dim) and isinstance(steps, Dim), source, where, "rows or steps of a fixed size")
    for spec in given[1:FIRST]:
        check(like(spec, Spec((rows,), int64)), source, where, f"counts or lengths are {show_spec(spec)}")
    states, last = given[FIRST : FIRST + len(kinds)], given[FIRST + len(kinds) :]
    room: int | None = None
    for kind, spec in zip(kinds, states, strict=True):
        if isinstance(kind, KeyValues):
            check(len(spec.shape) == 3, source, where, f"keys and values are {show_spec(spec)}")
            room = spec.shape[1] if room is None else room
            check(isinstance(room, Dim), source, where, "room of a fixed size")
            wanted = Spec((rows, room, kind.width), kind.dtype)
            _check_first(kind, memory, source)
        elif kind.memory is None:
            wanted = Spec((rows, *kind.shape), kind.dtype)
        else:
            check(kind.memory < len(memory), source, where, f"a state begins with memory {kind.memory}, which is none")
            wanted = Spec((rows, *memory[kind.memory].shape[1:]), memory[kind.memory].dtype)
        check(like(spec, wanted), source, where, f"a state is {show_spec(spec)}, expected {show_spec(wanted)}")
    for spec, made in zip(last, memory, strict=True):
        check(like(spec, made), source, where, f"takes {show_spec(spec)} where encode makes {show_spec(made)}")
    outs = [v.spec for v in step.outputs if v is not None]
    check(len(outs) == 1 + len(kinds), source, where, f"{len(outs)} outputs")
    for spec, wanted in zip(outs[1:], states, strict=True):
        check(like(spec, wanted), source, where, f"makes the state {show_spec(spec)}, expected {show_spec(wanted)}")
    scores = outs[0]
    good = len(scores.shape) == 2 and same(scores.shape[0], rows) and not isinstance(scores.shape[1], Dim)
    good = good and is_differentiable(scores.dtype) and scores.dtype.kind != "c"
    check(good and scores.shape[1] > 0, source, where, f"its scores are {show_spec(scores)}")
    size, options = scores.shape[1], writing.options
    for name, numbers in (
        ("ends", writing.ends), ("begin", writing.begin), ("prefix", options.prefix), ("banned", options.banned)
    ):  # fmt: skip
        wrong = next((n for n in numbers if n >= size), None)
        check(wrong is None, source, f"{_WHERE}: writing", f"{name} has the token {wrong} of {size}")


def _check_first(kind: KeyValues, memory: Sequence[Spec], source: str) -> None:
    """DataError unless what keys and values begin with is among what encode makes."""
    if kind.memory is None or kind.lengths is None:
        return
    where = f"{_WHERE}: state"
    check(max(kind.memory, kind.lengths) < len(memory), source, where, "it begins with memory which there is not")
    first, lengths = memory[kind.memory], memory[kind.lengths]
    sources = memory[0].shape[:1]
    good = len(first.shape) == 3 and like(first, Spec((*sources, first.shape[1], kind.width), kind.dtype))
    check(good, source, where, f"keys or values begin with {show_spec(first)}")
    check(like(lengths, Spec(sources, int64)), source, where, f"lengths begin with {show_spec(lengths)}")


def like(a: Spec, b: Spec) -> bool:
    """Whether two specs are the same whatever their names stand for."""
    return a.dtype == b.dtype and len(a.shape) == len(b.shape) and all(map(same, a.shape, b.shape))


def kind_to_dict(kind: Kept) -> dict[str, Any]:
    """A state as plain values."""
    if isinstance(kind, KeyValues):
        more = {"memory": kind.memory, "lengths": kind.lengths, "ahead": kind.ahead}
        return {"key_values": kind.width, "dtype": np.dtype(kind.dtype).name, **more}
    return {"carried": list(kind.shape), "dtype": np.dtype(kind.dtype).name, "memory": kind.memory}


def kind_from_dict(data: Any, source: str) -> Kept:
    """The state that plain values say; DataError where they say none."""
    where = f"{_WHERE}: state"
    if isinstance(data, dict) and "key_values" in data:
        data = {"memory": None, "lengths": None, "ahead": 0, **data}  # older bundles leave them out
        number = (int, type(None))
        check_keys(
            data, {"key_values": int, "dtype": str, "memory": number, "lengths": number, "ahead": int}, source, where
        )
        check(1 <= data["key_values"] <= 2**20, source, where, f"a width of {data['key_values']}")
        check(data["dtype"] in ("float32", "float64", "bfloat16"), source, where, f"dtype {data['dtype'][:20]!r}")
        good = all((data[name] or 0) >= 0 for name in ("memory", "lengths")) and 0 <= data["ahead"] <= MOST_AHEAD
        check(good, source, where, f"{str(data)[:80]}")
        more = (data[name] for name in ("memory", "lengths", "ahead"))
        return KeyValues(data["key_values"], ALL[data["dtype"]], *more)
    check_keys(data, {"carried": list, "dtype": str, "memory": (int, type(None))}, source, where)
    shape = data["carried"]
    good = len(shape) <= 8 and all(type(n) is int and 0 <= n <= 2**24 for n in shape) and data["dtype"] in ALL
    good = good and math.prod(shape) <= MOST_CARRIED
    check(good and (data["memory"] is None or data["memory"] >= 0), source, where, f"{str(data)[:80]}")
    return Carried(tuple(shape), ALL[data["dtype"]], data["memory"])
