"""The tape: leaves, hooks, freed graphs, second order, the NaN check."""

from __future__ import annotations

import gc
import inspect
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import autograd
from pdl.errors import GradientError, NumericalError, ShapeError
from pdl.ops.base import Fused, Spec, apply


def leaf(*values: float) -> pdl.Tensor:
    return pdl.tensor(list(values), dtype="float64", requires_grad=True)


def here(offset: int = 0) -> str:
    """'file:line' of the caller, `offset` lines further down."""
    frame = inspect.stack()[1]
    return f"{frame.filename}:{frame.lineno + offset}"


def test_backward_adds_to_the_leaves() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [5.0, 7.0]
    assert x.is_leaf
    assert not (x * x).is_leaf


def test_a_tensor_used_twice_gets_both_gradients() -> None:
    x = leaf(2.0)
    y = x * x
    ((y + y) * y).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 8 * 2.0**3


def test_no_grad_detach_and_constants() -> None:
    x = leaf(1.0, 2.0)
    with pdl.no_grad():
        assert not (x * 2).requires_grad
        assert not pdl.is_grad_enabled()
    assert pdl.is_grad_enabled()

    @pdl.no_grad()
    def twice(t: pdl.Tensor) -> pdl.Tensor:
        return t * 2

    assert not twice(x).requires_grad
    assert not twice(x).requires_grad
    assert not (x > 1).requires_grad
    assert not pdl.argmax(x).requires_grad
    (x * x.detach()).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 2.0]
    with pytest.raises(GradientError, match="detach"):
        x.numpy()


def test_gradients_of_intermediate_tensors() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    z = (y * y).sum()
    dy, dx = autograd.grad(z, [y, x])
    assert dy is not None
    assert dx is not None
    assert dy.tolist() == [2.0, 8.0]
    assert dx.tolist() == [4.0, 32.0]
    assert x.grad is None
    with pytest.raises(GradientError, match="no output depends on input 0"):
        autograd.grad((x * 1).sum(), [leaf(1.0)])
    assert autograd.grad((x * 1).sum(), [leaf(1.0)], allow_unused=True) == (None,)


def test_hooks_see_and_replace_gradients() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    seen: list[list[float]] = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 10)
    handle = x.register_hook(lambda g: g + 1)
    y.sum().backward(retain_graph=True)
    assert seen == [[1.0, 1.0]]
    assert x.grad is not None
    assert x.grad.tolist() == [21.0, 21.0]
    handle.remove()
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]
    with pytest.raises(GradientError, match="would never run"):
        pdl.ones(2).register_hook(lambda g: g)


def test_a_freed_graph_says_so() -> None:
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 4.0
    with pytest.raises(GradientError, match=r"through Sum was freed.*retain_graph=True"):
        y.backward()


def test_backward_frees_what_it_held() -> None:
    x = leaf(1.0)
    y = x * 2
    ghost = weakref.ref(y._node.inputs[1])  # type: ignore[union-attr, index, arg-type]
    z = y.sum()
    gc.disable()
    try:
        z.backward()
        assert ghost() is None
    finally:
        gc.enable()


def test_seeds_and_leaves_are_checked() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(ShapeError, match=r"shape \(2,\) must be given"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"\(3,\) does not fit a tensor of shape \(2,\)"):
        (x * 2).backward(pdl.ones(3))
    with pytest.raises(GradientError, match="no gradient flows"):
        pdl.ones(()).backward()
    with pytest.raises(GradientError, match="int64"):
        pdl.tensor([1], requires_grad=True)
    (x * 2).backward(pdl.tensor([1.0, 10.0], dtype="float64"))
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 20.0]


def test_second_order() -> None:
    x = leaf(0.5, 2.0)
    (g,) = autograd.grad(pdl.sin(x * x).sum(), x, create_graph=True)
    assert g is not None
    (h,) = autograd.grad(g.sum(), x)
    v = np.array([0.5, 2.0])
    assert h is not None
    np.testing.assert_allclose(h.numpy(), 2 * np.cos(v**2) - 4 * v**2 * np.sin(v**2), rtol=1e-12)


def test_third_order_of_a_power() -> None:
    x = leaf(2.0)
    y = (x**4).sum()
    for _ in range(3):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)  # type: ignore[assignment, union-attr]
    assert y.item() == pytest.approx(24 * 2.0)


class WeighedSquare(Fused):
    """a^2 b: an op whose gradient comes from `compose`."""

    def infer(self, a: Spec, b: Spec) -> Spec:
        return a

    def cpu(self, outs: tuple, ins: tuple) -> None:
        np.multiply(ins[0] * ins[0], ins[1], outs[0])

    def compose(self, a: pdl.Tensor, b: pdl.Tensor) -> pdl.Tensor:
        return a * a * b




