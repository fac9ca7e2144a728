"""Clips: which frames are read of what, what is wrong with a file, and what transforms and the steps of bundles make of
them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.data.faults import DataFault
from pdl.data.pipeline import Compose
from pdl.data.randomness import SampleRandom
from pdl.data.transforms import ColorJitter, Normalize, RandomCrop, RandomHorizontalFlip, Resize
from pdl.errors import ConfigError, DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources
from pdl_cv.data import ClipArchive, MovingDigits, VideoFolder, VideoList, moving_digits
from pdl_cv.data.clips import Clip, ClipArrays
from pdl_cv.data.moving_digits import CLASSES, write_folders
from pdl_cv.data.transforms import EachFrame, Segments, Stride, ThreeCrops
from pdl_cv.steps.clips import ClipInput, places, read_clip


def film(path: Path, count: int, side: int = 32) -> Path:
    """A video whose frame k has the brightness 10 k."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, (side, side))
    for number in range(count):
        writer.write(np.full((side, side, 3), 10 * number, np.uint8))
    writer.release()
    return path


def shades(frames: Any) -> list[int]:
    return [round(float(frame.mean()) / 10) for frame in frames]


def test_places() -> None:
    assert places(16, 4).tolist() == [[2, 6, 10, 14]]
    assert places(16, 4, clips=2).tolist() == [[1, 5, 9, 13], [3, 7, 11, 15]]
    assert places(2, 4).tolist() == [[0, 0, 1, 1]]
    assert places(20, 4, 2).tolist() == [[6, 8, 10, 12]]
    assert places(20, 4, 2, 3).tolist() == [[0, 2, 4, 6], [6, 8, 10, 12], [13, 15, 17, 19]]
    assert places(3, 4, 2).tolist() == [[0, 2, 2, 2]]


def test_videos_folders_of_frames_and_arrays_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    video = film(tmp_path / "clip.avi", 20)
    (tmp_path / "frames").mkdir()
    for number in range(20):
        cv2.imwrite(str(tmp_path / f"frames/{number:03}.png"), np.full((32, 32, 3), 10 * number, np.uint8))
    array = np.stack([np.full((32, 32), 10 * number, np.uint8) for number in range(20)])
    np.save(tmp_path / "clip.npy", array)
    wanted = np.array([[3, 11], [11, 0]])
    for item in (video, tmp_path / "frames", str(tmp_path / "clip.npy"), array, video.read_bytes()):
        for mode, channels in (("rgb", 3), ("gray", 1)):
            found = read_clip(item, mode, lambda have: wanted)
            assert found.shape == (2, 2, 32, 32, channels)
            assert found.dtype == np.uint8
            assert [shades(each) for each in found] == wanted.tolist()
    grabbed = []
    opened = cv2.VideoCapture

    class Counted:
        def __init__(self, name: str) -> None:
            self.inner = opened(name)

        def grab(self) -> bool:
            grabbed.append(1)
            return bool(self.inner.grab())

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    monkeypatch.setattr(cv2, "VideoCapture", Counted)
    assert shades(read_clip(video, "rgb", lambda have: np.array([2, 5]))) == [2, 5]
    assert len(grabbed) == 6, "frames behind the last one that is wanted are not decoded"


def test_a_header_that_promises_a_few_frames_more_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = film(tmp_path / "clip.avi", 20)
    monkeypatch.setattr("pdl_cv.steps.clips.frames_of", lambda path, name: 21)
    assert shades(read_clip(video, "gray", lambda have: np.arange(have))) == list(range(20))
    monkeypatch.setattr("pdl_cv.steps.clips.frames_of", lambda path, name: 40)
    with pytest.raises(DataError, match=r"clip\.avi: ends after 20 of 40 frames"):
        read_clip(video, "gray", lambda have: np.arange(have))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "noise.mp4").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "none").mkdir()
    (tmp_path / "two").mkdir()
    for name, side in (("image.png", 9), ("two/a.png", 9), ("two/b.png", 8)):
        cv2.imwrite(str(tmp_path / name), np.zeros((side, 8, 3), np.uint8))
    np.save(tmp_path / "floats.npy", np.zeros((3, 4, 4), np.float32))
    for name, what in {
        "absent.mp4": "no such file", "empty.mp4": "the file is empty", "noise.mp4": "cannot be opened as a video",
        "image.png": "an image; a clip is a video", "none": "no frames in it", "two": "one size, here 8 x 9 and 8 x 8",
        "floats.npy": r"float32 \(3, 4, 4\); expected uint8",
    }.items():  # fmt: skip
        with pytest.raises(DataError, match=what):
            read_clip(tmp_path / name, "rgb", np.arange)
    with pytest.raises(DataFault, match=r"empty\.mp4 \(index 7\): the file is empty; replace or remove") as caught:
        Clip(str(tmp_path / "empty.mp4"), "rgb", 7).read(np.arange)
    assert caught.value.fault.index == 7


