"""Boxes and regions: gradients of CIoU, ties, numbers of threads, programs of any batch, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pdl
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.errors import PdlError, ShapeError, UsageError
from pdl.export.onnx import to_onnx
from pdl.ops.base import Spec
from pdl.program import trace
from pdl.runtime import Session
from pdl.threads import num_threads

from .cases_boxes import drawn, measured

R = np.random.default_rng(0)


def turn(a: Any, b: Any) -> float:
    widths = (np.arctan2(v[2] - v[0], v[3] - v[1]) for v in (b, a))
    return 4 / np.pi**2 * (next(widths) - next(widths)) ** 2


@pytest.mark.parametrize("case", range(6))
def test_the_gradient_of_ciou_has_a_constant_alpha(case: int) -> None:
    """As in the paper and in torchvision: finite differences of diou - alpha v with the alpha of the point itself."""
    a, b = drawn(2)
    iou, v = measured(a, b, "iou"), turn(a, b)
    alpha = v / (1 - iou + v)
    x = pdl.tensor(a, requires_grad=True)
    pdl.box_iou(x[None], pdl.tensor(b)[None], kind="ciou").sum().backward()
    assert x.grad is not None
    for side in range(4):
        step = np.eye(4)[side] * 1e-6
        high, low = (measured(p, b, "diou") - alpha * turn(p, b) for p in (a + step, a - step))
        assert_allclose(x.grad.numpy()[side], (high - low) / 2e-6, rtol=1e-5, atol=1e-8)


def test_angles_in_single_precision() -> None:
    """Boxes of all shapes, from a line to another: 1 - ciou of a box and the square in its middle."""
    width = np.concatenate([np.geomspace(1e-6, 1e6, 4001), [0.0]])
    boxes = np.stack([-width / 2, np.full_like(width, -0.5), width / 2, np.full_like(width, 0.5)], axis=-1)
    square = np.array([[-0.5, -0.5, 0.5, 0.5]])
    wide, single = (
        pdl.box_iou(boxes.astype(t), square.astype(t), kind="ciou").numpy() for t in (np.float64, np.float32)
    )
    assert_allclose(single, wide, atol=1e-6)


def test_both_sides_learn_alike() -> None:
    a, b = (pdl.tensor(drawn(5, 4), requires_grad=True) for _ in range(2))
    for kind in ("iou", "giou", "diou", "ciou"):
        mine = pdl.autograd.grad(pdl.box_iou_loss(a, b, kind=kind).sum(), [a, b])
        theirs = pdl.autograd.grad(pdl.box_iou_loss(b, a, kind=kind).sum(), [a, b])
        for x, y in zip(mine, theirs, strict=True):
            assert_allclose(x.numpy(), y.numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", ["hard", "linear", "gaussian", "matrix", "none"])
@pytest.mark.parametrize("images", [1, 3])
def test_the_number_of_threads_changes_no_bit(kind: Any, images: int) -> None:
    """Many scores are equal, so that places decide; several threads look through one image."""
    boxes = drawn(images, 9000, span=100.0).astype(np.float32)
    scores = np.round(R.uniform(0, 1, (images, 9000, 20)), 2).astype(np.float32)
    found = []
    for threads in (1, 2, 3):
        with num_threads(threads):
            found.append(pdl.select_boxes(boxes, scores, kind=kind, candidates=700, most=300, iou_threshold=0.2))
    for one, other in zip(found[0] * 2, found[1] + found[2], strict=True):
        assert_array_equal(one.numpy(), other.numpy())


def test_the_gradient_of_regions_is_the_same_for_all_numbers_of_threads() -> None:
    """Regions that overlap, reach over edges or lie on no image, and rows that belong to several threads."""
    rois, index = drawn(200, span=40.0, largest=30.0) - 5, R.integers(-1, 2, 200)
    found = []
    for threads in (1, 2, 3):
        with num_threads(threads):
            x = pdl.tensor(np.ones((2, 37, 29, 19), np.float32), requires_grad=True)
            y = pdl.roi_align(x, rois.astype(np.float32), index, size=(5, 4))
            g = np.linspace(-1, 1, y.size, dtype=np.float32).reshape(y.shape)
            found += pdl.autograd.grad([y], [x], [pdl.tensor(g)])
    assert_array_equal(found[0].numpy(), found[1].numpy())
    assert_array_equal(found[0].numpy(), found[2].numpy())


@pytest.mark.parametrize("count", [1, 7, 64, 129, 1000])
def test_candidates_are_the_best_scores(count: int) -> None:
    scores = np.round(R.uniform(0, 1, (2, 777, 3)), 3)
    scores[0, 5] = np.nan
    *_, labels, index = pdl.select_boxes(
        np.zeros((2, 777, 4)), scores, kind="none", candidates=count, most=1000, score_threshold=0.3
    )
    for image in range(2):
        flat = np.where(np.isnan(scores[image]), -1, scores[image]).reshape(-1)
        best = [k for k in np.argsort(-flat, kind="stable") if flat[k] > 0.3][:count]
        assert_array_equal(index.numpy()[image, : len(best)] * 3 + labels.numpy()[image, : len(best)], best)
        assert (labels.numpy()[image, len(best) :] == -1).all()


@pytest.mark.parametrize("opset", [13, 17])
def test_a_program_serves_any_number_of_images(opset: int, tmp_path: Path) -> None:
    def select(boxes: Any, scores: Any) -> Any:
        return pdl.select_boxes(boxes, scores, most=7, iou_threshold=0.3, score_threshold=0.3, candidates=40)

    n = Dim.symbol("n", 3)
    program = trace(select, Spec((n, 30, 4), float32), Spec((n, 30, 2), float32))
    session = Session.of(program)
    to_onnx(program, tmp_path / "x.onnx", opset=opset)
    theirs = pytest.importorskip("onnxruntime").InferenceSession(
        str(tmp_path / "x.onnx"), providers=["CPUExecutionProvider"]
    )
    for images in (1, 2, 5):
        given = drawn(images, 30).astype(np.float32), R.uniform(0, 1, (images, 30, 2)).astype(np.float32)
        want = [y.numpy() for y in select(*given)]
        feed = {"x0": given[0], "x1": given[1]}
        for found in (list(session.run(feed).values()), theirs.run(None, feed)):
            for y, expected in zip(found, want, strict=True):
                assert_array_equal(y, expected)


IMAGE = np.zeros((1, 4, 5, 3))


def deformed(offset: tuple[int, ...] = (1, 4, 5, 18), mask: tuple[int, ...] = (1, 4, 5, 9)) -> pdl.Tensor:
    weights = np.zeros((3, 3, 3, 2))
    return pdl.deform_conv2d(IMAGE, np.zeros(offset), weights, mask=np.zeros(mask), padding=1)


REFUSED: list[tuple[Callable[[], Any], type[PdlError], str]] = [
    (lambda: pdl.box_iou(np.zeros((2, 5)), np.zeros((2, 4))), ShapeError, r"a \(2, 5\) and b \(2, 4\); expected"),
    (lambda: pdl.box_iou(np.zeros((2, 4)), np.zeros((2, 4)), kind="eiou"), UsageError, "none of iou, giou, diou, ciou"),
    (lambda: pdl.box_iou_loss(np.zeros((2, 4)), np.zeros((3, 4))), ShapeError, r"targets \(3, 4\)"),
    (lambda: pdl.nms(np.zeros((2, 4)), np.zeros(3), iou_threshold=0.5), ShapeError, r"scores \(3,\)"),
    (lambda: pdl.nms(np.zeros((2, 4)), np.zeros(2), iou_threshold=1.5), UsageError, "iou_threshold is 1.5"),
    (lambda: pdl.select_boxes(np.zeros((1, 2, 4)), np.zeros((1, 3, 2))), ShapeError, r"scores \(1, 3, 2\)"),
    (lambda: pdl.select_boxes(np.zeros((1, 2, 4)), np.zeros((1, 2, 2)), most=0), UsageError, "most is 0"),
    (
        lambda: pdl.roi_align(IMAGE, np.zeros((2, 4)), np.array([0, 1]), size=(2, 2)),
        ShapeError,
        "region 1 lies on image 1",
    ),
    (
        lambda: pdl.roi_align(IMAGE, np.zeros((1, 4)), np.array([0]), size=(2, 2), mode="sum"),
        UsageError,
        "'avg' or 'max'",
    ),
    (
        lambda: deformed(offset=(1, 4, 5, 20)),
        ShapeError,
        r"offset \(1, 4, 5, 20\); expected \(1, 4, 5\) and 18 numbers",
    ),
    (
        lambda: deformed(offset=(1, 4, 4, 18)),
        ShapeError,
        r"offset \(1, 4, 4, 18\); expected \(1, 4, 5\) and 18 numbers",
    ),
    (lambda: deformed(mask=(1, 4, 5, 18)), ShapeError, r"mask \(1, 4, 5, 18\); expected \(1, 4, 5, 9\)"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], error: type[PdlError], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
