"""MedMNIST's npz files: gray and colour, official splits, and files that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.config import load
from pdl.data import DataFault
from pdl.errors import ConfigError
from pdl.workflow.training import train
from pdl_cv.data import MedMNIST

RNG = np.random.default_rng(0)
SIZES = {"train": 30, "val": 6, "test": 12}


def arrays(*shape: int) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    for split, count in SIZES.items():
        made[f"{split}_images"] = RNG.integers(0, 256, (count, *shape), dtype=np.uint8)
        made[f"{split}_labels"] = (np.arange(count, dtype=np.uint8) % 3)[:, None]
    return made


def written(folder: Path, held: dict[str, Any]) -> Path:
    np.savez(folder / "some.npz", **held)
    return folder / "some.npz"


@pytest.mark.parametrize(("shape", "channels"), [((28, 28), 1), ((28, 28, 3), 3), ((64, 64, 3), 3)])
def test_pixels_labels_and_splits(shape: tuple[int, ...], channels: int, tmp_path: Path) -> None:
    held = arrays(*shape)
    path = written(tmp_path, held)
    for split, count in SIZES.items():
        data = MedMNIST(path, split=split)  # type: ignore[arg-type]
        assert len(data) == count
        assert data[1]["image"].shape == (*shape[:2], channels)
        np.testing.assert_array_equal(data[1]["image"].squeeze(), held[f"{split}_images"][1])
        assert np.asarray(data.labels).tolist() == held[f"{split}_labels"][:, 0].tolist()
        assert data.classes == ["0", "1", "2"]
    named = MedMNIST(path, names=["a", "b", "c"], classes=["c", "a"], per_class=2, mode="rgb")
    assert named.classes == ["c", "a"]
    assert named[0]["image"].shape[-1] == 3
    assert sorted(np.asarray(named.labels).tolist()) == [0, 0, 1, 1]


def test_it_is_found_under_pdl_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "medmnist").mkdir()
    written(tmp_path / "medmnist", arrays(28, 28))
    monkeypatch.setenv("PDL_DATA", str(tmp_path))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    assert len(MedMNIST("some.npz", split="val")) == 6
    with pytest.raises(DataFault, match="is not there; looked for other"):
        MedMNIST("other.npz")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"train_labels": np.zeros((30, 14), np.uint8)}, "train_labels is uint8 (30, 14); expected whole numbers"),
        ({"train_labels": np.zeros((29, 1), np.uint8)}, "expected whole numbers [30] or [30, 1]"),
        ({"train_labels": np.full((30, 1), -1)}, "train_labels has -1"),
        ({"train_images": np.zeros((30, 28, 28, 28), np.uint8)}, "expected uint8 [N, H, W] or [N, H, W, 3]"),
        ({"train_images": np.zeros((30, 28, 28))}, "train_images is float64"),
        ({"train_images": np.array([None] * 30)}, "train_images cannot be read: it holds Python objects"),
    ],
)
def test_what_is_no_such_file(changes: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(DataFault) as error:
        MedMNIST(written(tmp_path, arrays(28, 28) | changes))
    assert match in str(error.value)


def test_other_files_and_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    with pytest.raises(DataFault, match="has no array train_labels; it has x"):
        MedMNIST(tmp_path / "x.npz")
    (tmp_path / "y.npz").write_bytes(b"no zip")
    with pytest.raises(DataFault, match="cannot be read"):
        MedMNIST(tmp_path / "y.npz")
    with pytest.raises(ConfigError, match="names has 2 names"):
        MedMNIST(written(tmp_path, arrays(28, 28)), names=["a", "b"])


def test_a_recipe_trains_on_one_beside_it(tmp_path: Path) -> None:
    MedMNIST.stand_in(tmp_path, {})
    splits = "\n".join(f"  {s}: {{_target_: pdl_cv.data.MedMNIST, path: digits.npz, split: {s}}}" for s in SIZES)
    text = f"defaults: [/cv/digits_lenet, _self_]\nmodel: {{image_size: 28}}\ndata:\n{splits}\ntrain: {{epochs: 1}}\n"
    (tmp_path / "mine.yaml").write_text(text.replace("epochs: 1", "epochs: 1, report: false, export: false"))
    overrides = ["data.transforms.eval.0.size=28"]
    result = train(load(tmp_path / "mine.yaml", overrides), run=tmp_path / "run", progress=False)
    assert result.metrics["test/accuracy"] > 0.2