def test_a_folder_is_cut_by_whole_clips(tmp_path: Path) -> None:
    write_folders(tmp_path, CLASSES, splits=False, count=24)
    ratios = {"train": 0.5, "val": 0.25, "test": 0.25}
    parts = {split: VideoFolder(tmp_path, split=split, ratios=ratios, mode="gray") for split in ratios}
    names = [path for part in parts.values() for path in part.paths]
    assert len(names) == len(set(names)) == 72
    assert sorted(parts["train"].classes) == sorted(CLASSES)
    assert {Path(path).suffix for path in names} == {".avi", ".npy", ""}
    for part in parts.values():
        assert all(part.fault_of(index) is None for index in range(len(part)))
        assert part[0]["clip"].read(np.arange).shape == (9, 48, 48, 1)
    assert parts["train"].fingerprint != parts["val"].fingerprint
    listed = tmp_path / "clips.tsv"
    listed.write_text("".join(f"{path}\tup\t{'test' if k else 'train'}\n" for k, path in enumerate(names[:3])))
    assert VideoList(listed, split="test").paths == names[1:3]
    (tmp_path / "up/loose.png").write_bytes((next((tmp_path / "up").glob("*/000.png"))).read_bytes())
    with pytest.raises(DataFault, match="put the frames of each clip into a folder of its own"):
        VideoFolder(tmp_path)


def test_ways_of_moving_differ_by_the_order_of_frames_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_digits, "NOISE", 0.0)
    picture = np.arange(64, dtype=np.uint8).reshape(8, 8)
    made = [moving_digits._moving(picture, way, 24, np.random.default_rng(3)) for way in range(4)]
    bags = [sorted(frame.tobytes() for frame in clip) for clip in made]
    assert bags[0] == bags[1] == bags[2] == bags[3]
    assert len(set(bags[0])) == 9
    assert len({clip.tobytes() for clip in made}) == 4
    monkeypatch.undo()
    train, test = MovingDigits(count=40), MovingDigits(split="test", count=40)
    assert train.clips.shape == (40, 9, 24, 24, 1)
    assert np.bincount(train.labels).tolist() == [10] * 4
    assert train.fingerprint == MovingDigits(count=40).fingerprint != test.fingerprint


def test_an_archive_is_split_by_lists(tmp_path: Path) -> None:
    clips = np.arange(6 * 2 * 3 * 3, dtype=np.uint8).reshape(6, 2, 3, 3)
    names = np.array([f"clip {k}" for k in range(6)])
    np.savez(tmp_path / "clips.npz", video=clips, label=np.array([0, 1, 0, 1, 0, 1]), name=names, classes=["a", "b"])
    (tmp_path / "train.txt").write_text("clip 3\nclip 0\nclip 4\nclip 1\n")
    (tmp_path / "test.txt").write_text("clip 2\n\nclip 5\n")
    data = ClipArchive(tmp_path, split="train")
    assert (data.labels.tolist(), list(data.classes), data.mode) == ([1, 0, 0, 1], ["a", "b"], "gray")
    np.testing.assert_array_equal(data[0]["clip"][..., 0], clips[3])
    halves = [ClipArchive(tmp_path, split=split, ratios={"train": 0.5, "val": 0.5}) for split in ("train", "val")]
    assert [sorted(half.labels.tolist()) for half in halves] == [[0, 1], [0, 1]]
    assert sorted(halves[0].clips[:, 0, 0, 0, 0].tolist() + halves[1].clips[:, 0, 0, 0, 0].tolist()) == [0, 18, 54, 72]
    assert len(ClipArchive(tmp_path)) == 6
    (tmp_path / "val.txt").write_text("clip 9\n")
    with pytest.raises(DataFault, match=r"val\.txt: 'clip 9' is the name of no clip"):
        ClipArchive(tmp_path, split="val")
    np.savez(tmp_path / "clips.npz", video=clips.astype(np.float32), label=np.zeros(6, int))
    with pytest.raises(DataFault, match="expected uint8"):
        ClipArchive(tmp_path)