def weighed_square(a: pdl.Tensor, b: pdl.Tensor) -> pdl.Tensor:
    return apply(WeighedSquare(), a, b)


def test_fused_ops_get_both_orders_from_compose() -> None:
    autograd.gradcheck(weighed_square, [leaf(0.5, 2.0), leaf(1.5, -1.0)])
    autograd.gradgradcheck(weighed_square, [leaf(0.5, 2.0), leaf(1.5, -1.0)])


def test_fused_inputs_that_depend_on_each_other_count_once() -> None:
    autograd.gradgradcheck(lambda x: weighed_square(x, x), [leaf(0.5, 2.0)])
    autograd.gradgradcheck(lambda x: weighed_square(x, pdl.sin(x)), [leaf(0.5, 2.0)])


def test_ties_and_edges() -> None:
    x = leaf(3.0, 3.0, 1.0)
    x.max().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.5, 0.5, 0.0]
    edges = [
        (lambda t: pdl.maximum(t, 3.0), [0.5, 0.5, 0.0]),
        (lambda t: t.clip(1.0, 2.0), [0.0, 0.0, 1.0]),
        (lambda t: pdl.norm(t * 0), [0.0, 0.0, 0.0]),
        (lambda t: (t * 0) ** 0, [0.0, 0.0, 0.0]),
        (lambda t: pdl.abs(t * 0), [0.0, 0.0, 0.0]),
    ]
    for function, want in edges:
        (g,) = autograd.grad(function(x).sum(), x)
        assert g is not None
        assert g.tolist() == want


def test_gradcheck_finds_a_wrong_gradient() -> None:
    def wrong(x: pdl.Tensor) -> pdl.Tensor:
        return x * x.detach()

    with pytest.raises(GradientError, match=r"gradient of input 0 at \(0,\): vjp 1\.12\d*, finite difference 2\.25"):
        autograd.gradcheck(wrong, [leaf(1.0)])


def test_nan_check_names_op_and_line_of_the_forward() -> None:
    x = leaf(1.0, -1.0)
    with autograd.detect_anomaly():
        with pytest.raises(NumericalError, match="Log: 1 NaN and 0 infinite of 2 values") as caught:
            pdl.log(x)
        assert here(-1) in str(caught.value)
        nan = pdl.tensor([float("nan")])
        assert np.isnan((nan + 1).numpy()).all()  # not made here, so no error
    assert np.isnan(pdl.log(x).detach().numpy()[1])


def test_nan_check_names_the_forward_line_of_a_gradient() -> None:
    x = leaf(0.0, 4.0)
    with autograd.detect_anomaly():
        line, y = here(), pdl.sqrt(x)
        with pytest.raises(NumericalError) as caught:
            y.sum().backward()
    assert "1 infinite" in str(caught.value)
    assert f"in the gradient of Sqrt, called at {line}" in str(caught.value)


def test_complex_gradients_follow_both_parts() -> None:
    z = pdl.tensor([3.0 + 4.0j], dtype="complex128", requires_grad=True)
    pdl.square(pdl.abs(z)).sum().backward()
    assert z.grad is not None
    np.testing.assert_allclose(z.grad.numpy(), [6.0 + 8.0j])
    w = leaf(2.0)
    (w * pdl.tensor([1.0 + 2.0j], dtype="complex128")).imag().sum().backward()
    assert w.grad is not None
    assert w.grad.dtype == np.float64
    assert w.grad.tolist() == [2.0]


def test_no_grad_belongs_to_its_thread() -> None:
    x = pdl.tensor(2.0, requires_grad=True)
    with pdl.no_grad(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x * x).requires_grad).result()
        assert not (x * x).requires_grad


@pytest.mark.parametrize("decorate", [pdl.no_grad, pdl.no_grad()], ids=["bare", "called"])
def test_no_grad_decorates(decorate: Any) -> None:
    @decorate
    def square(x: pdl.Tensor) -> pdl.Tensor:
        return x * x

    x = leaf(2.0)
    assert not square(x).requires_grad
    assert not square(x).requires_grad
    assert (x * x).requires_grad


def test_the_users_line_may_lie_beside_the_package(tmp_path, monkeypatch) -> None:
    """A suite's folder, such as site-packages/pdl_cv, begins like the package's own and is none of it."""
    from pdl.autograd import anomaly

    monkeypatch.setattr(anomaly, "PACKAGE", str(tmp_path / "pdl") + "/")
    for name, lies_outside in (("pdl_cv/net.py", True), ("pdl/ops.py", False)):
        found: dict[str, str] = {}
        code = compile("found['line'] = user_line()", str(tmp_path / name), "exec")
        exec(code, {"found": found, "user_line": anomaly.user_line})
        assert found["line"].startswith(str(tmp_path / name)) is lies_outside
