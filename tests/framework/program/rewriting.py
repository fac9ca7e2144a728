"""What the tests of passes share: a pattern, and the check that it becomes what it should and computes what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.ops.base import Spec
from pdl.program import Executable, Program, bind, specialise, trace
from pdl.program.passes import INFERENCE_ONCE, PER_SHAPE, Pass, run_passes

F32 = np.dtype(np.float32)
RNG = np.random.default_rng(7)


def r(*shape: int, low: float = -1.0, high: float = 1.0) -> pdl.Tensor:
    """A float32 constant."""
    return pdl.Tensor(RNG.uniform(low, high, shape).astype(np.float32))


def size(name: str, example: int) -> Dim:
    """A symbolic size."""
    return Dim.symbol(name, example)


N = size("n", 3)


@dataclass
class Pattern:
    """Code on inputs of these shapes (Dims are sizes known only later), and how often each op is wanted afterwards.

    `wanted` is complete: ops that it does not name must be gone. `sizes` are tried beside the examples.
    """

    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    wanted: dict[str, int]
    sizes: Sequence[dict[str, int]] = ({},)
    atol: float = 2e-5
    positive: bool = False
    dtypes: Sequence[Any] = ()


def traced(function: Callable[..., Any], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[Any] = ()) -> Program:
    """The program of a function."""
    kinds = [np.dtype(d) for d in dtypes] or [F32] * len(shapes)
    with pdl.no_grad():
        return trace(function, *[Spec(s, d) for s, d in zip(shapes, kinds, strict=True)], name="pattern")


def counts(program: Program) -> dict[str, int]:
    """How many nodes of each op a program has."""
    return dict(Counter(type(n.op).__name__ for n in program.nodes))


def inputs(program: Program, sizes: dict[str, int], seed: int, *, positive: bool = False) -> list[np.ndarray]:
    """Values for the program's inputs at given sizes (examples where none is given)."""
    rng = np.random.default_rng(seed)
    made = []
    known = program.sizes() | sizes
    for value in program.inputs:
        shape = tuple(n.at(known) if isinstance(n, Dim) else n for n in value.spec.shape)
        x = rng.uniform(0.1 if positive else -2, 2, shape)
        kind = value.spec.dtype
        made.append(x > 0 if kind == np.bool_ else np.abs(x * 2).astype(kind) if kind.kind == "i" else x.astype(kind))
    return made


def run(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a program whose sizes the arrays set."""
    exact = specialise(program, bind(program, [a.shape for a in arrays]))
    return [np.array(y) for y in Executable(exact)(*arrays)]


def check(pattern: Pattern, passes: Sequence[Pass] = INFERENCE_ONCE) -> Program:
    """Rewrite the pattern, count its ops, and compare values with the code itself at all sizes."""
    program = run_passes(traced(pattern.function, pattern.shapes, pattern.dtypes), passes)
    for number, sizes in enumerate(({}, *pattern.sizes)):
        arrays = inputs(program, sizes, number, positive=pattern.positive)
        with pdl.no_grad():
            made = pattern.function(*map(pdl.Tensor, arrays))
        wanted = [y.numpy() for y in (made if isinstance(made, tuple) else (made,))]
        for y, want in zip(run(program, arrays), wanted, strict=True):
            assert y.shape == want.shape
            assert y.dtype == want.dtype
            np.testing.assert_allclose(y, want, atol=pattern.atol, rtol=1e-5)
    assert counts(program) == pattern.wanted, program.text()
    return program


@dataclass
class Net:
    """A net, the shape of one sample, how many nodes are left and which ops must be gone."""

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    nodes: int
    gone: tuple[str, ...] = ()
    dtype: Any = np.float32


def trained(net: nn.Module) -> nn.Module:
    """The net in evaluation mode, statistics and one-dimensional parameters away from 0 and 1."""
    rng = np.random.default_rng(5)
    for name, buffer in net.named_buffers():
        if "running" in name:
            low, high = (0.5, 2) if "var" in name else (-0.3, 0.3)
            buffer.data[...] = rng.uniform(low, high, buffer.shape)
    for parameter in net.parameters():
        if parameter.ndim == 1:
            parameter.data[...] += rng.uniform(-0.2, 0.2, parameter.shape)
    return net.eval()


def check_net(wanted: Net) -> None:
    """Rewrite a net with random weights; compare with eager mode at two batch sizes, and count."""
    pdl.seed(3)
    net = trained(wanted.make())
    program = traced(net, [(N, *wanted.shape)], [wanted.dtype])
    run_passes(program, (*INFERENCE_ONCE, *PER_SHAPE))
    for batch in (1, 4):
        rng = np.random.default_rng(batch)
        x = rng.standard_normal((batch, *wanted.shape)).astype(np.float32)
        x = x if wanted.dtype is np.float32 else rng.integers(0, 50, x.shape)
        with pdl.no_grad():
            expected = net(pdl.Tensor(x)).numpy()
        (found,) = run(program, [x])
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found / scale, expected / scale, atol=1e-5)
    assert len(program.nodes) == wanted.nodes, counts(program)
    assert not set(wanted.gone) & set(counts(program))
