"""Conditionals and loops over symbolic tensors: trace both branches, or the body until its state is known, and write
a node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import local
from types import FunctionType
from typing import Any

from pdl import ops
from pdl.autograd.anomaly import user_line
from pdl.jit.errors import ConversionError, Place
from pdl.jit.lazy import Lazy
from pdl.jit.symbolic import is_symbolic, truth
from pdl.jit.variables import Join, LoopState, Slot, Variables, as_tensor, fill
from pdl.ops.base import Spec, apply
from pdl.program.block import Block, BranchRecorder, align
from pdl.program.control import Cond, While
from pdl.program.ir import show_spec
from pdl.program.tracing import Recorder
from pdl.tensor import Tensor, _Tracing

_DEPTH = 40  # branches within branches: both are traced, so recursion that a tensor ends would never end
_TRIALS = 64  # each finds at least one more variable that the loop changes


class _Unbound(local):
    why: dict[str, str] | None = None  # variable -> why it is unbound, during a trace


_unbound = _Unbound()


@contextmanager
def explained() -> Iterator[None]:
    """Inside the block a variable that a tensor branch left unbound is reported with the reason."""
    outer, _unbound.why = _unbound.why, {}
    try:
        yield
    except NameError as error:
        found = re.search(r"'(\w+)'", str(error))
        why = _unbound.why.get(found[1]) if found else None
        if why is None:
            raise
        tb = error.__traceback__
        while tb is not None and tb.tb_next is not None:
            tb = tb.tb_next
        place = Place(tb.tb_frame.f_code.co_filename, tb.tb_lineno) if tb is not None else Place("?", 0)
        raise ConversionError(f"{why}, and is used here", place) from None
    finally:
        _unbound.why = outer


def _recorder() -> Recorder:
    recorder: Recorder | None = _Tracing.recorder
    assert recorder is not None, "a symbolic tensor outside a trace"
    return recorder


def _require_depth(recorder: Recorder, place: Place) -> Recorder:
    if getattr(recorder, "depth", 0) > _DEPTH:
        raise ConversionError(
            f"a function calls itself again and again: {_DEPTH} branches on tensors inside each other; use while", place
        )
    return recorder


# -- conditionals ------------------------------------------------------------------------------------------------------
def branch(
    test: Tensor,
    then: Callable[[], Any],
    other: Callable[[], Any],
    names: tuple[str, ...],
    place: Place,
    *functions: FunctionType,
) -> None:
    """``if test: then() else: other()`` as a `Cond`; the variables become its outputs where the branches differ."""
    held = functions or (then, other)
    variables = Variables(held, names)  # type: ignore[arg-type]
    before = variables.read()
    outer = _require_depth(_recorder(), place)
    recorders = [BranchRecorder(f"{kind}@{place.line}", outer) for kind in ("then", "else")]
    after = []
    for recorder, run in zip(recorders, (then, other), strict=True):
        try:
            with recorder.active():
                run()
            after.append(variables.read())
        finally:
            variables.write(before)
    join = Join(place)
    merged = [join.join(s.name, a, b) for s, a, b in zip(variables.slots, *after, strict=True)]
    _note(join.one_sided, "is defined in only one branch of the tensor condition", place)
    outputs = _cond(test, recorders, join.pairs)
    variables.write([fill(value, outputs) for value in merged])


def choice(test: Tensor, then: Callable[[], Any], other: Callable[[], Any], *, place: Place | None) -> Any:
    """``then() if test else other()`` for a symbolic test."""
    outer = _require_depth(_recorder(), place or _here())
    recorders = [BranchRecorder(kind, outer) for kind in ("then", "else")]
    values = []
    for recorder, run in zip(recorders, (then, other), strict=True):
        with recorder.active():
            values.append(run())
    join = Join(place or _here())
    merged = join.join("the value", *values)
    return fill(merged, _cond(test, recorders, join.pairs))


def _here() -> Place:
    file, _, line = user_line().rpartition(":")
    return Place(file, int(line))


def _cond(test: Tensor, recorders: list[BranchRecorder], pairs: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The outputs of the conditional, one for each pair; buffers that a branch assigns are assigned."""
    buffers = list({i: b for r in recorders for i, b in r.assigned.items()}.values())
    columns = [[*column, *buffers] for column in (zip(*pairs, strict=True) if pairs else ((), ()))]
    blocks = _blocks(recorders, columns)
    if not columns[0] and not any(b.effect for b in blocks):
        return []
    if not columns[0]:
        nothing = as_tensor(True)
        blocks = _blocks(recorders, [[nothing], [nothing]])
    sources = align(recorders)
    made = apply(Cond(*blocks), truth(test), *sources)
    outputs = list(made) if isinstance(made, tuple) else [made]
    outer = _recorder()
    for buffer, value in zip(buffers, outputs[len(pairs) :], strict=False):
        outer.assign(buffer, value)
    return outputs[: len(pairs)]


def _blocks(recorders: list[BranchRecorder], columns: Sequence[Sequence[Tensor]]) -> list[Block]:
    """Closed programs with the same inputs."""
    programs = [r.finish(column) for r, column in zip(recorders, columns, strict=True)]
    align(recorders)
    return [Block(p) for p in programs]


