"""Large images in overlapping tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import predict
from pdl.runtime.steps import PostStep, Sample
from pdl.runtime.steps.images import ImageInput
from pdl.runtime.steps.labels import Top
from pdl.runtime.steps.outputs import Thresholded
from pdl.runtime.tiles import starts

Array = np.ndarray


class Bright(Thresholded):
    """{"points": [[x, y], ...]}: the pixels of an image that are brighter than a score."""

    score = 0.5

    def __call__(self, value: Any, sample: Sample) -> Any:
        y, x = np.nonzero(value[..., 0] > 255 * self.score)
        return {"points": np.stack([x, y], axis=1).tolist()}

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return [{"x": x, "y": y} for x, y in answer["points"]]

    def joined(self, answers: Sequence[Any], places: Sequence[tuple[int, int]], size: tuple[int, int]) -> Any:
        found = {(x + dx, y + dy) for each, (dx, dy) in zip(answers, places, strict=True) for x, y in each["points"]}
        return {"points": sorted(map(list, found)), "size": size}


class Looking:
    """A predictor that notes how large the images are that it gets."""

    def __init__(self, step: PostStep) -> None:
        self.pipeline = Pipeline({"image": [ImageInput("rgb")]}, {"found": [step]})
        self.seen: list[tuple[int, ...]] = []

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self.seen += [each.shape[:2] for each in inputs["image"]]
        return {"found": inputs["image"]}


@given(length=st.integers(1, 3000), side=st.integers(32, 700))
def test_tiles_cover_an_axis_and_overlap(length: int, side: int) -> None:
    found = starts(length, side)
    assert found[0] == 0
    if length > side:
        assert found[-1] == length - side
        assert all(0 < b - a <= side * 0.8 + 1 for a, b in pairwise(found))


def test_an_answer_of_tiles_is_that_of_the_image() -> None:
    image = np.zeros((300, 500, 3), np.uint8)
    image[[5, 150, 299], [490, 99, 0]] = 255
    model = Looking(Bright())
    whole, tiled = (next(predict(model, [image], tiles=tiles)).answer.value for tiles in (None, 128))
    assert sorted(whole["points"]) == tiled["points"] == [[0, 299], [99, 150], [490, 5]]
    assert tiled["size"] == (300, 500)
    assert set(model.seen[1:]) == {(300, 500), (128, 128)}


def test_small_images_are_not_cut_and_bad_ones_stop_no_other() -> None:
    model = Looking(Bright())
    small, bad = np.zeros((60, 100, 3), np.uint8), b"no image"
    found = list(predict(model, [small, bad], tiles=100, skip_errors=True))
    assert model.seen == [(60, 100)]
    assert found[0].error is None
    assert "image" in str(found[1].error)
    with pytest.raises(DataError):
        list(predict(model, [small, bad], tiles=100))


def test_what_cannot_be_tiled_says_so() -> None:
    large = np.zeros((80, 200, 3), np.uint8)
    with pytest.raises(UsageError, match="leave out --tiles"):
        list(predict(Looking(PostStepOfWhole()), [large], tiles=64))
    with pytest.raises(UsageError, match="tiles=0"):
        list(predict(Looking(Bright()), [large], tiles=0))


class PostStepOfWhole(PostStep):
    """The mean."""

    def __call__(self, value: Any, sample: Sample) -> Any:
        return {"mean": float(value.mean())}


def test_a_score_leaves_answers_out() -> None:
    image = np.full((4, 4, 3), 100, np.uint8)
    model = Looking(Bright())
    assert next(predict(model, [image])).answer.value == {"points": []}
    assert len(next(predict(model, [image], score=0.3)).answer.value["points"]) == 16
    with pytest.raises(UsageError, match="leave out --score"):
        list(predict(Looking(Top(1)), [image], score=0.3))
