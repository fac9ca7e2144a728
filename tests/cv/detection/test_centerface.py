"""The step `centerface`: cells of maps become boxes in pixels of the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl.runtime.frame import Frame
from pdl.runtime.sample import Sample
from pdl.runtime.steps import Resources
from pdl_cv.steps.centerface import CenterFace, suppressed

ROWS, COLUMNS = 12, 16


def maps(**cells: tuple[int, int, float, float, float]) -> dict[str, np.ndarray]:
    """Maps with faces at these cells: row, column, score, height and width in pixels; offsets a quarter of a cell."""
    made = {name: np.zeros((count, ROWS, COLUMNS), np.float32) for name, count in (("h", 1), ("s", 2), ("o", 2))}
    for row, column, score, height, width in cells.values():
        made["h"][0, row, column] = score
        made["s"][:, row, column] = np.log([height / 4, width / 4])
        made["o"][:, row, column] = (0.25, -0.25)
    return made


def answered(made: dict[str, np.ndarray], frame: Frame, **options: Any) -> Any:
    step = CenterFace(sizes="s", offsets="o", **options)
    step.bind(Resources(["face"]))
    return step(made["h"], Sample(frame=frame, outputs=made))


def test_a_cell_is_a_box_in_the_image() -> None:
    """Middle 4 (5 + 1/4 + 1/2) = 23 down and 4 (8 - 1/4 + 1/2) = 33 across, in an image twice as large."""
    frame = Frame(96, 128, scale=(2.0, 2.0))
    found = answered(maps(a=(5, 8, 0.9, 20, 16), faint=(1, 1, 0.3, 8, 8)), frame)
    (one,) = found["detections"]
    assert found["size"] == [96, 128]
    assert (one["label"], one["class"], one["score"]) == ("face", 0, pytest.approx(0.9))
    assert one["box"] == pytest.approx([50, 26, 82, 66], abs=0.01)


def test_of_cells_of_one_face_the_best_stays() -> None:
    cells = maps(best=(5, 8, 0.9, 20, 16), beside=(5, 9, 0.8, 20, 16), other=(5, 14, 0.7, 20, 16))
    assert [round(one["score"], 2) for one in answered(cells, Frame(48, 64))["detections"]] == [0.9, 0.7]
    assert len(answered(cells, Frame(48, 64), iou=0.99)["detections"]) == 3
    assert len(answered(cells, Frame(48, 64), k=1)["detections"]) == 1


def test_an_empty_map_has_no_face() -> None:
    assert answered(maps(), Frame(48, 64)) == {"detections": [], "size": [48, 64]}


def test_suppression_is_that_of_the_framework() -> None:
    import pdl

    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 80, (200, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(5, 40, (200, 2))], axis=1).astype(np.float32)
    scores = np.linspace(1, 0, 200, dtype=np.float32)
    expected = np.asarray(pdl.nms(pdl.tensor(boxes), pdl.tensor(scores), iou_threshold=0.3))
    np.testing.assert_array_equal(suppressed(boxes, 0.3), expected)


def test_what_it_does_not_take_is_told() -> None:
    with pytest.raises(UsageError, match="where the output lies"):
        CenterFace(sizes="s", offsets="o")(maps()["h"], Sample(outputs=maps()))
    with pytest.raises(UsageError, match="iou"):
        CenterFace(iou=2)