def test_segments_and_strides_choose_frames() -> None:
    clip = np.arange(40, dtype=np.uint8).reshape(40, 1, 1, 1)
    drawn = [
        Segments(frames=4, random=True)({"clip": clip}, SampleRandom(0, 0, k))["clip"][:, 0, 0, 0] for k in range(60)
    ]
    assert {tuple((each // 10).tolist()) for each in drawn} == {(0, 1, 2, 3)}
    assert len({each[0] for each in drawn}) == 10
    drawn = [
        Stride(frames=4, stride=3, random=True)({"clip": clip}, SampleRandom(0, 0, k))["clip"][:, 0, 0, 0]
        for k in range(300)
    ]
    assert all(np.diff(each.astype(int)).tolist() == [3, 3, 3] for each in drawn)
    assert {int(each[0]) for each in drawn} == set(range(31))
    assert Stride(frames=2, stride=1, clips=3)({"clip": clip}, SampleRandom(0, 0, 0))["clip"].shape == (3, 2, 1, 1, 1)
    with pytest.raises(ConfigError, match="several clips are for evaluation"):
        Segments(frames=2, clips=2, random=True)


def test_all_frames_are_changed_alike() -> None:
    frame = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    steps = [RandomCrop(12), RandomHorizontalFlip(), ColorJitter(0.4, 0.4, 0.4)]
    each = EachFrame(steps)
    found = [each({"clip": np.stack([frame] * 3)}, SampleRandom(0, 0, k))["clip"] for k in range(4)]
    assert all((clip == clip[:1]).all() for clip in found)
    assert not (found[0][0] == found[1][0]).all()
    alone = Compose(steps)({"image": frame}, SampleRandom(0, 0, 2))["image"]
    np.testing.assert_array_equal(found[2][0], alone)
    with pytest.raises(UsageError, match="put Segments or Stride before it"):
        each({"clip": Clip("x.mp4", "rgb")}, SampleRandom(0, 0, 0))


def test_a_bundle_prepares_clips_as_training_does(tmp_path: Path) -> None:
    video = film(tmp_path / "clip.avi", 20, side=48)
    chain = [Stride(frames=3, stride=4, clips=2), EachFrame([Resize((24, 30)), Normalize(0.4, 0.2)]), ThreeCrops(24)]
    sample: Any = {"clip": Clip(str(video), "gray")}
    for step in chain:
        sample = step(sample, SampleRandom(0, 0, 0))
    assert sample["clip"].shape == (6, 3, 24, 24, 1)
    first, *others = [node for step in chain for node in step.deployed()]
    pre = {"clip": [{**first, "mode": "gray"}, *others]}
    pipeline = Pipeline.read({"pre": pre, "post": {}}, Resources((), {}, {}), "test")
    assert pipeline is not None
    np.testing.assert_array_equal(pipeline.prepare(video)["clip"], sample["clip"])
    wrong = {"clip": [pre["clip"][0], {"step": "each_frame", "steps": [{"step": "image"}]}]}
    with pytest.raises(DataError, match="must be one of"):
        Pipeline.read({"pre": wrong, "post": {}}, Resources((), {}, {}), "test")


def test_what_stands_for_clips_on_the_command_line(tmp_path: Path) -> None:
    write_folders(tmp_path, CLASSES, splits=False, count=16)
    step = ClipInput(8)
    frames = next(each for each in sorted((tmp_path / "up").iterdir()) if each.is_dir())
    assert [each.item for each in step.expand(str(frames), 0)] == [frames]
    assert len(list(step.expand(str(tmp_path / "up"), 0))) == 9
    assert step.draw(frames, "", ()).image is not None
    with pytest.raises(DataError, match="no such file"):
        list(step.expand(str(tmp_path / "no.mp4"), 0))


def test_arrays_change_their_colours() -> None:
    gray = np.full((1, 2, 4, 4, 1), 9, np.uint8)
    assert ClipArrays(gray, np.zeros(1, int), ["a"], mode="rgb")[0]["clip"].shape == (2, 4, 4, 3)
