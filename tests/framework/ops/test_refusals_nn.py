"""What activations, norms, losses and attention refuse: the message names the op, both numbers and the rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pdl
from pdl.errors import DataError, DtypeError, PdlError, ShapeError, UsageError


def x(*shape: int, dtype: str = "float32") -> pdl.Tensor:
    return pdl.Tensor(np.ones(shape, dtype))


def labels(*values: int) -> pdl.Tensor:
    return pdl.Tensor(np.array(values))


REFUSED: list[tuple[Callable[[], object], type[PdlError], str]] = [
    (lambda: pdl.relu(x(3, dtype="int64")), DtypeError, r"relu: x is int64; expected float32, float64 or bfloat16"),
    (lambda: pdl.softmax(x(2, 3), axis=2), ShapeError, r"softmax: axis 2 is outside \[-2, 1\]"),
    (lambda: pdl.gelu(x(2), approximate="fast"), UsageError, r"gelu: approximate is 'fast'; expected 'none' or 'tanh'"),
    (lambda: pdl.glu(x(2, 5)), ShapeError, r"glu: axis 1 of x \(2, 5\) has 5 elements, which do not halve"),
    (lambda: pdl.prelu(x(2, 5), x(4)), ShapeError, r"prelu: weight \(4,\) is neither one value nor the 5 channels"),
    (lambda: pdl.dropout(x(2), p=1.5), UsageError, r"dropout: p 1.5 is outside \[0, 1\]"),
    (lambda: pdl.hardtanh(x(2), low=1, high=-1), UsageError, r"hardtanh: low 1 must be below high -1"),
    (lambda: pdl.batch_norm(x(1, 4)), ShapeError, r"batch_norm: x \(1, 4\) has one value for each channel"),
    (lambda: pdl.batch_norm(x(0, 4)), ShapeError, r"batch_norm: x \(0, 4\) has no values"),
    (
        lambda: pdl.batch_norm(x(2, 4), x(3)),
        ShapeError,
        r"batch_norm: scale \(3,\) does not fit the 4 channels of x \(2, 4\)",
    ),
    (lambda: pdl.batch_norm(x(2, 4), x(4, dtype="float64")), DtypeError, r"scale is float64 beside x in float32"),
    (
        lambda: pdl.batch_norm(x(2, 4), residual=x(2, 1)),
        ShapeError,
        r"residual \(2, 1\) float32 is not like x \(2, 4\)",
    ),
    (lambda: pdl.batch_norm(x(2, 4), activation="gelu"), UsageError, r"activation is 'gelu'; expected None or one of"),
    (lambda: pdl.layer_norm(x(2, 4), dims=3), ShapeError, r"layer_norm: dims 3 is outside \[1, 2\]"),
    (
        lambda: pdl.layer_norm(x(2, 3, 4), x(4), dims=2),
        ShapeError,
        r"scale \(4,\) does not fit the last 2 sizes \(3, 4\)",
    ),
    (
        lambda: pdl.group_norm(x(2, 5, 4), groups=3),
        ShapeError,
        r"the 4 channels of x \(2, 5, 4\) do not divide into 3 groups",
    ),
    (lambda: pdl.local_response_norm(x(2, 4), size=0), UsageError, r"local_response_norm: size 0 must be at least 1"),
    (
        lambda: pdl.cross_entropy(x(2, 3), labels(0, 3)),
        DataError,
        r"label 3 at position 1 is none of the 3 classes 0..2",
    ),
    (lambda: pdl.cross_entropy(x(2, 3), labels(0)), ShapeError, r"logits \(2, 3\) .* need labels \(2,\), got \(1,\)"),
    (lambda: pdl.cross_entropy(x(2, 3), x(2, 4)), ShapeError, r"probabilities \(2, 3\) float32, got \(2, 4\) float32"),
    (lambda: pdl.cross_entropy(x(2, 3), x(2, 3), weight=x(4)), ShapeError, r"weight \(4,\) does not fit the 3 classes"),
    (
        lambda: pdl.cross_entropy(x(2, 3), labels(0, 1), weight=x(2)),
        ShapeError,
        r"weight \(2,\) does not fit the 3 classes",
    ),
    (
        lambda: pdl.cross_entropy(x(2, 3), labels(0, 1), label_smoothing=2),
        UsageError,
        r"label_smoothing 2 is outside \[0, 1\]",
    ),
    (
        lambda: pdl.cross_entropy(x(2, 3), labels(0, 1), reduction="max"),
        UsageError,
        r"reduction is 'max'; expected 'mean'",
    ),
    (lambda: pdl.mse_loss(x(2, 3), x(3)), ShapeError, r"mse_loss: prediction \(2, 3\) and target \(3,\) differ"),
    (
        lambda: pdl.nll_loss(x(2, 3), labels(0)),
        ShapeError,
        r"nll_loss: log_p \(2, 3\) .* needs labels \(2,\), got \(1,\)",
    ),
    (
        lambda: pdl.scaled_dot_product_attention(x(2, 3), x(2, 4), x(2, 4)),
        ShapeError,
        r"q \(2, 3\) has 3 features, k \(2, 4\) has 4",
    ),
    (
        lambda: pdl.scaled_dot_product_attention(x(2, 3), x(5, 3), x(4, 4)),
        ShapeError,
        r"k \(5, 3\) has 5 positions, v \(4, 4\) has 4",
    ),
    (lambda: pdl.scaled_dot_product_attention(x(2, 3), x(5, 3), x(5, 4), mask=x(3, 5)), ShapeError, r"mask \(3, 5\)"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_refusal(call: Callable[[], object], error: type[PdlError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_dropout_keeps_the_mean_and_repeats_with_the_seed() -> None:
    pdl.seed(3)
    first = pdl.dropout(x(1000, 100), p=0.3).numpy()
    pdl.seed(3)
    np.testing.assert_array_equal(pdl.dropout(x(1000, 100), p=0.3).numpy(), first)
    assert abs(first.mean() - 1) < 0.01
    assert abs((first == 0).mean() - 0.3) < 0.01
    data = x(5)
    assert pdl.dropout(data, p=0.3, training=False) is data
    assert not pdl.dropout(data, p=1.0).numpy().any()


def test_mean_over_no_labels_is_nan() -> None:
    logits = pdl.Tensor(np.zeros((2, 3), np.float32), requires_grad=True)
    loss = pdl.cross_entropy(logits, labels(-100, -100))
    assert np.isnan(loss.item())
    loss.backward()
    np.testing.assert_array_equal(logits.grad.numpy(), np.zeros((2, 3)))
