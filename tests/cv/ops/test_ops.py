"""Target assignment: every check of `pdl.testing`, and drawn images against plain restatements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pdl
from pdl import threads
from pdl.errors import PdlError, ShapeError, UsageError
from pdl.program import Executable, trace
from pdl.tensor import Tensor
from pdl.testing import OpCheck, draws, forward, op_checks, op_faults
from pdl_cv.ops import (
    atss_assign,
    class_targets,
    hard_negatives,
    hungarian_assign,
    max_iou_assign,
    sample_assigned,
    simota_assign,
    take_assigned,
    task_aligned_assign,
)  # fmt: skip
from tests.cv.ops import plain
from tests.cv.ops.draws import boxes_and_labels, grid, predictions

LEVELS = (8, 8.0), (4, 16.0), (2, 32.0)
COUNTS = 64, 16, 4
POINTS, STRIDES = grid(LEVELS)
ANCHORS = np.concatenate([POINTS - 2 * STRIDES[:, None], POINTS + 2 * STRIDES[:, None]], 1)
RNG = np.random.default_rng(3)
BOXES, LABELS = (
    np.array([[[3.0, 5, 40, 33], [10, 8, 50, 60], [0, 0, 0, 0]], [[30, 30, 60, 50]] * 3]),
    np.array([[0, 2, -1], [-1, 1, -1]]),
)
PREDICTED, SCORES = predictions(np.random.default_rng(5), POINTS, 2, 3)
INDEX = max_iou_assign(ANCHORS, BOXES, LABELS, positive=0.5, negative=0.3).numpy()
f, i = draws(4)


def by_max_iou(anchors, boxes, labels, positive, negative, best=True, forced=False):
    return plain.max_iou(anchors, boxes, labels, positive=positive, negative=negative, best=best, forced=forced)


def by_atss(anchors, boxes, labels, levels, k=9):
    return plain.atss(anchors, boxes, labels, levels=levels, k=k)


def by_task(points, predicted, scores, boxes, labels, k=13, alpha=1.0, beta=6.0):
    return plain.task_aligned(points, predicted, scores, boxes, labels, k=k, alpha=alpha, beta=beta)


def by_simota(points, strides, predicted, scores, boxes, labels, radius=2.5, k=10, iou_weight=3.0):
    return plain.simota(points, strides, predicted, scores, boxes, labels, radius=radius, k=k, weight=iou_weight)


def by_targets(index, labels, quality, num_classes):
    return plain.targets(index, labels, quality, num_classes)


def targets_of(index, labels, quality, num_classes):
    return class_targets(index, labels, num_classes=num_classes, quality=quality)


def sampled(index, seed):
    return sample_assigned(index, seed, count=200, positive_share=0.5)  # more than there are: all positives, all others


THRESHOLDS = {"positive": 0.5, "negative": 0.3}
CASES = [
    forward(max_iou_assign, [ANCHORS, BOXES, LABELS], by_max_iou, THRESHOLDS),
    forward(
        max_iou_assign, [np.stack([ANCHORS, ANCHORS + 3]), BOXES, LABELS], by_max_iou, THRESHOLDS | {"best": False}
    ),
    forward(max_iou_assign, [ANCHORS, BOXES, LABELS], by_max_iou, THRESHOLDS | {"forced": True}),
    forward(atss_assign, [ANCHORS, BOXES, LABELS], by_atss, {"levels": COUNTS}),
    forward(task_aligned_assign, [POINTS, PREDICTED, SCORES, BOXES, LABELS], by_task),
    forward(simota_assign, [POINTS, STRIDES, PREDICTED, SCORES, BOXES, LABELS], by_simota),
    forward(hungarian_assign, [f(2, 7, 3), LABELS], lambda cost, labels: plain.hungarian(cost, labels)),
    forward(hungarian_assign, [f(2, 2, 5), i(2, 5)], lambda cost, labels: plain.hungarian(cost, labels)),
    forward(sampled, [INDEX, np.array(7)], lambda index, seed: index),
    forward(hard_negatives, [f(2, 84), INDEX], lambda *a, ratio: plain.hard_negatives(*a, ratio=ratio), {"ratio": 3.0}),
    forward(take_assigned, [BOXES, INDEX], plain.take),
    forward(take_assigned, [LABELS, INDEX], plain.take),
    forward(targets_of, [INDEX, LABELS, None], by_targets, {"num_classes": 3}),
    forward(targets_of, [INDEX, LABELS, f(2, 84)], by_targets, {"num_classes": 3}),
]


@pytest.mark.parametrize("check", op_checks(CASES), ids=str)
def test_op(check: OpCheck) -> None:
    check()


def test_every_op_has_a_case_and_is_found_by_bundles() -> None:
    assert op_faults("pdl_cv", CASES) == []


# -- drawn images ------------------------------------------------------------------------------------------------------
def equal(made: Any, expected: Any) -> None:
    made, expected = (x if isinstance(x, tuple) else (x,) for x in (made, expected))
    for y, want in zip(made, expected, strict=True):
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_images_against_plain_restatements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, classes = (int(x) for x in rng.integers(1, (4, 9, 12)))
    boxes, labels = boxes_and_labels(rng, n, m, classes)
    predicted, scores = predictions(rng, POINTS, n, classes)
    anchors = ANCHORS + rng.uniform(-3, 3, ANCHORS.shape)
    low, high = sorted(rng.uniform(0.05, 0.8, 2))
    best = bool(rng.random() < 0.7)
    thresholds = {"positive": high, "negative": low, "best": best, "forced": best and bool(rng.random() < 0.5)}
    equal(max_iou_assign(anchors, boxes, labels, **thresholds), by_max_iou(anchors, boxes, labels, **thresholds))
    k = int(rng.integers(1, 12))
    equal(atss_assign(anchors, boxes, labels, levels=COUNTS, k=k), by_atss(anchors, boxes, labels, COUNTS, k))
    ins = predicted, scores, boxes, labels
    alpha, beta = rng.choice([0.5, 1.0]), rng.choice([1.0, 6.0])
    made = task_aligned_assign(POINTS, *ins, k=k, alpha=alpha, beta=beta)
    equal(made, by_task(POINTS, *ins, k, alpha, beta))
    equal(simota_assign(POINTS, STRIDES, *ins, k=k), by_simota(POINTS, STRIDES, *ins, k=k))
    for index in (made[0].numpy(), max_iou_assign(anchors, boxes, labels, **thresholds).numpy()):
        loss, ratio = rng.normal(size=index.shape).round(1), float(rng.choice([0, 0.5, 3, 1e4]))
        equal(hard_negatives(loss, index, ratio=ratio), plain.hard_negatives(loss, index, ratio=ratio))
        equal(take_assigned(boxes, index), plain.take(boxes, index))
        equal(targets_of(index, labels, loss, classes), by_targets(index, labels, loss, classes))


@pytest.mark.parametrize("seed", range(20))
def test_quality_has_the_highest_iou_of_each_ground_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes, labels = boxes_and_labels(rng, 2, 6, 4)
    predicted, scores = predictions(rng, POINTS, 2, 4)
    index, quality = (x.numpy() for x in task_aligned_assign(POINTS, predicted, scores, boxes, labels, k=5))
    assert np.isfinite(quality).all()
    assert (quality[index < 0] == 0).all()
    for n in range(2):
        iou = plain.overlaps(predicted[n], boxes[n])
        for g in np.unique(index[n][index[n] >= 0]):
            mine = index[n] == g
            assert labels[n, g] >= 0
            assert 1 <= mine.sum() <= 5
            assert quality[n, mine].max() == pytest.approx(iou[mine, g].max())
            assert plain.holds(boxes[n, g : g + 1], POINTS)[0, mine].all()


@pytest.mark.parametrize("seed", range(60))
def test_hungarian_costs_are_the_lowest(seed: int) -> None:
    linear_sum_assignment = pytest.importorskip("scipy.optimize").linear_sum_assignment
    rng = np.random.default_rng(seed)
    q, m = (int(x) for x in rng.integers(1, 40, 2))
    cost, labels = rng.normal(size=(3, q, m)) * 10.0 ** rng.integers(-3, 4), rng.integers(-1, 3, (3, m))
    cost = cost.round(1) if rng.random() < 0.3 else cost  # ties
    for n, index in enumerate(hungarian_assign(cost, labels).numpy()):
        valid, queries = np.flatnonzero(labels[n] >= 0), np.flatnonzero(index >= 0)
        own = cost[n][:, valid]
        assert len(set(index[queries])) == len(queries) == min(q, len(valid))
        assert set(index[queries]) <= set(valid)
        assert cost[n][queries, index[queries]].sum() == pytest.approx(own[linear_sum_assignment(own)].sum(), abs=1e-9)


def test_samples_keep_counts_and_shares_and_draw_all_places_alike() -> None:
    index = np.repeat(np.array([[0] * 40 + [-1] * 50 + [-2] * 10, [1] * 3 + [-1] * 97]), 1, axis=0)
    often = np.zeros((2, 100))
    for seed in range(400):
        made = sample_assigned(index, np.array(seed), count=32, positive_share=0.25).numpy()
        assert ((made == index) | (made == -2)).all()
        assert ((made >= 0).sum(1) == [8, 3]).all()
        assert ((made == -1).sum(1) == [24, 29]).all()
        often += made != -2
    for part, share in ((often[0, :40], 8 / 40), (often[0, 40:90], 24 / 50), (often[1, 3:], 29 / 97)):
        assert np.abs(part / 400 - share).max() < 4.5 * np.sqrt(share * (1 - share) / 400)
    again = [sample_assigned(index, np.array(5), count=32, positive_share=0.25).numpy() for _ in range(2)]
    assert (again[0] == again[1]).all()


def test_extremes_give_numbers() -> None:
    labels = np.array([[0, 1, -1, 0]])
    boxes = np.array([[[0, 0, 1e30, 1e30], [np.inf] * 4, [np.nan] * 4, [5.0, 5, 30, 30]]], np.float32)
    points, strides, scores = (x.astype(np.float32) for x in (POINTS, STRIDES, SCORES[:1]))
    for fill in (0.0, 1.0, np.nan, 1e-45, -3.0):
        for predicted in (np.full((1, 84, 4), fill, np.float32), PREDICTED[:1].astype(np.float32)):
            full = np.full_like(scores, fill)
            for index, measure in (
                task_aligned_assign(points, predicted, full, boxes, labels),
                simota_assign(points, strides, predicted, full, boxes, labels),
            ):
                assert np.isfinite(measure.numpy()).all()
                assert set(np.unique(index.numpy())) <= {-1, 0, 1, 3}
    made = hungarian_assign(np.array([[[np.nan, np.inf, -np.inf], [1, 2, 3], [4, 5, np.nan]]]), np.array([[0, 0, 0]]))
    assert made.tolist() == [[2, 1, 0]] or sorted(made.numpy()[0]) == [0, 1, 2]


VALUES: list[tuple[str, Any, list[Any], Any]] = [
    ("label 3 of box 1 of image 0 is outside .0, 3.", lambda points, predicted, scores, boxes, labels: (
        task_aligned_assign(points, predicted, scores, boxes, labels)[0]
    ), [POINTS, PREDICTED, SCORES, BOXES, LABELS], np.where(LABELS == 2, 3, LABELS)),
    ("label 3 of box 1 of image 0", lambda points, strides, predicted, scores, boxes, labels: (
        simota_assign(points, strides, predicted, scores, boxes, labels)[0]
    ), [POINTS, STRIDES, PREDICTED, SCORES, BOXES, LABELS], np.where(LABELS == 2, 3, LABELS)),
    ("label 3 of box 1 of image 0", lambda index, labels: class_targets(index, labels, num_classes=3),
     [INDEX, LABELS], np.where(LABELS == 2, 3, LABELS)),
    ("index 3 of place 83 of image 1 is outside the 3 boxes", lambda boxes, index: take_assigned(boxes, index),
     [BOXES, INDEX], np.append(INDEX.reshape(-1)[:-1], 3).reshape(INDEX.shape)),
    ("index 3 of place 83 of image 1", lambda labels, index: class_targets(index, labels, num_classes=3),
     [LABELS, INDEX], np.append(INDEX.reshape(-1)[:-1], 3).reshape(INDEX.shape)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "function", "inputs", "bad"), VALUES, ids=[text for text, *_ in VALUES])
def test_values_that_do_not_fit_are_told_by_programs_too(text: str, function: Any, inputs: Any, bad: Any) -> None:
    program = Executable(trace(function, *map(Tensor, inputs)))
    assert not program.python_nodes
    program(*inputs)
    for run in (function, program):
        with pytest.raises(ShapeError, match=text):
            run(*inputs[:-1], bad)
    np.testing.assert_array_equal(program(*inputs)[0], function(*inputs).numpy())


def test_images_without_ground_truth_are_background() -> None:
    boxes, none = np.zeros((2, 3, 4)), np.full((2, 3), -1)
    for index in (
        max_iou_assign(ANCHORS, boxes, none, positive=0.5, negative=0.0),
        atss_assign(ANCHORS, boxes, none, levels=COUNTS),
        task_aligned_assign(POINTS, PREDICTED, SCORES, boxes, none)[0],
        simota_assign(POINTS, STRIDES, PREDICTED, SCORES, boxes, none)[0],
        hungarian_assign(np.zeros((2, 5, 3)), none),
        hard_negatives(np.ones((2, 5)), np.full((2, 5), -1), ratio=3) + 1,
    ):
        assert (index.numpy() == -1).all()


def test_every_box_finds_an_anchor() -> None:
    box = np.array([[[20.0, 20, 23, 23], [20, 20, 24, 24]]])
    loose = max_iou_assign(ANCHORS, box, np.array([[0, 0]]), positive=0.9, negative=0.5).numpy()
    assert set(np.unique(loose)) == {-1, 1}  # the anchors of the highest IoU overlap the larger box most
    forced = max_iou_assign(ANCHORS, box, np.array([[0, 0]]), positive=0.9, negative=0.5, forced=True).numpy()
    assert np.count_nonzero(forced >= 0) <= 2
    none = max_iou_assign(ANCHORS, box, np.array([[0, 0]]), positive=0.9, negative=0.5, best=False)
    assert (none.numpy() == -1).all()
    far = max_iou_assign(ANCHORS, box + 1e4, np.array([[0, 0]]), positive=0.9, negative=0.5)
    assert (far.numpy() == -1).all()


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(0)
    boxes, labels = boxes_and_labels(rng, 5, 6, 3)
    predicted, scores = predictions(rng, POINTS, 5, 3)
    seen = []
    for count in (1, 2, 5):
        with threads.num_threads(count):
            seen.append([x.numpy() for x in simota_assign(POINTS, STRIDES, predicted, scores, boxes, labels)])
    for other in seen[1:]:
        assert all((a == b).all() for a, b in zip(seen[0], other, strict=True))


def test_predictions_get_no_gradient_from_assignments() -> None:
    predicted = Tensor(PREDICTED, requires_grad=True)
    index, quality = task_aligned_assign(POINTS, predicted, SCORES, BOXES, LABELS)
    assert not index.requires_grad
    assert not quality.requires_grad


WRONG: list[tuple[type[PdlError], str, Any]] = [
    (UsageError, "positive 0.3 must be above 0 and not below negative 0.5",
     lambda: max_iou_assign(ANCHORS, BOXES, LABELS, positive=0.3, negative=0.5)),
    (UsageError, "best is False",
     lambda: max_iou_assign(ANCHORS, BOXES, LABELS, positive=0.5, negative=0.5, best=False, forced=True)),
    (ShapeError, r"anchors \(84, 3\)",
     lambda: max_iou_assign(ANCHORS[:, :3], BOXES, LABELS, positive=0.5, negative=0.5)),
    (ShapeError, r"boxes \(2, 3, 4\) and labels \(2, 2\)",
     lambda: max_iou_assign(ANCHORS, BOXES, LABELS[:, :2], positive=0.5, negative=0.5)),
    (ShapeError, r"levels \(64, 16\)", lambda: atss_assign(ANCHORS, BOXES, LABELS, levels=(64, 16))),
    (ShapeError, "predicted", lambda: task_aligned_assign(POINTS, PREDICTED[:, 1:], SCORES, BOXES, LABELS)),
    (ShapeError, "strides", lambda: simota_assign(POINTS, STRIDES[1:], PREDICTED, SCORES, BOXES, LABELS)),
    (ShapeError, "cost", lambda: hungarian_assign(np.zeros((2, 5, 4)), LABELS)),
    (ShapeError, "seed", lambda: sample_assigned(INDEX, np.zeros(2, int), count=4, positive_share=0.5)),
    (UsageError, "positive_share", lambda: sample_assigned(INDEX, pdl.draw_seed(), count=4, positive_share=1.5)),
    (ShapeError, "loss", lambda: hard_negatives(np.zeros((2, 3)), INDEX, ratio=3)),
    (UsageError, "ratio", lambda: hard_negatives(np.zeros(INDEX.shape), INDEX, ratio=-1)),
    (ShapeError, "values", lambda: take_assigned(BOXES[:1], INDEX)),
    (ShapeError, "labels", lambda: class_targets(INDEX, LABELS[:1], num_classes=3)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text", "call"), WRONG, ids=[text for _, text, _ in WRONG])
def test_what_does_not_fit_is_told(error: type[PdlError], text: str, call: Any) -> None:
    with pytest.raises(error, match=text):
        call()
