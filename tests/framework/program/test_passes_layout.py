"""Permutations between NHWC ops of a NCHW graph: where they go, and what stays right."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.program.ir import Program
from pdl.program.passes import run_passes
from pdl.program.passes.layout import _blocks, moved_bytes, sink_permutations

from .rewriting import N, Pattern, check, counts, r, size, traced

H, W = size("h", 12), size("w", 10)
IMAGES = [(N, 6, H, W)]
OTHER = ({"n": 1, "h": 4, "w": 8}, {"n": 2, "h": 8, "w": 4})
K, K2, DEPTH = r(3, 3, 6, 6), r(1, 1, 6, 6), r(3, 3, 1, 6)
ROW, COLUMN, LINEAR = r(6), r(1, 6, 1, 1), r(6, 5)


def first(x):
    """Channels first."""
    return x.permute_dims((0, 3, 1, 2))


def last(x):
    """Channels last."""
    return x.permute_dims((0, 2, 3, 1))


def conv(x, w=K, padding=1, **window):
    """A convolution as an importer writes it."""
    return first(pdl.conv2d(last(x), w, padding=padding, **window))


def pool(x):
    return first(pdl.max_pool(last(x), 2))


def larger(x):
    return first(pdl.resize(last(x), scale=2, mode="nearest"))


def norm(x, c=ROW):
    return first(pdl.batch_norm_eval(last(x), c, pdl.abs(c) + 0.5, c, c))


def squeeze_excite(x):
    s = x.mean(axis=(2, 3), keepdims=True)
    return x * pdl.hardsigmoid(conv(pdl.relu(conv(s, K2, 0)), K2, 0))


def halves(x):
    """The channels [2, 6] shuffled, as two arrays; `torch.chunk` of a channel shuffle, as exporters write it."""
    n, _, h, w = x.shape
    return x.reshape((n, 6, 2, h, w)).permute_dims((2, 0, 1, 3, 4)).reshape((2, n, 6, h, w))


ENDS = {"PermuteDims": 2}  # one at the input, one at the output
PATTERNS = {
    "a block": Pattern(lambda x: conv(pdl.relu(norm(conv(x)))), IMAGES, {**ENDS, "ConvThen": 1, "Conv": 1}, OTHER),
    "residual": Pattern(lambda x: pdl.relu(conv(y := conv(x)) + y), IMAGES, {**ENDS, "ConvThen": 1, "Conv": 1}, OTHER),
    "bias and scale of channels": Pattern(lambda x: conv(x) * COLUMN + COLUMN, IMAGES, {**ENDS, "Conv": 1}, OTHER),
    "squeeze and excitation": Pattern(
        lambda x: conv(squeeze_excite(conv(x))), IMAGES, {**ENDS, "Mean": 1, "Conv": 2, "ConvThen": 2, "Multiply": 1},
        OTHER),
    "concat": Pattern(
        lambda x: conv(pdl.concat([y := conv(x), pool(larger(y))], axis=1), DOUBLE), IMAGES,
        {**ENDS, "Conv": 2, "Resize": 2, "MaxPool": 1, "Concat": 1}, OTHER),
    "pad and slice": Pattern(
        lambda x: conv(pdl.pad(conv(x), ((0, 0), (0, 0), (1, 2), (0, 3)))[:, :, 1:, ::2], K, 0), IMAGES,
        {**ENDS, "Conv": 2, "Pad": 1, "GetItem": 1}, OTHER),
    "an index takes an axis": Pattern(
        lambda x: conv(x)[:, 0], IMAGES, {"PermuteDims": 1, "Conv": 1, "GetItem": 1}, OTHER),
    "softmax over channels": Pattern(
        lambda x: conv(pdl.softmax(conv(x), axis=1)), IMAGES, {**ENDS, "Conv": 2, "Softmax": 1}, OTHER),
    "arg max of channels": Pattern(
        lambda x: pdl.argmax(conv(x), axis=1), IMAGES, {"PermuteDims": 1, "Conv": 1, "ArgMax": 1}, OTHER),
    "a classifier": Pattern(
        lambda x: conv(x).mean(axis=(2, 3)) @ LINEAR, IMAGES, {"PermuteDims": 1, "Conv": 1, "Mean": 1, "Linear": 1},
        OTHER),
    "pooled, kept, flattened": Pattern(
        lambda x: pdl.flatten(conv(x).mean(axis=(2, 3), keepdims=True), start=1) @ LINEAR, IMAGES,
        {"PermuteDims": 1, "Conv": 1, "Mean": 1, "Reshape": 1, "Linear": 1}, OTHER),
    "flattened images": Pattern(
        lambda x: pdl.flatten(pool(conv(x)), start=1) @ FLAT, [(N, 6, 4, 6)],
        {"PermuteDims": 1, "Conv": 1, "MaxPool": 1, "Reshape": 1, "Linear": 1}, ({"n": 1},)),
    "positions as tokens": Pattern(
        lambda x: (y := conv(x)).reshape((y.shape[0], 6, -1)).permute_dims((0, 2, 1)) @ LINEAR, IMAGES,
        {"PermuteDims": 1, "Conv": 1, "Reshape": 1, "Linear": 1}, OTHER),
    "tokens as positions": Pattern(
        lambda x: conv((x @ SQUARE).permute_dims((0, 2, 1)).reshape((x.shape[0], 6, 1, x.shape[1]))), [(N, W, 6)],
        {"Linear": 1, "Reshape": 1, "Conv": 1, "PermuteDims": 1}, ({"n": 1, "w": 4},)),
    "one row of pixels": Pattern(
        lambda x: pdl.squeeze(conv(x, ROWS, 0), axis=2).permute_dims((0, 2, 1)) @ LINEAR, [(N, 6, 3, W)],
        {"PermuteDims": 1, "Conv": 1, "Reshape": 1, "Linear": 1}, ({"n": 1, "w": 4},)),
    "where": Pattern(
        lambda x: conv(pdl.where(pdl.greater(y := conv(x), 0.0), y, y * COLUMN)), IMAGES,
        {**ENDS, "Conv": 2, "Greater": 1, "Multiply": 1, "Where": 1}, OTHER),
    "prelu of lower rank": Pattern(
        lambda x: conv(pdl.maximum(y := conv(x), y * COLUMN.reshape((6, 1, 1)))), IMAGES,
        {**ENDS, "Conv": 2, "Multiply": 1, "Maximum": 1}, OTHER),
    "layer norm over channels": Pattern(
        lambda x: (y := conv(x), ((d := y - y.mean(axis=1, keepdims=True))
                   / pdl.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-6)) * COLUMN + COLUMN)[1], IMAGES,
        {**ENDS, "Conv": 1, "LayerNorm": 1}, OTHER),
    "ones alone": Pattern(
        lambda x: last(x).reshape((x.shape[0], 6)) * 2.0, [(N, 6, 1, 1)], {"Reshape": 1, "Multiply": 1}, ({"n": 1},)),
    "another array stays as it is": Pattern(
        lambda x, y: conv(x) + y, [*IMAGES, *IMAGES], {**ENDS, "Conv": 1, "Add": 1}, OTHER),
    "nothing to gain": Pattern(lambda x: first(x) * 2.0, [(N, H, W, 6)], {"PermuteDims": 1, "Multiply": 1}, OTHER),
    "a sum with itself, swapped": Pattern(
        lambda x: x + x.permute_dims((0, 2, 1)), [(N, 4, 4)], {"PermuteDims": 1, "Add": 1}, ({"n": 1},)),
    "a sum with itself, ones swapped": Pattern(
        lambda x: x + x.permute_dims((0, 2, 1)), [(2, 1, 1)], {"Add": 1}),
    "channels shuffled, half of them convolved": Pattern(
        lambda x: pdl.concat([(y := halves(x))[0], conv(y[1])], axis=1), [(N, 12, H, W)],
        {"PermuteDims": 2, "Reshape": 1, "GetItem": 2, "Conv": 1, "Concat": 1}, OTHER),
    "channels split in groups": Pattern(
        lambda x: conv((y := conv(x)).reshape((y.shape[0], 2, 3, *y.shape[2:])).permute_dims((0, 2, 1, 3, 4))
                       .reshape(y.shape)), IMAGES, {"PermuteDims": 3, "Conv": 2, "Reshape": 2}, OTHER),
}  # fmt: skip
DOUBLE, FLAT, SQUARE, ROWS = r(3, 3, 12, 6), r(36, 5), r(6, 6), r(3, 1, 6, 6)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str) -> None:
    program = check(PATTERNS[name])
    assert moved_bytes(program) <= moved_bytes(traced(PATTERNS[name].function, PATTERNS[name].shapes))


def test_undone_where_more_bytes_would_move() -> None:
    """Behind the sum, what is as large as four inputs would be permuted."""

    def function(x):
        return pdl.concat([x.permute_dims((1, 0))] * 4, axis=1)

    program = traced(function, [(N, 6)])
    before = program.text()
    run_passes(program, (sink_permutations,))
    assert moved_bytes(program) == 3 * 6 * 4
    assert program.text() == before


@pytest.mark.parametrize(("a", "b", "blocks"), [
    ((2, 3, 4), (6, 4), [([0, 1], [0]), ([2], [1])]),
    ((6, 4), (2, 3, 4), [([0], [0, 1]), ([1], [2])]),
    ((2, 1, 6), (1, 2, 1, 3, 2, 1), [([0], [0, 1]), ([2], [2, 3, 4, 5])]),
    ((N, 6, H), (N, 2, 3, H), [([0], [0]), ([1], [1, 2]), ([2], [3])]),
    ((N, H, W), (N, H * W), [([0], [0]), ([1, 2], [1])]),
    ((N, 6), (3, 6), None),  # equal in the example alone
    ((4, 6), (6, 4), [([0, 1], [0, 1])]),
    ((1, 1), (1,), []),
])  # fmt: skip
def test_blocks(a, b, blocks) -> None:
    assert _blocks(a, b) == blocks


class Net(nn.Module):
    """A small net in NCHW style with all that image nets have."""

    def __init__(self) -> None:
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(4)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(8) for _ in range(4)])
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = first(self.stem(last(x)))
        for layer, batch_norm in zip(self.blocks, self.norms, strict=True):
            x = pdl.relu(x + first(batch_norm(last(first(layer(last(x)))))))
        return self.head(pdl.flatten(x.mean(axis=(2, 3), keepdims=True), start=1))


def test_a_net_has_no_permutation_per_layer() -> None:
    net = Net().eval()
    check(Pattern(
        net, [(N, 3, H, W)], {"PermuteDims": 1, "Conv": 1, "ConvThen": 4, "Mean": 1, "Reshape": 1, "Linear": 1}, OTHER
    ))  # fmt: skip


def test_an_empty_program_stays() -> None:
    program = Program()
    sink_permutations(program)
    assert counts(program) == {}
    assert np.array_equal(program.nodes, [])
