"""Weights packed for given sizes: what is rewritten, what plans share."""

from __future__ import annotations

import numpy as np

import pdl
from pdl import machine
from pdl.program import Program
from pdl.program.passes import INFERENCE_ONCE, PER_SHAPE, run_passes
from pdl.program.passes.pack import PackCache
from pdl.program.verify import verify
from pdl.runtime import Session
from pdl.threads import num_threads

from .rewriting import counts, r, run, traced

W3, W1, DEPTH, ROWS = r(3, 3, 32, 48), r(1, 1, 48, 40), r(3, 3, 1, 40), r(40, 10)
BIAS = r(48)


def net(x: pdl.Tensor) -> pdl.Tensor:
    """Winograd, a pointwise layer with a residual, a depthwise one, and a linear layer."""
    x = pdl.relu(pdl.conv2d(x, W3, BIAS, padding=1))
    x = pdl.conv2d(x, W1)
    x = pdl.relu(pdl.conv2d(x, DEPTH, padding=1, groups=40) + x)
    return pdl.linear(x.mean(axis=(1, 2)), ROWS)


def packed(cache: PackCache, size: int) -> Program:
    program = run_passes(traced(net, [(2, size, size, 32)]), INFERENCE_ONCE)
    return run_passes(program, (cache,))


def test_products_of_constants_are_packed_and_give_the_same_numbers() -> None:
    program = packed(PackCache(), 12)
    found = counts(program)
    assert (found["PackedConv"], found["PackedLinear"], found["ConvThen"]) == (2, 1, 1)  # depthwise stays
    assert not any(v.tensor is W3 for v in program.captures), "the weights as they were are read no more"
    x = np.random.default_rng(0).standard_normal((2, 12, 12, 32)).astype(np.float32)
    with pdl.no_grad():
        expected = net(pdl.Tensor(x)).data
    np.testing.assert_allclose(run(program, [x])[0], expected, atol=2e-4)


WIDE, WINDOW, BACK = r(1, 1, 8, 96), r(3, 3, 1, 96), r(1, 1, 96, 8)


def bottleneck(x: pdl.Tensor) -> pdl.Tensor:
    """An inverted bottleneck with a residual."""
    y = pdl.relu6(pdl.conv2d(pdl.relu6(pdl.conv2d(x, WIDE)), WINDOW, padding=1, groups=96))
    return x + pdl.conv2d(y, BACK)


def test_what_would_leave_the_cache_is_computed_inside_the_depthwise_convolution() -> None:
    near = machine.current(False).sizes["L2"]
    large = next(size for size in range(16, 2048, 16) if size * size * 96 * 4 > near)
    for size, fused in ((8, 0), (large, 1)):
        program = run_passes(traced(bottleneck, [(1, size, size, 8)]), INFERENCE_ONCE)
        run_passes(program, (PackCache(),))
        assert counts(program).get("ExpandDepthwise", 0) == fused
        x = np.random.default_rng(0).standard_normal((1, size, size, 8)).astype(np.float32)
        with pdl.no_grad():
            expected = bottleneck(pdl.Tensor(x)).data
        for threads in (1, 3):
            with num_threads(threads):
                np.testing.assert_allclose(run(program, [x])[0], expected, atol=2e-4)


def test_plans_share_what_is_packed_alike() -> None:
    cache = PackCache()
    first = packed(cache, 12)
    held = cache.nbytes
    second = packed(cache, 13)
    assert cache.nbytes == held
    weights, again = (
        {v.tensor._data.ctypes.data for v in p.captures if v.tensor is not None and v.nbytes > 4096}
        for p in (first, second)
    )
    assert weights
    assert weights == again


def test_positions_of_maxima_that_nothing_reads_are_not_written() -> None:
    x = np.random.default_rng(0).standard_normal((2, 9, 8, 5)).astype(np.float32)
    for read in (False, True):
        program = traced(lambda t, read=read: pdl.max_pool(t, 3, stride=2, return_index=read), [x.shape])
        run_passes(program, (*INFERENCE_ONCE, *PER_SHAPE))
        assert [len(node.outputs) for node in program.nodes] == [1 + read]
        expected = pdl.max_pool(pdl.Tensor(x), 3, stride=2, return_index=read)
        for found, y in zip(run(program, [x]), expected if read else [expected], strict=True):
            np.testing.assert_array_equal(found, y.data)


def test_weights_that_change_between_runs_stay() -> None:
    program = traced(lambda x, w: pdl.matmul(x, w), [(3, 4), (4, 5)])
    run_passes(verify(program), (PackCache(),))
    assert counts(program) == {"MatMul": 1}


def test_a_session_packs() -> None:
    session = Session.of(traced(net, [(2, 12, 12, 32)]))
    x = np.ones((2, 12, 12, 32), np.float32)
    with pdl.no_grad():
        np.testing.assert_allclose(session.run({"x0": x})["y"], net(pdl.Tensor(x)).data, atol=5e-4)
    assert session.engine.pack_weights.nbytes > 0  # type: ignore[attr-defined]


def test_sparse_weights_are_blocks_and_give_the_same_numbers() -> None:
    """Timed, estimated, and shared by plans; zeros that do not lie side by side leave a product as it is."""
    draws = np.random.default_rng(0)
    kept = draws.random((128, 8)) < 0.1
    weight, apart = r(1, 1, 128, 128), r(128, 128)
    weight.data[0, 0] *= np.repeat(kept, 16, axis=1)
    apart.data[...] *= draws.random((128, 128)) < 0.1

    def sparse(x: pdl.Tensor) -> pdl.Tensor:
        return pdl.linear(pdl.relu(pdl.conv2d(x, weight)).mean(axis=(1, 2)), apart)

    x = draws.standard_normal((2, 14, 14, 128)).astype(np.float32)
    with pdl.no_grad():
        expected = sparse(pdl.Tensor(x)).data
    cache = PackCache()
    program = run_passes(traced(sparse, [x.shape]), INFERENCE_ONCE)
    run_passes(program, (cache,))
    found = {type(n.op).__name__: (n.op.form, n.op.kept) for n in program.nodes if "Packed" in type(n.op).__name__}
    assert found == {"PackedConv": ("blocks", int(kept.sum())), "PackedLinear": ("rows", 0)}
    assert cache.nbytes < 0.2 * weight.data.nbytes + 1.1 * apart.data.nbytes
    np.testing.assert_allclose(run(program, [x])[0], expected, atol=2e-4)
