"""Control flow inside programs: conditionals, loops, calls, prints and assertions, as ops."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pdl.dtype import bool_, int64, is_differentiable
from pdl.errors import DtypeError, GradientError, ShapeError
from pdl.kernels.memory import empty
from pdl.limits import take_steps
from pdl.ops.attributes import Length
from pdl.ops.base import Arrays, Op, Spec, _quiet, apply, compose_vjp, not_differentiable
from pdl.program.block import Block
from pdl.program.paired import paired
from pdl.tensor import Tensor, _GradMode, _Tracing


class Nested(Op, abstract=True):
    """An op that holds blocks; it draws random numbers, or has effects, where they do."""

    native_bf16 = True

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks among the attributes."""
        return tuple(v for v in (getattr(self, n) for n in self.fields) if isinstance(v, Block))

    @property
    def stateful(self) -> bool:  # type: ignore[override]
        return any(b.stateful for b in self.blocks)

    @property
    def effect(self) -> bool:  # type: ignore[override]
        return any(b.effect for b in self.blocks)

    def silent(self) -> Op:
        values = (getattr(self, n) for n in self.fields)
        return type(self)(*(v.silent if isinstance(v, Block) else v for v in values))


class Cond(Nested):
    """The outputs of block `then` where the scalar pred holds, else those of `other`; both take all inputs x."""

    then: Block
    other: Block

    def infer(self, pred: Spec, *xs: Spec) -> tuple[Spec, ...] | Spec:
        if pred.shape or pred.dtype != bool_:
            raise DtypeError(f"cond: pred is {pred.dtype.name} {pred.shape}; expected one bool")
        self.then.check_inputs("cond", xs)
        self.other.check_inputs("cond", xs)
        if self.then.specs != self.other.specs:
            raise ShapeError(f"cond: the branches give {self.then.specs} and {self.other.specs}")
        return _one_or_all(self.then.specs)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        (self.then if ins[0] else self.other).run(outs, ins[1:], copied=0)

    def vjp(self, g: Any, y: Any, pred: Tensor, *xs: Tensor) -> Any:
        """A conditional over the gradients of the blocks."""
        gs = g if isinstance(g, tuple) else (g,)
        given = tuple(d is not None for d in gs)
        wanted = tuple(x.requires_grad for x in xs)
        op = Cond(self.then.gradient(given, wanted), self.other.gradient(given, wanted))
        found = iter(_apply(op, pred, *[d for d in gs if d is not None], *xs))
        return (None, *[next(found) if w else None for w in wanted])


class While(Nested):
    """state = body(state, captured) while test(state, captured), at most `maximum` times; then the state and the count.

    Inputs: the state (`count` arrays), then what the blocks read from outside.
    """

    test: Block
    body: Block
    count: Length
    maximum: Length | None = None

    def infer(self, *ins: Spec) -> tuple[Spec, ...]:
        state = ins[: self.count]
        self.test.check_inputs("while_loop", ins)
        self.body.check_inputs("while_loop", ins)
        if self.body.specs != state:
            raise ShapeError(f"while_loop: the state is {state} before and {self.body.specs} after an iteration")
        if self.test.specs != (Spec((), bool_),):
            raise DtypeError(f"while_loop: the test gives {self.test.specs}; expected one bool")
        return (*state, Spec((), int64))

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        state, captured = outs[: self.count], ins[self.count :]
        for mine, given in zip(state, ins, strict=False):
            np.copyto(mine, given)
        go = np.empty((), bool)
        n = 0
        while self.maximum is None or n < self.maximum:
            self.test.run((go,), (*state, *captured), copied=0)
            if not go:
                break
            take_steps()
            self.body.run(state, (*state, *captured), copied=self.count)
            n += 1
        outs[self.count][...] = n

    def vjp(self, g: tuple[Tensor | None, ...], y: tuple[Tensor, ...], *ins: Tensor) -> Any:
        """`WhileGrad`."""
        floats = tuple(is_differentiable(x.dtype) for x in ins[: self.count])
        wanted = (*floats, *(x.requires_grad for x in ins[self.count :]))
        gradient = self.body.gradient(floats, wanted)
        gs = [
            Tensor._wrap(np.zeros(x.shape, x.dtype)) if d is None else d
            for d, x, f in zip(g, ins, floats, strict=False)
            if f
        ]
        op = WhileGrad(self.body.silent, gradient, self.count, wanted)
        found = iter(_apply(op, y[-1], *gs, *ins))
        return tuple(next(found) if w else None for w in wanted)


