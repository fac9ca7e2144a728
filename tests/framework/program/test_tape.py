"""Tapes: nets that are one replay, what is recorded and what is not; test_cases.py replays every op."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from pdl.kernels.copies import contiguous, copy
from pdl.kernels.launch import Tape, Unrecordable, constant, now, recording
from pdl.kernels.memory import empty
from pdl.kernels.pointwise import binary, unary

import pdl
import pdl_cv
from pdl import nn
from pdl.dtype import Array, float32
from pdl.errors import ShapeError
from pdl.kernels import gemm
from pdl.ops.base import OPS, Spec
from pdl.program import Executable, Program, trace
from pdl.program.passes import FINAL, INFERENCE_ONCE, PER_SHAPE, run_passes
from pdl.testing.ops import outcome

from ..ops.test_ops import CASES


def test_every_native_op_is_on_the_tape_of_some_case() -> None:
    traced = [case.traced(float32 if case.float32 is not None else None) for case in CASES if not case.untraceable]
    steps = [step for program in traced for step in Executable(run_passes(program, FINAL))._steps]
    seen = {type(step.node.op).__name__ for step in steps if step.place}
    gradients = {name for name in OPS if "Grad" in name or name in ("ConvDx", "ConvDw", "Place", "SumTo", "PutItem")}
    fused = {"LinearAct", "ConvAct", "ConvStats", "BatchNorm", "BatchNormEval"}
    views = {name for name, op in OPS.items() if op.view is not None}  # windows that need no call
    known = {"InverseSizes"}  # of a pattern, a constant in the cases; kernels/test_csr.py gives one as an argument
    native = {name for name, op in OPS.items() if op.native and "." not in name}
    assert native - seen - gradients - fused - views - known == set()


# -- nets that pdl ships run without Python ----------------------------------------------------------------------------
class Words(nn.Module):
    """Embeddings of tokens and places, encoder layers with a padding mask, a linear layer on the first token."""

    def __init__(self) -> None:
        self.tokens, self.places = nn.Embedding(50, 16), nn.Parameter(pdl.zeros((12, 16)))
        self.norm, self.drop = nn.LayerNorm(16), nn.Dropout(0.1)
        self.encoder = nn.TransformerEncoder(16, 2, 2, dim_feedforward=32, dropout=0.1, activation="gelu")
        self.head = nn.Linear(16, 4)

    def forward(self, tokens: Any) -> Any:
        x = self.drop(self.norm(self.tokens(tokens) + self.places))
        return pdl.softmax(self.head(self.encoder(x)[:, 0]))


class Session(nn.Module):
    """The next item of a session: embedding, recurrent layer, a score for every item from the last state."""

    def __init__(self, cell: type[nn.Module]) -> None:
        self.items, self.cell, self.head = nn.Embedding(50, 16), cell(16, 16, bidirectional=True), nn.Linear(32, 50)  # type: ignore[call-arg]

    def forward(self, items: Any) -> Any:
        y, _ = self.cell(self.items(items))
        return self.head(y[:, -1])


IMAGES = {
    "lenet": (lambda: pdl_cv.LeNet(in_channels=1), (28, 28, 1)),
    "resnet20": (lambda: pdl_cv.CifarResNet(20), (32, 32, 3)),
    "resnet18": (lambda: pdl_cv.ResNet(18, num_classes=10), (64, 64, 3)),
    "resnet50": (lambda: pdl_cv.ResNet(50, num_classes=10), (64, 64, 3)),
    "mobilenet_v1": (lambda: pdl_cv.MobileNetV1(num_classes=10), (64, 64, 3)),
    "mobilenet_v2": (lambda: pdl_cv.MobileNetV2(num_classes=10), (64, 64, 3)),
    "mobilenet_v3": (lambda: pdl_cv.MobileNetV3(num_classes=10), (64, 64, 3)),
}
SEQUENCES = {
    "transformer": Words, "gru": lambda: Session(nn.GRU), "lstm": lambda: Session(nn.LSTM),
    "rnn": lambda: Session(nn.RNN),
}  # fmt: skip


def shipped(name: str) -> tuple[Program, list[Array]]:
    """A net in evaluation mode as a program after the inference passes, and an input."""
    rng = np.random.default_rng(0)
    if name in IMAGES:
        make, shape = IMAGES[name]
        x = rng.standard_normal((2, *shape), np.float32)
    else:
        make, x = SEQUENCES[name], rng.integers(0, 50, (2, 12))
    pdl.seed(0)
    net = make().eval()
    with pdl.no_grad():
        program = trace(net, Spec(x.shape, x.dtype))
    return run_passes(run_passes(program, INFERENCE_ONCE), PER_SHAPE), [x]


@pytest.mark.parametrize("name", [*IMAGES, *SEQUENCES])
def test_a_shipped_net_is_one_replay(name: str) -> None:
    program, arrays = shipped(name)
    taped = Executable(program)
    assert [str(node.op) for node in taped.python_nodes] == []
    assert outcome(taped, arrays) == outcome(Executable(program, native=False), arrays)


# -- the tape itself ---------------------------------------------------------------------------------------------------
def test_recording_runs_nothing_and_a_replay_runs_all() -> None:
    x, y = np.arange(6, dtype=np.float32), np.full(6, -1, np.float32)
    tape = Tape()
    place = tape.record(lambda: unary("square", y, x), (x, y))
    assert place == (0, len(tape))
    assert (y == -1).all()
    assert tape.run(*place) == -1
    assert (y == x * x).all()
    x += 1
    tape.run(*place)
    assert (y == x * x).all()


def test_a_tape_owns_what_it_was_recorded_on_and_what_it_asked_for() -> None:
    tape = Tape()
    x = np.arange(12.0).reshape(3, 4)
    y = np.zeros((4, 3))

    def body(x: Array = x, y: Array = y) -> None:
        unary("square", y, contiguous(x.T))
        binary("add", y, y, constant(np.full(3, 2.0)))

    expected = x.T**2 + 2
    place = tape.record(body, (x, y))
    out = y.view()
    del x, y
    for _ in range(50):  # memory that nobody owned would be handed out here
        empty((4, 3), np.dtype(np.float64)).fill(7)
    tape.run(*place)
    np.testing.assert_array_equal(out, expected)


def test_temporary_arrays_and_numpy_are_refused() -> None:
    x, y = np.arange(4.0), np.zeros(4)
    tape = Tape()
    assert tape.record(lambda: unary("square", y, x + 1), (x, y)) is None
    assert tape.record(lambda: unary("square", np.empty(4), x), (x, y)) is None
    assert tape.record(lambda: now("NumPy works here"), (x, y)) is None
    assert len(tape) == 0
    assert tape.record(lambda: unary("square", y[1:3], x[2:]), (x, y)) is not None
    assert not recording()
    now("nobody records")


def test_an_error_while_recording_leaves_nothing_behind() -> None:
    x, y = np.arange(4.0), np.zeros(5)
    tape = Tape()
    with pytest.raises(ShapeError):
        tape.record(lambda: (unary("square", x, x), unary("square", y, x)), (x, y))
    assert len(tape) == 0
    assert not recording()
    assert issubclass(Unrecordable, Exception)


def test_one_thread_records_while_another_runs() -> None:
    x, y, z = np.arange(4.0), np.zeros(4), np.zeros(4)
    tape = Tape()

    def body() -> None:
        unary("square", y, x)
        other = threading.Thread(target=unary, args=("square", z, x))
        other.start()
        other.join()

    place = tape.record(body, (x, y))
    assert (z == x * x).all()
    assert (y == 0).all()
    tape.run(*place)
    assert (y == x * x).all()


@pytest.mark.parametrize("batch", [1, 3, 40])
def test_products_of_many_matrices_are_recorded(batch: int) -> None:
    rng = np.random.default_rng(0)
    a, b, bias = rng.standard_normal((batch, 5, 6)), rng.standard_normal((batch, 6, 7)), rng.standard_normal(7)
    y = np.zeros((batch, 5, 7))
    tape = Tape()
    place = tape.record(lambda: gemm.matmul(y, a, b, bias, "relu"), (a, b, bias, y))
    a *= 2
    tape.run(*place)
    np.testing.assert_allclose(y, np.maximum(a @ b + bias, 0), atol=1e-12)


def test_values_that_a_node_cannot_take_are_named_as_from_python() -> None:
    table, index = pdl.Tensor(np.ones((5, 3), np.float32)), np.array([0, 1, 4])
    program = trace(lambda i: pdl.embedding(table, i) * 2.0, Spec(index.shape, index.dtype))
    run = Executable(program)
    assert run.python_nodes == []
    (y,) = run(index)
    assert (y == 2).all()
    with pytest.raises(ShapeError, match="embedding: index 5 at flat position 1 is outside the 5 rows"):
        run(np.array([0, 5, 1]))
    (y,) = run(index)
    assert (y == 2).all()


def test_an_input_that_is_read_in_another_order_is_taken_in_that_order() -> None:
    """Convolutions read channels last: of images channels first they would make a copy with memory of its own."""
    net = nn.Conv2d(3, 4, 3).eval()
    run = Executable(trace(lambda x: net(pdl.permute_dims(x, (0, 2, 3, 1))), Spec((2, 3, 9, 8), float32)))
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 8)).astype(np.float32)
    expected = net(pdl.Tensor(np.ascontiguousarray(x.transpose(0, 2, 3, 1)))).data
    for given in (x, np.asfortranarray(x), x[:, :, ::-1][:, :, ::-1]):
        np.testing.assert_array_equal(run(given)[0], expected)
    assert run._inputs[0].transpose(0, 2, 3, 1).flags.c_contiguous


def test_a_captured_tensor_that_moves_is_bound_anew() -> None:
    w = pdl.Tensor(np.full(3, 2.0))
    run = Executable(trace(lambda x: pdl.exp(x * w), Spec((3,), np.dtype(np.float64))))
    np.testing.assert_array_equal(run(np.ones(3))[0], pdl.exp(pdl.Tensor(np.full(3, 2.0))).data)
    w._data = np.full(3, 4.0)
    np.testing.assert_array_equal(run(np.ones(3))[0], pdl.exp(pdl.Tensor(np.full(3, 4.0))).data)


def test_the_profile_sees_every_node() -> None:
    program, arrays = shipped("lenet")
    run = Executable(program)
    seen: list[str] = []
    run.profile = lambda node, begin, end: seen.append(type(node.op).__name__) or None  # type: ignore[func-returns-value]
    expected = outcome(Executable(program), arrays)
    assert outcome(run, arrays) == expected
    assert seen == [type(step.node.op).__name__ for step in run._steps]


# -- copies ------------------------------------------------------------------------------------------------------------
SHAPES = [
    (),
    (5,),
    (3, 4),
    (33, 17),
    (2, 3, 4),
    (2, 18, 35),
    (1, 40, 3, 20),
    (2, 1, 3, 1, 4),
    (2, 2, 2, 2, 2, 2, 2, 2, 2),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copies_of_any_strides(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    for kind in ("?", "u1", "i2", "f4", "f8", "c16"):
        source = rng.integers(0, 100, shape).astype(kind)
        for axes in {tuple(rng.permutation(len(shape))) for _ in range(4)}:
            x = source.transpose(axes)
            for flipped in (x, x[tuple(slice(None, None, -1) for _ in shape)], x[..., :1] if shape else x):
                spread = np.broadcast_to(flipped, x.shape)
                wide = np.zeros((*x.shape, 2), kind)[..., 1]
                for y in (np.zeros(x.shape, kind), np.zeros(x.shape[::-1], kind).T, wide):
                    copy(y, spread)
                    np.testing.assert_array_equal(y, spread)


def test_copies_refuse_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="copy"):
        copy(np.zeros(3), np.zeros(4))
    with pytest.raises(ShapeError, match="copy"):
        copy(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(pdl.errors.DtypeError, match="copy"):
        copy(np.zeros(3), np.zeros(3, np.float32))


NUMBERS = ["?", "u1", "i1", "i2", "i4", "i8", "f4", "f8"]


@pytest.mark.parametrize("come", NUMBERS)
def test_conversions_are_those_of_numpy(come: str) -> None:
    x = np.array([0, 1, 2, 5, 100, 0, 7] * 11).astype(come)
    for to in NUMBERS:
        np.testing.assert_array_equal(contiguous(x, np.dtype(to)), x.astype(to), err_msg=to)
        np.testing.assert_array_equal(contiguous(x[::-2], np.dtype(to)), x[::-2].astype(to), err_msg=to)
