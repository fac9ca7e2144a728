"""What the report says of a detector."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pdl.data import Dataset
from pdl.train import Evaluation
from pdl_cv.detection.metrics import AveragePrecision, BoxAP, KeypointAP
from pdl_cv.detection.report import DetectionReporter
from tests.cv.detection.test_metrics import ANSWER, TRUTH, drawn

TITLES = ["Classes (val)", "Kinds of errors", "Precision and recall", "What is found, by size", "Worst images"]


class Gray(Dataset):
    classes = ("a", "b")

    def __len__(self) -> int:
        return len(TRUTH)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": np.full((90, 90, 3), 40 * index, np.uint8), **TRUTH[index]}


def sections(metric: AveragePrecision, dataset: Any) -> dict[str, str]:
    evaluation = Evaluation("val", {}, {}, {"loss": None, "AP": metric}, 0.0)
    made = DetectionReporter(SimpleNamespace(skeleton=())).sections(evaluation, dataset)
    return {each.title: each.html for each in made}


@pytest.mark.parametrize("protocol", ["coco", "voc"])
def test_sections(protocol: Any) -> None:
    metric = BoxAP(["a", "b"], protocol=protocol)
    metric.update(ANSWER, TRUTH)
    found = sections(metric, Gray())
    assert list(found) == TITLES
    assert re.search(r"<td>a</td>.*<td>b</td>", found["Classes (val)"])  # the weakest first
    assert ("AP75" in found["Classes (val)"]) == (protocol == "coco")
    assert re.search(
        r"background</td><td>nothing is annotated there</td><td class=\"n\">1</td>", found["Kinds of errors"]
    )
    assert re.search(r"AP50 lost</text>.*>background</text>.*, 1 error</text>", found["Kinds of errors"])
    assert "4 of 4 annotations" in found["What is found, by size"]
    assert found["Worst images"].count("<svg") == 1
    assert "1 wrong, 0 missed, sample 1" in found["Worst images"]
    assert "a, background 0.95" in found["Worst images"]


def test_images_are_those_of_the_data_set() -> None:
    """Samples that were skipped, or come in another order, are known by their index."""
    metric = BoxAP(["a", "b"])
    metric.update(ANSWER[1:2], [{**TRUTH[1], "index": 1}])
    assert "sample 1" in sections(metric, Gray())["Worst images"]


def test_without_annotations_there_is_nothing_to_say() -> None:
    metric = BoxAP(["a", "b"])
    assert sections(metric, Gray()) == {}
    metric.update(ANSWER[2:], TRUTH[2:])
    assert sections(metric, Gray()) == {}


def test_where_nothing_is_found() -> None:
    metric = BoxAP(["a", "b", "c"])
    metric.update([{**TRUTH[2], "scores": np.zeros(0)}], TRUTH[:1])
    page = "".join(sections(metric, None).values())
    assert '<td class="n">-</td>' in page
    assert "nan" not in page


def test_drawn_cases() -> None:
    """Whatever is found and annotated, the page is made."""
    for seed in range(12):
        found, known, classes = drawn(seed, "keypoints")
        for kind in (BoxAP, KeypointAP):
            metric = kind([str(k) for k in range(classes)])
            metric.update(found, known)
            sections(metric, None)
