"""Programs with symbolic sizes: specialised, they equal a fresh trace; stored and read, too."""

import json

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.errors import ShapeError, TraceError
from pdl.ops.base import Spec
from pdl.program import Executable, Program, bind, specialise, trace

N, H, W = Dim.symbol("n", 61), Dim.symbol("h", 40), Dim.symbol("w", 48)


def net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())


FUNCTIONS = {
    "convolutions": net().eval(),
    "flatten": lambda x: pdl.flatten(x, start=1).reshape(x.shape[0], -1, 3).sum(axis=1),
    "slices": lambda x: x[:, : x.shape[1] // 2, 1:-1][..., ::2],
    "sizes of slices": lambda x: (y := x[::2, 1:-1, :3]).reshape(y.shape[0] * y.shape[1], y.shape[2], -1),
    "broadcast": lambda x: x + pdl.zeros((1, 1, 1, 3)) * x.mean(axis=(1, 2), keepdims=True),
    "resize": lambda x: pdl.resize(x, scale=2, mode="linear"),
    "concat": lambda x: pdl.concat([x, x[:, :, :5]], axis=2),
    "pool": lambda x: pdl.max_pool(x, 3, stride=2, padding=1, ceil_mode=True),
}


def text(program: Program) -> list[str]:
    return [line.partition("  #")[0] for line in program.text().splitlines()[1:]]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(1, 32, 20, 3), (5, 13, 17, 3)])
def test_specialised_equals_traced(name, shape):
    function = FUNCTIONS[name]
    with pdl.no_grad():
        symbolic = trace(function, Spec((N, H, W, 3), float32), name=name)
        fresh = trace(function, Spec(shape, float32), name=name)
    captured = {value.name: value.tensor for value in named(symbolic).captures}
    read = Program.from_dict(json.loads(json.dumps(symbolic.to_dict())), captured.__getitem__)
    sizes = bind(read, [shape])
    assert sizes == dict(zip("nhw", shape, strict=False))
    assert text(specialise(read, sizes)) == text(named(fresh))


def test_constants_cut_to_a_symbolic_size():
    table = pdl.Tensor(np.arange(60 * 3, dtype=np.float32).reshape(60, 3))
    with pdl.no_grad():
        program = trace(lambda x: x * table[1 : x.shape[0]].reshape(x.shape[0] - 1, 3)[:1], Spec((H, 3), float32))
    x = np.ones((17, 3), np.float32)
    made = Executable(specialise(program, bind(program, [x.shape])))(x)[0]
    np.testing.assert_array_equal(made, np.broadcast_to(table.numpy()[1:2], x.shape))


def named(program: Program) -> Program:
    """Every capture has a name, as in a bundle."""
    for i, value in enumerate(program.captures):
        value.name = f"c{i}"
    return program


def test_sizes_that_do_not_fit_are_named():
    with pdl.no_grad():
        program = trace(lambda x, y: x @ y, Spec((N, 4), float32), Spec((4, H), float32), name="product")
    with pytest.raises(
        ShapeError, match=r"product: input x1 is f32\[4, h\], got shape \(5, 2\): dimension 0 must be 4"
    ):
        bind(program, [(3, 4), (5, 2)])
    with pytest.raises(ShapeError, match="2 inputs, got 1"):
        bind(program, [(3, 4)])
    with pytest.raises(ShapeError, match="it has 2 dimensions"):
        bind(program, [(3, 4, 1), (4, 2)])


def test_a_size_where_an_op_does_not_fit_names_the_line():
    with pdl.no_grad():
        program = trace(lambda x: pdl.reshape(x, (x.shape[0], -1, 8)), Spec((N, H), float32))
    with pytest.raises(ShapeError, match=r"at n=2, h=12 \(.*test_specialise.py:\d+\): reshape"):
        specialise(program, {"n": 2, "h": 12})


def test_equal_at_the_example_is_not_equal():
    """Two reshapes that agree at n = 61 only must not be merged."""
    from pdl.program.passes import FORWARD, run_passes

    x = np.zeros((61, 2), np.float32)
    with pdl.no_grad():
        program = trace(
            lambda x: (x.sum(axis=1).reshape(x.shape[0], 1), x.sum(axis=1).reshape(61, 1)), Spec((N, 2), float32)
        )
    assert len(run_passes(program, FORWARD).nodes) == 3
    assert x.shape[0] == int(N)


def test_python_that_reads_a_value_still_stops():
    with pytest.raises(TraceError):
        trace(lambda x: x if float(x.sum()) > 0 else -x, Spec((N,), float32))
