"""Sequences of skeletons: their data sets, transforms, and steps of bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data.faults import DataFault
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, DataError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources
from pdl_cv.data import MSRAction3D, SkeletonFolder
from pdl_cv.data.msr_action3d import EDGES, between, in_metres
from pdl_cv.data.transforms import Centred, FillUp, Jitter, RandomMirror, RandomSize, RandomTurn, Resample
from pdl_cv.steps.skeletons import SkeletonInput, drawn, read_skeletons

RNG = SampleRandom(0, 0, 5)
LINE = [[0, 1], [1, 2]]


def walk(frames: int, joints: int = 3) -> Any:
    return np.random.default_rng(frames).standard_normal((frames, joints, 3)).cumsum(axis=0).astype(np.float32)


def test_sequences_get_one_length() -> None:
    x = walk(7)
    found = Resample(13).changed(x, RNG)
    np.testing.assert_allclose(found[::2], x, atol=1e-6)
    np.testing.assert_allclose(found[1::2], (x[:-1] + x[1:]) / 2, atol=1e-6)
    assert (Resample(4).changed(walk(1), RNG) == walk(1)).all()
    ramp = np.arange(50, dtype=np.float32)[:, None, None]
    for k in range(30):
        part = Resample(9, least=0.5).changed(ramp, SampleRandom(0, 0, k))[:, 0, 0]
        assert 0 <= part[0] < part[-1] <= 49
        assert part[-1] - part[0] >= 24.4
    paces = np.diff([Resample(9, warp=0.5).changed(ramp, SampleRandom(0, 0, k))[:, 0, 0] for k in range(30)])
    assert paces.min() > 49 / 8 * 0.5
    assert (paces[:, 0] < paces[:, -1] / 2).any()
    assert (paces[:, 0] > paces[:, -1] * 2).any()
    np.testing.assert_allclose(paces.sum(axis=1), 49, rtol=1e-6)
    filled = FillUp(10).changed(x, RNG)
    np.testing.assert_array_equal(filled, np.concatenate([x, np.zeros((3, 3, 3))]))
    np.testing.assert_array_equal(FillUp(3).changed(x, RNG), x[2:5])


def test_a_body_is_told_by_itself_and_not_by_its_place_or_size() -> None:
    x = FillUp(8).changed(walk(6), RNG)
    step = Centred(1, (0, 2))
    found = step.changed(x, RNG)
    moved = np.where(x.any(axis=(1, 2), keepdims=True), 3 * x + 5, 0).astype(np.float32)
    np.testing.assert_allclose(step.changed(moved, RNG), found, atol=1e-5)
    np.testing.assert_allclose(found[:6, 1].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found[:6, 0] - found[:6, 2], axis=1).mean(), 1, rtol=1e-5)
    assert not found[6:].any()


def test_turns_keep_lengths_and_sizes_do_not() -> None:
    x = walk(5)
    bone = np.linalg.norm(x[:, 0] - x[:, 1], axis=-1)
    turned = RandomTurn(30, 10).changed(x, RNG)
    np.testing.assert_allclose(np.linalg.norm(turned[:, 0] - turned[:, 1], axis=-1), bone, rtol=1e-4)
    assert np.abs(turned - x).max() > 0.05
    upright = RandomTurn(90, 0).changed(x, RNG)
    np.testing.assert_allclose(upright[..., 1], x[..., 1], rtol=1e-5)
    flat = RandomTurn(0, 20).changed(x[..., :2], RNG)
    np.testing.assert_allclose(np.linalg.norm(flat, axis=-1), np.linalg.norm(x[..., :2], axis=-1), rtol=1e-4)
    mirrored = RandomMirror([[0, 2]], p=1.0).changed(x, RNG)
    np.testing.assert_array_equal(mirrored, x[:, [2, 1, 0]] * np.array([-1, 1, 1], np.float32))
    assert (RandomMirror([[0, 2]], p=0.0).changed(x, RNG) == x).all()
    factors = RandomSize(0.2).changed(x, RNG) / x
    np.testing.assert_allclose(factors, np.tile(factors[:1, :1], (5, 3, 1)), rtol=1e-4)
    noisy = Jitter(0.1).changed(FillUp(7).changed(x, RNG), RNG)
    assert not noisy[5:].any()
    assert 0.03 < (noisy[:5] - x).std() < 0.3


def test_a_bundle_prepares_sequences_as_training_does(tmp_path: Path) -> None:
    x = walk(9)
    np.save(tmp_path / "x.npy", x)
    for chain in ([Resample(6), Centred(1, (0, 2))], [FillUp(12), Centred(1)]):
        sample: Any = {"skeleton": x}
        for step in chain:
            sample = step(sample, RNG)
        first, *others = [node for step in chain for node in step.deployed()]
        pre = {"skeleton": [{**first, "joints": 3, "channels": 3, "edges": LINE}, *others]}
        pipeline = Pipeline.read({"pre": pre, "post": {}}, Resources((), {}, {}), "test")
        assert pipeline is not None
        np.testing.assert_array_equal(pipeline.prepare(tmp_path / "x.npy")["skeleton"], sample["skeleton"])
    for wrong, what in ((x[:, :2], "expected numbers"), (np.full_like(x, np.nan), "not finite")):
        with pytest.raises(DataError, match=what):
            read_skeletons(wrong, 3, 3)
    with pytest.raises(DataError, match="edges must be pairs of joints from 0 to 2"):
        Pipeline.read({"pre": {"skeleton": [{**pre["skeleton"][0], "edges": [[0, 3]]}]}, "post": {}},
                      Resources((), {}, {}), "test")  # fmt: skip
    assert SkeletonInput(3, 3, 6).samples(np.random.default_rng(0))[0].shape == (11, 3, 3)
    assert drawn(x, LINE).shape[2] == 3


def test_a_folder_of_sequences(tmp_path: Path) -> None:
    for name in ("sit", "wave"):
        (tmp_path / name).mkdir()
        for k in range(3):
            np.save(tmp_path / name / f"{k}.npy", walk(5 + k))
    data = SkeletonFolder(tmp_path, edges=LINE, centre=1)
    assert (len(data), data.joints, data.channels, list(data.classes)) == (6, 3, 3, ["sit", "wave"])
    np.testing.assert_array_equal(data[4]["skeleton"], walk(6))
    (tmp_path / "sit/1.npy").write_bytes(b"\x93NUMPY broken")
    assert "not an array" in str(data.fault_of(1))
    with pytest.raises(DataFault, match=r"1\.npy \(index 1\)"):
        data[1]
    with pytest.raises(ConfigError, match="each joint in one"):
        RandomMirror([[0, 1], [1, 2]])
    with pytest.raises(ConfigError, match=r"\[0, 3\] is no pair of two of the joints 0 to 2"):
        SkeletonFolder(tmp_path, edges=[[0, 3]])


def test_msr_action3d_is_read_from_texts_and_from_an_archive(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    actions, subjects, sequences = [1, 20, 3, 5], [1, 2, 9, 4], []
    for action, subject in zip(actions, subjects, strict=True):
        x = rng.integers(1, 300, (6, 20, 3)).astype(np.float64)
        x[2, 4] = 0
        sequences.append(x if action != 3 else np.zeros_like(x))
        rows = np.concatenate([sequences[-1], np.ones((6, 20, 1))], axis=2).reshape(-1, 4)
        np.savetxt(tmp_path / f"a{action:02}_s{subject:02}_e01_skeleton.txt", rows, fmt="%.1f")
    texts = {split: MSRAction3D(tmp_path, split=split) for split in ("train", "test")}
    assert [len(each) for each in texts.values()] == [1, 2], "subject 9 has zeros alone"
    assert texts["test"].labels.tolist() == [4, 19]
    first = texts["train"][0]["skeleton"]
    np.testing.assert_allclose(first, in_metres(between(sequences[0])), rtol=1e-6)
    depth = (sequences[0][1, 4, 2] + sequences[0][3, 4, 2]) / 2 / 250
    np.testing.assert_allclose(first[2, 4, 2], depth, rtol=1e-6)
    np.savez(tmp_path / "msraction3d.npz", xyz=np.concatenate(sequences).astype(np.float32), action=np.array(actions),
             subject=np.array(subjects), offset=np.arange(5) * 6)  # fmt: skip
    packed = MSRAction3D(tmp_path / "msraction3d.npz", subjects=[1, 2, 4])
    assert (len(packed), packed.labels.tolist()) == (3, [0, 19, 4])
    np.testing.assert_allclose(packed[0]["skeleton"], first, rtol=1e-6)
    assert len({joint for pair in EDGES for joint in pair}) == 20
    with pytest.raises(ConfigError, match="split='val' is none of train, test"):
        MSRAction3D(tmp_path, split="val")
    np.savez(tmp_path / "msraction3d.npz", xyz=np.zeros((3, 19, 3)))
    with pytest.raises(DataFault, match="cannot be read"):
        MSRAction3D(tmp_path)