class WhileGrad(Nested):
    """The gradient of `While`: runs the iterations again, keeps the state before each, and carries the gradient back.

    Inputs: number of iterations, gradients of the floating state, then the inputs of `While`. Outputs: the gradients of
    those inputs that are `wanted`: the floating state first, then what the body reads.
    """

    body: Block
    gradient: Block
    count: Length
    wanted: tuple[bool, ...]

    def infer(self, n: Spec, *ins: Spec) -> tuple[Spec, ...] | Spec:
        gs, inputs = ins[: -len(self.wanted)], ins[-len(self.wanted) :]
        self.body.check_inputs(name := "gradient of while_loop", inputs)
        self.gradient.check_inputs(name, ins)
        made = tuple(x for x, w in zip(inputs, self.wanted, strict=True) if w)
        floats = tuple(x for x, w in zip(inputs[: self.count], self.wanted, strict=False) if w)
        if (n, gs, self.gradient.specs, self.body.specs) != (Spec((), int64), floats, made, inputs[: self.count]):
            raise ShapeError(f"{name}: its body and its gradient do not fit the state and what is read beside it")
        return _one_or_all(made)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        floats = sum(self.wanted[: self.count])
        gs, state, captured = self._parts(ins[1:])
        take_steps(max(0, int(ins[0])), sum(s.nbytes for s in state))
        states = [state]
        for _ in range(int(ins[0]) - 1):
            states.append(tuple(empty(s.shape, s.dtype) for s in state))
            self.body.run(states[-1], (*states[-2], *captured), copied=self.count)
        for target, g in zip(outs[:floats], gs, strict=True):
            np.copyto(target, g)
        for sums in outs[floats:]:
            sums[...] = 0
        found = tuple(empty(y.shape, y.dtype) for y in outs)
        for before in states[::-1] if ins[0] else []:
            self.gradient.run(found, (*outs[:floats], *before, *captured), copied=floats + self.count)
            for i, (target, part) in enumerate(zip(outs, found, strict=True)):
                np.copyto(target, part) if i < floats else np.add(target, part, out=target)

    def _parts(self, ins: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        floats = sum(self.wanted[: self.count])
        return ins[:floats], ins[floats : floats + self.count], ins[floats + self.count :]

    def vjp(self, g: Any, y: Any, n: Tensor, *ins: Tensor) -> Any:
        """Op by op, for gradients of gradients."""
        if _Tracing.recorder is not None:
            raise GradientError("while_loop: second-order gradients are taken in eager mode, not inside a program")
        count = int(n._data)
        return (None, *compose_vjp(lambda *xs: self._composed(count, xs), g, ins))

    def _composed(self, count: int, ins: tuple[Any, ...]) -> Any:
        gs, state, captured = self._parts(ins)
        floats = len(gs)
        states = [tuple(state)]
        for _ in range(count - 1):
            states.append(tuple(self.body.inline((*states[-1], *captured))))
        sums: list[Tensor | None] = [None] * sum(self.wanted[self.count :])
        for before in states[::-1] if count else []:
            found = self.gradient.inline((*gs, *before, *captured))
            gs = tuple(found[:floats])
            sums = [new if old is None else old + new for old, new in zip(sums, found[floats:], strict=True)]
        reads = [x for x, w in zip(captured, self.wanted[self.count :], strict=True) if w]
        filled = tuple(x * 0 if s is None else s for s, x in zip(sums, reads, strict=True))
        return _one_or_all((*gs, *filled))


class Call(Nested):
    """The outputs of a traced function, run as a program; with gradients also the number of the call.

    wanted   the inputs that may need gradients
    copied   how many of the inputs, the first ones, are in other memory at every call
    """

    block: Block
    wanted: tuple[bool, ...]
    copied: Length

    def infer(self, *ins: Spec) -> tuple[Spec, ...] | Spec:
        self.block.check_inputs("call", ins)
        if len(self.wanted) != len(ins) or self.copied > len(ins):
            raise ShapeError(f"call: wanted {self.wanted} and copied {self.copied} for {len(ins)} inputs")
        if not any(self.wanted):
            return _one_or_all(self.block.specs)
        return (*self.block.specs, Spec((), int64))

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        if any(self.wanted):
            paired(self.block, self.wanted, self.copied).forward(outs, ins)
        else:
            self.block.run(outs, ins, copied=self.copied)

    def vjp(self, g: tuple[Tensor | None, ...], y: tuple[Tensor, ...], *ins: Tensor) -> Any:
        """The second half of the program; op by op in a trace, and where the gradient is itself differentiated."""
        if _GradMode.enabled or _Tracing.recorder is not None:
            return self._again(g, ins)
        both = paired(self.block, self.wanted, self.copied)
        seeds = [
            np.zeros(s.shape, s.dtype) if d is None else d._data
            for d, s, floating in zip(g, self.block.specs, both.given, strict=False)
            if floating
        ]
        found = iter(_quiet.run(both.backward, int(y[-1]._data), seeds, [x._data for x in ins]))
        return tuple(Tensor._wrap(next(found)) if w else None for w in self.wanted)

    def _again(self, g: tuple[Tensor | None, ...], ins: tuple[Tensor, ...]) -> Any:
        block = self.block.silent
        if block.stateful:
            raise GradientError(
                "second-order gradients of a compiled function that draws random numbers; run it eagerly"
            )
        gs = g[: len(block.specs)]
        return compose_vjp(lambda *xs: _one_or_all(tuple(block.inline(xs))), gs if len(gs) > 1 else gs[0], ins)


class Print(Op):
    """Prints its inputs between the texts, when the program runs; gives True."""

    texts: tuple[str, ...]
    end: str = "\n"
    stateful: ClassVar[bool] = True
    effect: ClassVar[bool] = True
    vjp = not_differentiable("it gives a constant")

    def infer(self, *xs: Spec) -> Spec:
        if len(self.texts) != len(xs) + 1:
            raise ShapeError(f"print: {len(self.texts)} texts around {len(xs)} values; expected one more")
        return Spec((), bool_)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        parts = [self.texts[0]]
        for x, text in zip(ins, self.texts[1:], strict=True):
            parts += [repr(Tensor._wrap(np.array(x))), text]
        print("".join(parts), end=self.end)  # noqa: T201 - the user's own print
        outs[0][...] = True


class Assert(Op):
    """Raises AssertionError with `message` where the scalar x is false, when the program runs; gives True."""

    message: str
    stateful: ClassVar[bool] = True
    effect: ClassVar[bool] = True
    vjp = not_differentiable("it gives a constant")

    def infer(self, x: Spec) -> Spec:
        if x.shape or x.dtype != bool_:
            raise DtypeError(f"assert: the test is {x.dtype.name} {x.shape}; expected one bool")
        return Spec((), bool_)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        if not ins[0]:
            raise AssertionError(self.message)
        outs[0][...] = True


def _one_or_all(values: tuple[Any, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def _apply(op: Op, *inputs: Tensor) -> tuple[Tensor, ...]:
    made = apply(op, *inputs)
    return made if isinstance(made, tuple) else (made,)