def _note(names: list[str], what: str, place: Place) -> None:
    if _unbound.why is not None:
        _unbound.why |= {n: f"variable {n!r} {what} at {place}" for n in names}


# -- loops -------------------------------------------------------------------------------------------------------------
def loop(
    test: Callable[[], Any],
    body: Callable[[], Any],
    names: tuple[str, ...],
    place: Place,
    *counters: Slot,
    functions: tuple[FunctionType, ...] = (),
    test_writes: bool = False,
) -> None:
    """``while test(): body()`` as a `While`."""
    variables = Variables(functions or (test, body), names, *counters)  # type: ignore[arg-type]
    before = variables.read()
    state = LoopState(variables, before, place)
    run = (lambda: (test(), body())) if test_writes else body
    try:
        for _ in range(_TRIALS):
            tested, looped, outputs, unbound = _trial(variables, state, test, run, place)
            if not state.grown:
                break
    finally:
        variables.write(before)
    _note(unbound, "is defined only inside the loop, which may run no time", place)
    outputs = _while(state.initial, tested, looped, outputs)
    variables.write(state.values(outputs))
    if test_writes:
        test()  # the test that failed has written too


def _trial(
    variables: Variables, state: LoopState, test: Callable[[], Any], run: Callable[[], Any], place: Place
) -> tuple[BranchRecorder, BranchRecorder, list[Tensor], list[str]]:
    """Trace test and body once with the state known so far."""
    outer = _recorder()
    tested, looped = (BranchRecorder(f"{k}@{place.line}", outer, loop=True) for k in ("test", "body"))
    with tested.active():
        variables.write(state.values(_inputs(tested, state.initial)))
        go = as_tensor(test())
        tested.finish([truth(go)])
    with looped.active():
        variables.write(state.values(_inputs(looped, state.initial)))
        run()
        after = variables.read()
    return tested, looped, state.update(after), state.unbound(after)


def _inputs(recorder: BranchRecorder, initial: list[Tensor]) -> list[Tensor]:
    return [recorder.input(Spec(x.shape, x.dtype), f"s{i}") for i, x in enumerate(initial)]


def _while(
    initial: list[Tensor],
    tested: BranchRecorder,
    looped: BranchRecorder,
    outputs: list[Tensor],
    maximum: int | None = None,
) -> list[Tensor]:
    looped.finish(outputs)
    sources = align([tested, looped])
    op = While(Block(tested.program), Block(looped.program), len(initial), maximum)
    return list(apply(op, *initial, *sources)[:-1])


def counted_loop(
    items: Lazy, body: FunctionType, go: Callable[[], Any] | None, names: tuple[str, ...], place: Place
) -> None:
    """``for item in items: body(item)``, with a hidden counter in the state."""
    now: list[Any] = [as_tensor(0)]
    counter = Slot("the counter", lambda: now[0], lambda value: now.__setitem__(0, value))

    def test() -> Any:
        more = ops.less(now[0], items.length)
        going = True if go is None else go()
        if going is True:
            return more
        return ops.logical_and(more, going) if is_symbolic(going) else as_tensor(bool(going))

    def run() -> None:
        body(items.at(now[0]))
        now[0] = now[0] + 1

    functions = (body,) if go is None else (body, go)
    loop(test, run, names, place, counter, functions=functions)  # type: ignore[arg-type]


# -- the functional forms ----------------------------------------------------------------------------------------------
def cond_of(
    test: Tensor, then: Callable[..., Any], other: Callable[..., Any], operands: tuple[Any, ...], place: Place
) -> Any:
    """`pdl.jit.cond` in a trace."""
    with explained():
        return choice(truth(test), lambda: then(*operands), lambda: other(*operands), place=place)


def while_of(
    test: Callable[..., Any], body: Callable[..., Any], state: tuple[Tensor, ...], maximum: int | None, place: Place
) -> tuple[Tensor, ...]:
    """`pdl.jit.while_loop` in a trace."""
    outer = _recorder()
    tested, looped = (BranchRecorder(f"{k}@{place.line}", outer, loop=True) for k in ("test", "body"))
    with tested.active():
        tested.finish([truth(as_tensor(test(*_inputs(tested, list(state)))))])
    with looped.active():
        made = body(*_inputs(looped, list(state)))
    outputs = [as_tensor(y, x) for y, x in zip(check_state(state, made, place), state, strict=True)]
    return tuple(_while(list(state), tested, looped, outputs, maximum))


def check_state(state: Sequence[Tensor], made: Any, place: Place) -> tuple[Any, ...]:
    """What an iteration returned, as a tuple; raises where it does not fit the state."""
    after = tuple(made) if isinstance(made, tuple | list) else (made,)
    if len(after) != len(state):
        raise ConversionError(f"while_loop: the body returns {len(after)} values for a state of {len(state)}", place)
    for i, (x, y) in enumerate(zip(state, after, strict=True)):
        new = as_tensor(y, x)
        if (new.shape, new.dtype) != (x.shape, x.dtype):
            specs = [show_spec(Spec(t.shape, t.dtype)) for t in (x, new)]
            raise ConversionError(
                f"while_loop: state {i} is {specs[0]} before an iteration and {specs[1]} after it", place
            )
    return after
