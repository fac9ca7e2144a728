"""Videos as inputs, and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError
from pdl.runtime import videos
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Mark, PostStep, Sample
from pdl.runtime.steps.images import ImageInput
from pdl.workflow.prediction import predict

Array = np.ndarray


class Mean(PostStep):
    """{"mean": the mean of an image}, drawn as a square."""

    def __call__(self, value: Any, sample: Sample) -> Any:
        return {"mean": float(value.mean())}

    def caption(self, answer: Any) -> str:
        return f"{answer['mean']:.0f}"

    def marks(self, answer: Any) -> list[Mark]:
        return [Mark([[8, 20], [40, 20], [40, 40], [8, 40]], label="mean", filled=True)]


class Means:
    """A predictor."""

    pipeline = Pipeline({"image": [ImageInput("rgb")]}, {"mean": [Mean()]})

    def run(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"mean": inputs["image"]}


def write(path: Path, levels: list[int]) -> Path:
    writer = videos.VideoWriter(path, 10.0)
    for level in levels:
        writer.write(np.full((48, 64, 3), level, np.uint8))
    writer.close()
    return path


def test_every_frame_of_a_video_is_an_input(tmp_path: Path) -> None:
    path = write(tmp_path / "film.mp4", [20, 120, 220])
    found = predict(Means(), [str(path)])
    assert [each["input"] for each in found] == [f"{path}#{i}" for i in range(3)]
    assert [each["mean"] for each in found] == pytest.approx([20, 120, 220], abs=6)


def test_the_drawn_frames_of_a_video_are_a_video(tmp_path: Path) -> None:
    path = write(tmp_path / "film.mp4", [200] * 4)
    found = predict(Means(), [str(path)], save=tmp_path / "drawn")
    assert {each["saved"] for each in found} == {str(tmp_path / "drawn/film.mp4")}
    drawn = list(videos.frames(str(tmp_path / "drawn/film.mp4")))
    assert len(drawn) == 4
    film, number, image = drawn[-1]
    assert (film.rate, number, image.shape) == (10.0, 3, (48, 64, 3))
    assert np.abs(image[30:36, 15:30].astype(int) - 200).max() > 20  # tinted
    assert np.abs(image[:, 56:].astype(int) - 200).max() < 12


def test_what_is_no_video_says_so(tmp_path: Path) -> None:
    (tmp_path / "film.mp4").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="cannot be opened as a video"):
        next(videos.frames(str(tmp_path / "film.mp4")))
    with pytest.raises(DataError, match="no such file"):
        next(videos.frames(str(tmp_path / "other.avi")))


@pytest.mark.parametrize(("name", "number"), [("camera", 0), ("camera:2", 2), ("camera:x", None), ("cameras", None)])
def test_names_of_cameras(name: str, number: int | None) -> None:
    assert videos.camera(name) == number
