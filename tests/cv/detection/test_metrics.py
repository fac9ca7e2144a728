"""Average precision: fixed cases with their numbers, drawn ones against pycocotools."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, ShapeError, UsageError
from pdl_cv import rle
from pdl_cv.detection.metrics import BoxAP, KeypointAP, MaskAP, Protocol, evaluate_detections
from pdl_cv.detection.overlaps import COCO_SIGMAS, Runs, mask_overlaps

Objects = dict[str, Any]
METRICS = {"boxes": BoxAP, "masks": MaskAP, "keypoints": KeypointAP}
H, W = 24, 32  # of drawn masks


# -- drawn cases -------------------------------------------------------------------------------------------------------
def drawn(seed: int, kind: str) -> tuple[list[Objects], list[Objects], int]:
    """Detections and annotations of a few images, on a coarse grid, so that overlaps and scores tie; most detections
    are near an annotation."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(1, 5))
    scale = float(rng.choice([1.0, 4.0, 16.0])) if kind != "masks" else 1.0
    found, known = [], []
    for _ in range(int(rng.integers(1, 7))):
        g, d = int(rng.integers(0, 6)), int(rng.integers(0, 12))
        corner = rng.integers(0, 40, (g, 2)) / 4
        boxes = np.concatenate([corner, corner + rng.integers(1, 40, (g, 2)) / 4], axis=1) * scale
        near = boxes[rng.integers(0, g, d)] if g else np.zeros((d, 4))
        moved = near + rng.integers(-4, 5, (d, 4)) * rng.integers(0, 2, (d, 1)) / 4 * scale
        moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 0.25)
        truth = {
            "labels": rng.integers(0, classes, g),
            "boxes": boxes,
            "crowd": rng.random(g) < 0.15,
            "area": boxes[:, 2:].prod(axis=1) * rng.choice([0.5, 1.0, 3.0], g),
        }
        answer = {"labels": rng.integers(0, classes, d), "boxes": moved, "scores": rng.integers(0, 8, d) / 8}
        if kind == "masks":
            truth["masks"], answer["masks"] = rectangles(boxes, rng), rectangles(moved, rng)
        if kind == "keypoints":
            truth["keypoints"] = points(boxes, rng)
            answer["keypoints"] = points(moved, rng)
        found.append(answer)
        known.append(truth)
    return found, known, classes


