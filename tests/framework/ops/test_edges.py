"""What lies at the edges of ops: no elements, strided parameters, points without a slope, sizes beyond the plain."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.errors import GradientError, ShapeError
from pdl.testing.case import draws

f, _ = draws(5)


def tensor(*shape: int, grad: bool = True) -> pdl.Tensor:
    return pdl.Tensor(f(*shape), requires_grad=grad)


@pytest.mark.parametrize(("batch", "queries"), [(2, 0), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_without_queries(batch: int, queries: int, dtype: str) -> None:
    sizes = ((batch, 2, queries, 4), (batch, 2, 3, 4), (batch, 2, 3, 4))
    q, k, v = (pdl.Tensor(f(*shape), dtype=dtype, requires_grad=True) for shape in sizes)
    y = pdl.scaled_dot_product_attention(q, k, v)
    y.sum().backward()
    assert y.shape == q.shape
    for x in (q, k, v):
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy().astype(float), np.zeros(x.shape))


STRIDED = {
    "linear": lambda x, scale, shift: pdl.linear(x, pdl.eye(4, dtype=x.dtype), shift),
    "group_norm": lambda x, scale, shift: pdl.group_norm(x, scale, shift, groups=2),
    "instance_norm": lambda x, scale, shift: pdl.instance_norm(x, scale, shift),
    "layer_norm": lambda x, scale, shift: pdl.layer_norm(x, scale, shift),
    "batch_norm": lambda x, scale, shift: pdl.batch_norm(x, scale, shift)[0],
}


@pytest.mark.parametrize("name", STRIDED)
def test_parameters_need_not_be_contiguous(name: str) -> None:
    x, scale, shift = tensor(2, 3, 3, 4), tensor(8, grad=False)[::2], tensor(8, grad=False)[1::2]
    outcomes: list[tuple[np.ndarray, np.ndarray]] = []
    for parameters in ((scale, shift), (scale.clone(), shift.clone())):
        x.grad = None
        y = STRIDED[name](x, *parameters)
        pdl.sum(y * y).backward()
        assert x.grad is not None
        outcomes.append((y.detach().numpy(), x.grad.numpy()))
    for found, expected in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("function", [pdl.atan2, pdl.hypot], ids=lambda function: function.__name__)
def test_no_gradient_at_the_origin(function: object) -> None:
    a, b = (pdl.zeros(2, requires_grad=True) for _ in "ab")
    function(a, b).sum().backward()  # type: ignore[operator]
    for x in (a, b):
        assert x.grad is not None
        np.testing.assert_array_equal(x.grad.numpy(), np.zeros(2))


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize(("stride", "more"), [(1, 1), (1, 2), (2, 2), (2, 3)])
def test_output_padding_beyond_the_stride(padding: int, stride: int, more: int) -> None:
    """Smaller than the dilation is enough: one element more each time is the sum of its own shift."""
    x, w = tensor(1, 3, 2), tensor(2, 1, 2)
    y = pdl.conv_transpose1d(x, w, stride=stride, padding=padding, output_padding=more, dilation=4)
    whole = np.zeros((2 * stride + 4 + 1 + more, 1))
    for i in range(3):
        for k in range(2):
            whole[i * stride + 4 * k] += w.detach().numpy()[k] @ x.detach().numpy()[0, i]
    np.testing.assert_allclose(y.detach().numpy()[0], whole[padding : len(whole) - padding], atol=1e-12)
    y.sum().backward()
    assert x.grad is not None


def test_a_transposed_convolution_of_negative_size_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"conv_transpose2d: padding \(3, 3\) takes more than the cells"):
        pdl.conv_transpose2d(tensor(1, 1, 1, 2), tensor(1, 1, 4, 2), padding=3)


def test_what_reads_values_or_needs_dimensions() -> None:
    with pytest.raises(ShapeError, match="nonzero: a tensor without dimensions"):
        pdl.nonzero(pdl.tensor(3))
    with pytest.raises(ShapeError, match=r"repeat: 2 repeats for the 3 elements of axis 0"):
        pdl.repeat(pdl.arange(3), [1, 2])
    with pytest.raises(ShapeError, match="copy is False"):
        pdl.reshape(pdl.ones((2, 3)).T, (6,), copy=False)
    with pytest.raises(ShapeError, match=r"cumulative_sum: x .* axis says along which"):
        pdl.cumulative_sum(pdl.ones((2, 3)))
    x = pdl.arange(6)
    assert not np.may_share_memory(x.data, pdl.reshape(x, (2, 3), copy=True).data)
    assert np.may_share_memory(x.data, pdl.reshape(x, (2, 3), copy=False).data)


def test_vectors_of_no_gradient() -> None:
    x = tensor(4, 2)
    with pytest.raises(GradientError, match="svd: vectors beyond the singular values are any basis"):
        pdl.linalg.svd(x).U.sum().backward()
    with pytest.raises(GradientError, match="qr: columns of Q beyond those of x are any basis"):
        pdl.linalg.qr(x, mode="complete").Q.sum().backward()
