"""Constant folding, norm folding and epilogues: what patterns become, at several sizes."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.ops.base import apply
from pdl.ops.batchnorm import BatchNormEval
from pdl.ops.epilogue import conv2d_act, linear_act
from pdl.program import Program, specialise, verify
from pdl.program.ir import Node, Value
from pdl.program.passes import INFERENCE_ONCE, PER_SHAPE, run_passes
from pdl.program.passes.affine import fold_norms, row_of
from pdl.program.passes.fold import fold_constants, lossless
from pdl.program.passes.fuse_inference import fuse_epilogues
from pdl.program.passes.lower import lower

from .rewriting import N, Pattern, check, counts, r, size, traced

H, W = size("h", 9), size("w", 7)
IMAGE = [(N, H, W, 6)]
OTHER = ({"n": 1, "h": 4, "w": 5}, {"n": 2, "h": 3, "w": 11})
K, K1, DEPTH, GROUPED, B8, B6 = r(3, 3, 6, 8), r(1, 1, 6, 8), r(3, 3, 1, 6), r(3, 3, 3, 8), r(8), r(6)
LIN, ROW = r(6, 5), r(5)
NORM8 = (r(8), r(8, low=0.5, high=2), r(8), r(8))
NORM6 = (r(6), r(6, low=0.5, high=2), r(6), r(6))
NORM5 = (r(5), r(5, low=0.5, high=2), None, r(5))
UP, UP2, BATCH, TABLE = r(2, 2, 8, 6), r(2, 2, 4, 6), r(4, 6, 5), r(20, 6)


def norm(x, channels=NORM8, residual=None, activation=None):
    return apply(BatchNormEval(1e-3, activation), x, *channels, residual)


def conv(x, w=K, b=None, **window):
    return pdl.conv2d(x, w, b, **({"padding": 1} | window))


CONVOLUTIONS = {
    "norm behind": Pattern(lambda x: norm(conv(x)), IMAGE, {"Conv": 1}, OTHER),
    "norm behind a bias": Pattern(lambda x: norm(conv(x, K, B8)), IMAGE, {"Conv": 1}, OTHER),
    "norm and activation": Pattern(lambda x: norm(conv(x), activation="hardswish"), IMAGE, {"ConvThen": 1}, OTHER),
    "norm, residual, activation": Pattern(
        lambda x: norm(conv(x), residual=conv(x, K1, padding=0), activation="relu"),
        IMAGE,
        {"Conv": 1, "ConvThen": 1},
        OTHER,
    ),
    "two norms": Pattern(lambda x: norm(norm(conv(x))), IMAGE, {"Conv": 1}, OTHER),
    "norm behind groups": Pattern(lambda x: norm(conv(x, GROUPED, groups=2)), IMAGE, {"Conv": 1}, OTHER),
    "norm behind depthwise": Pattern(
        lambda x: pdl.relu6(norm(conv(x, DEPTH, groups=6), NORM6)), IMAGE, {"ConvThen": 1}, OTHER
    ),
    "norm before, no padding": Pattern(lambda x: conv(norm(x, NORM6), K, B8, padding=0), IMAGE, {"Conv": 1}, OTHER),
    "norm before groups": Pattern(
        lambda x: conv(norm(x, NORM6), GROUPED, groups=2, padding=0), IMAGE, {"Conv": 1}, OTHER
    ),
    "norm before padding stays": Pattern(lambda x: conv(norm(x, NORM6)), IMAGE, {"BatchNormEval": 1, "Conv": 1}, OTHER),
    "scale before padding": Pattern(lambda x: conv(x * B6), IMAGE, {"Conv": 1}, OTHER),
    "the norm's input is read twice": Pattern(
        lambda x: norm(y := conv(x)) + y, IMAGE, {"Conv": 1, "BatchNormEval": 1}, OTHER
    ),
    "scale and shift": Pattern(lambda x: (conv(x) * B8 + B8) / 3.0 - 0.5, IMAGE, {"Conv": 1}, OTHER),
    "row with leading ones": Pattern(lambda x: conv(x) * B8.reshape((1, 1, 1, 8)), IMAGE, {"Conv": 1}, OTHER),
    "pixels between 0 and 255": Pattern(
        lambda x: conv((x * 255.0 - B6) / 3.0, padding=0), IMAGE, {"Conv": 1}, OTHER, atol=2e-3
    ),
    "residual then activation": Pattern(
        lambda x: pdl.silu(conv(x) + conv(x, K1, padding=0)), IMAGE, {"Conv": 1, "ConvThen": 1}, OTHER
    ),
    "activation then residual": Pattern(
        lambda x: pdl.relu(conv(x)) + conv(x, K1, padding=0), IMAGE, {"ConvThen": 2}, OTHER
    ),
    "a broadcast residual stays": Pattern(
        lambda x: conv(x) + conv(x, K1, padding=0).mean(axis=(1, 2), keepdims=True),
        IMAGE,
        {"Conv": 2, "Mean": 1, "Add": 1},
        OTHER,
    ),
    "padded before": Pattern(
        lambda x: pdl.relu(conv(pdl.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0))))), IMAGE, {"ConvThen": 1}, OTHER
    ),
    "padded with ones": Pattern(
        lambda x: conv(pdl.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), value=1)), IMAGE, {"Pad": 1, "Conv": 1}, OTHER
    ),
    "padded channels": Pattern(
        lambda x: conv(pdl.pad(x, ((0, 0), (0, 0), (0, 0), (2, 2)))[..., :6]),
        IMAGE,
        {"Pad": 1, "GetItem": 1, "Conv": 1},
        OTHER,
    ),
    "clip": Pattern(lambda x: pdl.clip(conv(x), 0.0, 0.5), IMAGE, {"ConvThen": 1}, OTHER),
    "tanh": Pattern(lambda x: pdl.tanh(conv(x, K, B8)), IMAGE, {"ConvThen": 1}, OTHER),
    "two activations": Pattern(lambda x: pdl.tanh(pdl.relu(conv(x))), IMAGE, {"ConvThen": 1, "Tanh": 1}, OTHER),
    "fused for training": Pattern(
        lambda x: conv2d_act(x, K, B8, conv(x, K1, padding=0), padding=1, activation="Silu"),
        IMAGE,
        {"Conv": 1, "ConvThen": 1},
        OTHER,
    ),
    "transposed, norm": Pattern(
        lambda x: norm(pdl.conv_transpose2d(x, UP, stride=2)), IMAGE, {"ConvDx": 1, "Add": 1}, OTHER
    ),
    "transposed, bias, norm": Pattern(
        lambda x: norm(pdl.conv_transpose2d(x, UP, B8, stride=2)), IMAGE, {"ConvDx": 1, "Add": 1}, OTHER
    ),
    "norm of a sum": Pattern(lambda x: norm(x - B6 + B6 + B6, NORM6), IMAGE, {"BatchNormEval": 1}, OTHER),
    "transposed in groups, scale": Pattern(
        lambda x: pdl.conv_transpose2d(x, UP2, stride=2, groups=2) * B8, IMAGE, {"ConvDx": 1}, OTHER
    ),
}
LINEARS = {
    "norm behind": Pattern(lambda x: norm(pdl.linear(x, LIN, ROW), NORM5), [(N, 6)], {"Linear": 1}, ({"n": 1},)),
    "norm before": Pattern(lambda x: pdl.linear(norm(x, NORM6), LIN, ROW), [(N, 6)], {"Linear": 1}, ({"n": 8},)),
    "product, row, gelu": Pattern(lambda x: pdl.gelu(x @ LIN + ROW), [(N, H, 6)], {"LinearThen": 1}, ({"n": 1},)),
    "product, reshaped, gelu": Pattern(
        lambda x: pdl.gelu((x @ LIN + ROW).reshape((x.shape[0], -1))), [(N, 4, 6)],
        {"LinearThen": 1, "Reshape": 1}, ({"n": 1},)),
    "two rows": Pattern(lambda x: x @ LIN + ROW + ROW, [(N, 6)], {"Linear": 1}),
    "transposed weight": Pattern(
        lambda x: x @ pdl.matrix_transpose(nn.Parameter(LIN.numpy().T.copy())), [(N, 6)], {"Linear": 1}),
    "residual": Pattern(lambda x, y: pdl.relu(y + pdl.linear(x, LIN, ROW)), [(N, 6), (N, 5)], {"LinearThen": 1}),
    "fused for training": Pattern(
        lambda x: linear_act(x, LIN, ROW, activation="Gelu"), [(N, 6)], {"LinearThen": 1}),
    "two that vary": Pattern(lambda x, y: pdl.tanh(x @ y), [(N, 6), (6, H)], {"MatMul": 1, "Tanh": 1}),
    "a batch of matrices": Pattern(lambda x: x @ BATCH, [(4, N, 6)], {"MatMul": 1}),
    "sum, layer norm": Pattern(
        lambda x, y: pdl.layer_norm(x + y, B6, B6), [(N, 6), (N, 6)], {"AddLayerNorm": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    check(CONVOLUTIONS[name])


@pytest.mark.parametrize("name", LINEARS)
def test_linear_layers(name: str) -> None:
    check(LINEARS[name])


def same(x: pdl.Tensor) -> pdl.Tensor:
    return x.reshape((x.shape[0], 24))


CONSTANTS = {
    "computed": Pattern(lambda x: x + pdl.exp(nn.Parameter(B6.numpy())) * 2.0, [(N, 6)], {"Add": 1}),
    "sliced": Pattern(lambda x: x * nn.Parameter(LIN.numpy())[1:2, :4], [(N, 4)], {"Multiply": 1}),
    "a constant of a symbolic size stays": Pattern(
        lambda x: pdl.broadcast_to(nn.Parameter(B6.numpy()), (x.shape[0], 6)), [(N, 6)], {"BroadcastTo": 1},
        ({"n": 5},)),
    "a slice to a symbolic size stays": Pattern(
        lambda x: x + nn.Parameter(TABLE.numpy())[: x.shape[0]], [(N, 6)], {"GetItem": 1, "Add": 1}, ({"n": 9},)),
    "a large constant stays small": Pattern(
        lambda x: x.sum() + pdl.broadcast_to(nn.Parameter(B6.numpy()), (4000, 6)), [(N, 6)],
        {"Sum": 1, "BroadcastTo": 1, "Add": 1}),
    "reshapes": Pattern(
        lambda x: same(x.reshape((x.shape[0] * 4, 6)).reshape((x.shape[0], 4, 6, 1))), [(N, 4, 6)], {"Reshape": 1},
        ({"n": 1},)),
    "reshape back": Pattern(
        lambda x: x.reshape((-1, 6)).reshape(x.shape), [(N, 4, 6)], {}, ({"n": 5},)),
    "equal in the example": Pattern(lambda x: x.reshape((3, -1)), [(N, 6)], {"Reshape": 1}, ({"n": 6},)),
    "squeeze, expand": Pattern(
        lambda x: pdl.expand_dims(pdl.squeeze(x, axis=1), axis=1) * 2.0, [(N, 1, 6)], {"Multiply": 1}),
    "permutations": Pattern(
        lambda x: x.permute_dims((0, 3, 1, 2)).permute_dims((0, 2, 3, 1)) * 2.0, IMAGE, {"Multiply": 1}, OTHER),
    "a permutation at one image": Pattern(
        lambda x: x.permute_dims((1, 0, 2)) + 0.5, [(N, 5, 6)], {"PermuteDims": 1, "Add": 1}, ({"n": 1},)),
    "neutral": Pattern(lambda x: (((x * 1.0) + 0.0 - 0.0) / 1.0) * 2.0, [(N, 6)], {"Multiply": 1}),
    "0 that broadcasts stays": Pattern(lambda x: x + pdl.zeros((4, 6)), [(6,)], {"Add": 1}),
    "casts": Pattern(
        lambda x: x.astype("float64").astype("float32").astype("int32"), [(N, 6)], {"AsType": 1}),
    "casts that round stay": Pattern(lambda x: x.astype("int32").astype("float32"), [(N, 6)], {"AsType": 2}),
    "broadcast": Pattern(
        lambda x, y: x + pdl.broadcast_to(y, x.shape), [(N, 6), (6,)], {"Add": 1}, ({"n": 1},)),
    "broadcast of both": Pattern(
        lambda x, y: pdl.broadcast_to(x, (3, 6)) * y, [(6,), (6,)], {"BroadcastTo": 1, "Multiply": 1}),
    "powers": Pattern(
        lambda x: pdl.pow(x, pdl.Tensor(np.float32(2))) + 1.0 / x + pdl.pow(x, pdl.Tensor(np.float32([-0.5]))),
        [(N, 6)],
        {"Square": 1, "Reciprocal": 1, "Rsqrt": 1, "Add": 2}, positive=True),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_and_shapes(name: str) -> None:
    check(CONSTANTS[name], (fold_constants, lower))


def test_constants_of_a_size_fold_once_it_is_known() -> None:
    table = nn.Parameter(TABLE.numpy())
    program = run_passes(traced(lambda x: x + table[: x.shape[0]] * 2.0, [(N, 6)]), INFERENCE_ONCE)
    assert counts(program) == {"GetItem": 1, "Multiply": 1, "Add": 1}
    exact = run_passes(specialise(program, {"n": 7}), PER_SHAPE)
    assert counts(exact) == {"Add": 1}
    assert counts(program) == {"GetItem": 1, "Multiply": 1, "Add": 1}


def test_weights_that_the_program_writes_are_no_constants() -> None:
    norm_layer, w = nn.BatchNorm1d(6).train(), LIN
    program = traced(lambda x: norm_layer(x) @ w, [(8, 6)])
    assert program.effects
    run_passes(program, (fold_constants, lower, fold_norms, fuse_epilogues))
    assert counts(program)["BatchNorm"] == 1
    program = Program("counter")
    buffer = Value(B6_SPEC := traced(lambda x: x, [(6,)]).inputs[0].spec, tensor=B6)
    node = Node(pdl.ops.base.OPS["Exp"](), [buffer], [B6_SPEC])
    program.captures, program.nodes, program.outputs = [buffer], [node], [node.outputs[0]]
    program.effects = [(buffer, node.outputs[0])]
    run_passes(verify(program), (fold_constants,))
    assert counts(program) == {"Exp": 1}


def test_complex_constants_are_no_rows() -> None:
    """Norms scale by real numbers; the imaginary part would be lost."""
    assert row_of(np.array([2.0]), (4, 3)).tolist() == [2.0] * 3  # type: ignore[union-attr]
    assert row_of(np.array([2.0 + 1j]), (4, 3)) is None


def test_the_caller_s_arrays_stay() -> None:
    before = [t.numpy().copy() for t in (K, *NORM8)]
    check(CONVOLUTIONS["norm behind"])
    for tensor, array in zip((K, *NORM8), before, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize(("source", "target", "loses"), [
    ("float32", "float64", False), ("float64", "float32", True), ("int64", "float64", True),
    ("int32", "float64", False),
    ("bfloat16", "float32", False), ("float32", "bfloat16", True), ("bool", "bfloat16", False),
    ("uint8", "int16", False),
    ("int8", "uint8", True), ("int8", "bfloat16", True), ("bfloat16", "int32", True),
])  # fmt: skip
def test_lossless(source: str, target: str, loses: bool) -> None:
    assert lossless(pdl.dtype.as_dtype(source), pdl.dtype.as_dtype(target)) is not loses