def rectangles(boxes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Masks with ragged edges, some of them without a pixel."""
    rows, columns = np.arange(H)[:, None], np.arange(W)
    masks = [(columns >= x1) & (columns < x2) & (rows >= y1) & (rows < y2) for x1, y1, x2, y2 in boxes]
    return np.array([each & (rng.random((H, W)) < 0.9) for each in masks], np.uint8).reshape(-1, H, W)


def points(boxes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    low, high = boxes[:, None, :2], boxes[:, None, 2:]
    places = low + (high - low) * rng.integers(0, 5, (len(boxes), 17, 2)) / 4
    seen = rng.integers(0, 3, (len(boxes), 17, 1)) * (rng.random((len(boxes), 1, 1)) < 0.8)
    return np.concatenate([places, seen], axis=2)


def pycocotools_numbers(
    found: list[Objects], known: list[Objects], classes: int, kind: str, sigmas: list[float] | None = None
) -> np.ndarray:
    """COCO's own program on the same."""
    from pycocotools import mask
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def entry(objects: Objects, k: int, image: int) -> Objects:
        x1, y1, x2, y2 = objects["boxes"][k].tolist()
        made = {"image_id": image, "category_id": int(objects["labels"][k]) + 1, "bbox": [x1, y1, x2 - x1, y2 - y1]}
        if kind == "masks":
            made["segmentation"] = mask.encode(np.asfortranarray(objects["masks"][k]))
        if kind == "keypoints":
            made["keypoints"] = objects["keypoints"][k].ravel().tolist()
            made["num_keypoints"] = int((objects["keypoints"][k, :, 2] > 0).sum())
        return made

    annotations, results = [], []
    for image, (answer, truth) in enumerate(zip(found, known, strict=True), 1):
        for k in range(len(truth["labels"])):
            extra = {"id": len(annotations) + 1, "iscrowd": int(truth["crowd"][k]), "area": float(truth["area"][k])}
            annotations.append(entry(truth, k, image) | extra)
        for k in range(len(answer["labels"])):
            results.append(entry(answer, k, image) | {"score": float(answer["scores"][k])})
            if kind != "boxes":
                del results[-1]["bbox"]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = {
            "images": [{"id": image, "height": H, "width": W} for image in range(1, len(known) + 1)],
            "annotations": annotations,
            "categories": [{"id": k + 1} for k in range(classes)],
        }
        coco.createIndex()
        if results:
            answers = coco.loadRes(results)
        else:
            answers = COCO()
            answers.dataset = {**coco.dataset, "annotations": []}
            answers.createIndex()
        run = COCOeval(coco, answers, {"boxes": "bbox", "masks": "segm", "keypoints": "keypoints"}[kind])
        if sigmas is not None:
            run.params.kpt_oks_sigmas = np.array(sigmas)
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run.stats


def compared(seed: int, kind: str) -> None:
    found, known, classes = drawn(seed, kind)
    numbers = evaluate_detections(found, known, [str(k) for k in range(classes)], kind=kind).numbers()
    ours = np.nan_to_num(np.array(list(numbers.values())), nan=-1.0)
    theirs = pycocotools_numbers(found, known, classes, kind)
    np.testing.assert_allclose(ours, theirs, atol=1e-6, err_msg=f"{kind} {seed}")


@pytest.mark.parametrize("kind", METRICS)
def test_equal_to_pycocotools(kind: str) -> None:
    pytest.importorskip("pycocotools", reason="compares with COCO's own program")
    for seed in range(20):
        compared(seed, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", METRICS)
def test_equal_to_pycocotools_on_a_thousand_cases(kind: str) -> None:
    pytest.importorskip("pycocotools", reason="compares with COCO's own program")
    for seed in range(1000):
        compared(seed, kind)


# -- fixed cases -------------------------------------------------------------------------------------------------------
def objects(labels: list[int], boxes: list[list[float]], **more: Any) -> Objects:
    return {"labels": np.array(labels, np.int64), "boxes": np.array(boxes, np.float32).reshape(-1, 4), **more}


SQUARE, RIGHT = [0, 0, 10, 10], [20, 0, 30, 10]
TRUTH = [objects([0, 0, 1], [SQUARE, RIGHT, [40, 40, 80, 80]]), objects([0], [SQUARE]), objects([], [])]
ANSWER = [
    objects([0, 0, 1], [SQUARE, [20, 0, 30, 7.5], [40, 40, 80, 80]], scores=np.array([0.9, 0.8, 0.7])),
    objects([0, 0], [[50, 50, 60, 60], SQUARE], scores=np.array([0.95, 0.6])),
    objects([], [], scores=np.zeros(0)),
]


def test_numbers_of_a_small_case() -> None:
    """Class 1 is perfect. Of class 0 the first of four is wrong, then three right, one of them up to an IoU of 0.75:
    precision at 101 recalls is 3/4 throughout; without it 2/4 up to a recall of 2/3, 67 of the 101."""
    numbers = evaluate_detections(ANSWER, TRUTH, ["a", "b"]).numbers()
    strict = 67 / 101 * 0.5
    assert numbers["AP50"] == pytest.approx((0.75 + 1) / 2)
    assert numbers["AP75"] == pytest.approx((0.75 + 1) / 2)
    assert numbers["AP"] == pytest.approx(((6 * 0.75 + 4 * strict) / 10 + 1) / 2)
    assert (numbers["AR1"], numbers["AR100"]) == (
        pytest.approx((1 / 3 + 1) / 2),
        pytest.approx(((6 + 4 * 2 / 3) / 10 + 1) / 2),
    )
    assert numbers["AP_medium"] == 1.0
    assert np.isnan(numbers["AP_large"])
    assert list(numbers) == ["AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large",
                             "AR1", "AR10", "AR100", "AR_small", "AR_medium", "AR_large"]  # fmt: skip


def test_numbers_of_voc() -> None:
    """Of class 0 three of four are right behind a wrong one: 3/4 at every recall, by both ways of averaging."""
    for protocol in ("voc", "voc07"):
        made = evaluate_detections(ANSWER, TRUTH, ["a", "b"], protocol=protocol)
        assert made.numbers() == {"mAP": pytest.approx(0.875)}
        assert [row.ap for row in made.table()] == [pytest.approx(0.75), pytest.approx(1.0)]
    half = [objects([0], [SQUARE], scores=np.array([0.5])), *ANSWER[2:], *ANSWER[2:]]
    assert evaluate_detections(half, TRUTH, ["a", "b"], protocol="voc").numbers()["mAP"] == pytest.approx(1 / 6)
    assert evaluate_detections(half, TRUTH, ["a", "b"], protocol="voc07").numbers()["mAP"] == pytest.approx(4 / 11 / 2)


def test_voc_compares_with_the_one_covered_most_and_leaves_out_difficult_ones() -> None:
    """The second detection covers what the first has found, and another a little less: COCO gives it that other."""
    truth = [objects([0, 0, 0], [SQUARE, [0, 0, 10, 8], RIGHT], difficult=np.array([False, False, True]))]
    answer = [objects([0, 0, 0], [SQUARE, [0, 0, 10, 9.5], RIGHT], scores=np.array([0.9, 0.8, 0.7]))]
    made = evaluate_detections(answer, truth, ["a"], protocol="voc")
    assert made.compute() == pytest.approx(0.5)
    assert made.curves()[0].precision.tolist() == [1.0, 0.5]
    assert evaluate_detections(answer, truth, ["a"]).numbers()["AP50"] == pytest.approx(1.0)


def test_table_and_curves() -> None:
    made = evaluate_detections(ANSWER, TRUTH, ["a", "b"])
    first, second = made.table()
    assert (first.name, first.annotations, first.detections, first.ap50) == ("a", 3, 4, pytest.approx(0.75))
    assert (first.f1, first.score) == (pytest.approx(2 * 0.75 / 1.75), 0.6)
    assert (second.f1, second.score, second.recall) == (1.0, 0.7, 1.0)
    curve = made.curves()[0]
    np.testing.assert_allclose(curve.precision, [0, 1 / 2, 2 / 3, 3 / 4])
    np.testing.assert_allclose(curve.recall, [0, 1 / 3, 2 / 3, 1])
    assert curve.scores.tolist() == [0.95, 0.9, 0.8, 0.6]


@pytest.mark.parametrize("protocol", ["coco", "voc"])
def test_nothing_is_known_of_a_class_without_annotations(protocol: Protocol) -> None:
    answer = [objects([0, 1], [SQUARE, RIGHT], scores=np.array([0.9, 0.8]))]
    truth = [objects([0], [SQUARE])]
    known, found, neither = evaluate_detections(answer, truth, ["a", "b", "c"], protocol=protocol).table()
    assert known.recall == 1
    assert (found.annotations, found.detections, neither.detections) == (0, 1, 0)
    for row in (found, neither):
        assert np.isnan([row.ap, row.recall, row.f1, row.score]).all()


def test_batches_add_up() -> None:
    found, known, classes = drawn(3, "boxes")
    names = [str(k) for k in range(classes)]
    metric = BoxAP(names)
    assert np.isnan(metric.compute())
    for k in range(len(found)):
        metric.update(found[k : k + 1], known[k : k + 1])
        metric.compute()
    np.testing.assert_equal(metric.numbers(), evaluate_detections(found, known, names).numbers())


def test_detections_of_no_label_are_padding() -> None:
    padded = [{name: np.concatenate([each[name], each[name][:1]]) for name in each} if len(each["labels"]) else each
              for each in ANSWER]  # fmt: skip
    for each in padded[:2]:
        each["labels"][-1] = -1
    assert evaluate_detections(padded, TRUTH, ["a", "b"]).numbers()["AP50"] == pytest.approx((0.75 + 1) / 2)


def test_boxes_that_are_not_finite_are_wrong() -> None:
    answer = [{**ANSWER[0], "boxes": np.full((3, 4), np.nan)}, *ANSWER[1:]]
    assert evaluate_detections(answer, TRUTH, ["a", "b"]).numbers()["AP50"] < 0.5


@pytest.mark.parametrize(
    ("detections", "annotations", "error", "words"),
    [
        (ANSWER[:1], TRUTH, UsageError, "detections of 1 images, annotations of 3"),
        ([objects([2], [SQUARE], scores=np.ones(1))], TRUTH[:1], DataError, r"labels 2\.\.2, expected 0\.\.1"),
        ([objects([0], [SQUARE], scores=np.ones(2))], TRUTH[:1], ShapeError, "2 scores and 1 labels"),
        ([objects([0], [SQUARE, SQUARE], scores=np.ones(1))], TRUTH[:1], ShapeError, r"expected \(1, 4\)"),
    ],
)
def test_what_does_not_fit_is_said(detections: Any, annotations: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        evaluate_detections(detections, annotations, ["a", "b"])


# -- masks and keypoints -----------------------------------------------------------------------------------------------
def test_runs_of_masks() -> None:
    mask = np.zeros((2, 3, 4), np.uint8)
    mask[0, 1:, 1:3] = 1
    runs = Runs.of(mask)
    assert (runs.begin.tolist(), runs.end.tolist(), runs.areas.tolist()) == ([4, 7], [6, 9], [4, 0])
    code = {"size": [3, 4], "counts": [4, 2, 1, 2, 3]}
    assert Runs.of([code]).begin.tolist() == [4, 7]
    assert Runs.of([{"size": [3, 4], "counts": "42102"}]).end.tolist() == [6, 9]  # pycocotools of the same mask
    np.testing.assert_allclose(mask_overlaps(runs, Runs.of([code]), np.zeros(1, bool)), [[1.0], [0.0]])


def test_codes_of_masks_that_are_damaged() -> None:
    with pytest.raises(DataError, match="runs sum to 5"):
        Runs.of([{"size": [3, 4], "counts": [4, 1]}])
    with pytest.raises(DataError, match="no run-length code of COCO"):
        Runs.of([{"size": [3, 4], "counts": "!!"}])
    with pytest.raises(DataError, match="all must agree"):
        Runs.of([{"size": [3, 4], "counts": [12]}, {"size": [4, 4], "counts": [16]}])


def test_masks_as_codes_and_as_arrays_give_the_same() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 2, (n, H, W), dtype=np.uint8) for n in (4, 3))
    both = np.einsum("dhw,ghw->dg", a.astype(np.float64), b)
    union = a.sum((1, 2))[:, None] + b.sum((1, 2))[None] - both
    crowd = np.array([False, True, False])
    union[:, 1] = a.sum((1, 2))
    np.testing.assert_allclose(mask_overlaps(Runs.of(a), Runs.of(b), crowd), both / union)


def test_runs_of_codes_are_those_of_the_masks() -> None:
    """Also of empty masks, full ones, and runs that go on in the next column; codes as text, as numbers, and mixed."""
    rng = np.random.default_rng(1)
    masks = (rng.random((12, H, W)) < rng.random((12, 1, 1))).astype(np.uint8)
    masks[3], masks[7] = 0, 1
    masks[5, :, :4] = masks[5, -2:] = 0
    runs = Runs.of(masks)
    counts = [rle.encode(mask) for mask in masks]
    texts = [rle.to_text(each) for each in counts]
    for given in (counts, texts, [texts[k] if k % 2 else counts[k].tolist() for k in range(12)]):
        other = Runs.of([{"size": [H, W], "counts": each} for each in given])
        for name in ("begin", "end", "owner", "areas", "size"):
            np.testing.assert_array_equal(getattr(runs, name), getattr(other, name))
    for mask, (x1, y1, x2, y2) in zip(masks, runs.bounds.tolist(), strict=True):
        y, x = np.nonzero(mask)
        expected = (x.min(), y.min(), x.max() + 1, y.max() + 1) if len(x) else (0, 0, 0, 0)
        assert (x1, y1, x2, y2) == expected


def test_similarity_of_keypoints() -> None:
    """Every point off by d = sigma * sqrt(area): exp(-d^2 / (2 area (2 sigma)^2)) = exp(-1/8)."""
    boxes = np.array([[0.0, 0, 20, 20]])
    places = np.concatenate([np.full((1, 17, 2), 10.0), np.full((1, 17, 1), 2.0)], axis=2)
    moved = places.copy()
    moved[0, :, 0] += np.array(COCO_SIGMAS) * 20
    truth = {"labels": np.zeros(1, int), "boxes": boxes, "keypoints": places}
    answer = {"labels": np.zeros(1, int), "scores": np.ones(1), "keypoints": moved}
    numbers = evaluate_detections([answer], [truth], ["person"], kind="keypoints").numbers()
    passed = (np.linspace(0.5, 0.95, 10) <= np.exp(-1 / 8)).mean()
    assert (numbers["AP"], numbers["AR"]) == (pytest.approx(passed), pytest.approx(passed))
    precisions = ["AP", "AP50", "AP75", "AP_medium", "AP_large"]
    assert list(numbers) == [*precisions, *(name.replace("AP", "AR") for name in precisions)]


# -- kinds of errors ---------------------------------------------------------------------------------------------------
def test_errors_by_kind() -> None:
    truth = [objects([0, 0, 1, 1], [SQUARE, RIGHT, [40, 0, 50, 10], [60, 0, 70, 10]])]
    answer = [objects(
        [0, 0, 0, 0, 0, 1], [SQUARE, [0, 0, 10, 9], [20, 0, 30, 3], [40, 0, 50, 10], [90, 0, 99, 9], [0, 0, 10, 2]],
        scores=np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4]),
    )]  # fmt: skip
    made = evaluate_detections(answer, truth, ["a", "b"]).errors()
    assert {kind: counts.tolist() for kind, counts in made.counts.items()} == {
        "class": [1, 0], "place": [1, 0], "both": [0, 1], "duplicate": [1, 0], "background": [1, 0], "missed": [0, 1],
    }  # fmt: skip
    assert made.detections.tolist() == [-1, 3, 1, 0, 4, 2]
    assert made.missed.tolist() == [False, False, False, True]
    assert all(cost >= 0 for cost in made.cost.values())
    assert made.ap50 == pytest.approx(51 / 101 / 2)
    assert made.cost["class"] == pytest.approx(51 / 101 / 2)  # finds one of two of class b, which has none before


def test_errors_without_detections_or_annotations() -> None:
    nothing = objects([], [], scores=np.zeros(0))
    made = evaluate_detections([nothing], TRUTH[:1], ["a", "b"]).errors()
    assert made.counts["missed"].tolist() == [2, 1]
    made = evaluate_detections(ANSWER[:1], [objects([], [])], ["a", "b"]).errors()
    assert made.counts["background"].tolist() == [2, 1]
    assert np.isnan(made.ap50)
