"""`pdl preview` shows the images that training gets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.cli import main
from pdl.config import from_dict
from pdl.data import transforms as T
from pdl.data.transforms.numeric import displayed
from pdl.errors import UsageError
from pdl.report import picture
from pdl.train import Recipe
from pdl.workflow import preview

SIDE = 16
NORM = {"_target_": "pdl.data.transforms.Normalize", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.25]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of six noisy images."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        for i in range(6):
            cv2.imwrite(str(folder / name / f"{i}.png"), rng.integers(0, 256, (20, 24, 3), np.uint8))
    return folder


def recipe(root: Path, **transforms: Any) -> dict[str, Any]:
    """With a model that cannot be built: its weights are nowhere."""
    t = "pdl.data.transforms."
    train = [{"_target_": t + "RandomResizedCrop", "size": SIDE}, {"_target_": t + "RandAugment"}, NORM]
    return {
        "task": {"_target_": "pdl_cv.Classification"},
        "model": {"_target_": "pdl_cv.MobileNetV3", "pretrained": "cv/no_such_weights"},
        "data": {
            "train": {"_target_": "pdl_cv.data.ImageFolder", "root": str(root)},
            "transforms": {"train": train, "eval": [{"_target_": t + "Resize", "size": SIDE}, NORM], **transforms},
            "batch_size": 4,
        },
        "optim": {"_target_": "pdl.optim.Adam"},
        "train": {"seed": 5},
    }


def test_the_images_are_those_of_training(root: Path) -> None:
    tree = recipe(root)
    found = preview(from_dict(tree), samples=12, versions=2)
    html = next(each.html for each in found.sections if each.title == "Samples")
    known = Recipe(tree)
    task, datasets = known.task.build(), known.data.datasets()
    task.prepare(known, datasets)
    for training in (True, False):
        loader = task.loader(datasets["train"], known, training=training, seed=5)
        for batch in [*loader, *(loader if training else ())]:
            assert all(picture(displayed(image, loader.pipeline.steps)) in html for image in batch["image"])
    assert html.count("<img") == 12 * (1 + 2 + 1)
    assert all(name in html for name in ("dog, dog/3.png, 24x20", "epoch 0", "epoch 1", "evaluation"))
    assert found.page() == preview(from_dict(tree), samples=12, versions=2).page()
    assert found.page() != preview(from_dict(tree), samples=12, versions=2, seed=6).page()


def test_mixed_batches_with_their_labels(root: Path) -> None:
    mixes = [{"_target_": "pdl.data.transforms.MixUp", "num_classes": 2, "alpha": 1e6}]
    html = {each.title: each.html for each in preview(from_dict(recipe(root, batch=mixes)), samples=2).sections}
    assert html["Mixed batches"].count("<img") == 8
    assert "0.50 dog + 0.50 cat" in html["Mixed batches"] or "0.50 cat + 0.50 dog" in html["Mixed batches"]
    assert "MixUp(num_classes=2" in html["Transforms"]
    assert list(html) == ["Samples", "Mixed batches", "Transforms"]


def test_the_command(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(json.dumps(recipe(root)))
    assert main(["preview", "-c", "r.yaml", "--samples", "3", "--seed", "7", "--json", "data.batch_size=2"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["samples"], said["page"]) == (12, "preview.html")
    assert said["next"] == "pdl train -c r.yaml data.batch_size=2 train.seed=7"
    assert samples_of("preview.html").count("<img") == 3 * 8
    assert main(["preview", "-c", "r.yaml", "--split", "val"]) == 2
    assert "no data.val" in capsys.readouterr().err
    assert main(["preview", "-c", "r.yaml", "data.val=${data.train}", "--split", "val", "--out", "v.html"]) == 0
    assert "epoch 0" not in Path("v.html").read_text(), "evaluation sees no augmentation"
    (root / "cat/9.png").write_bytes(b"not an image")
    try:
        assert main(["preview", "-c", "r.yaml", "--samples", "20"]) == 3
        assert "9.png" in capsys.readouterr().err
        assert main(["preview", "-c", "r.yaml", "--samples", "20", "data.on_error=skip"]) == 0
        assert samples_of("preview.html").count("<img") == 12 * 8
    finally:
        (root / "cat/9.png").unlink()
    with pytest.raises(UsageError, match="must be at least 1"):
        preview(from_dict(recipe(root)), versions=0)


def samples_of(page: str) -> str:
    return Path(page).read_text().split("<h2>Transforms")[0]


def test_what_each_transform_makes_of_a_sample(root: Path) -> None:
    """The last picture of training is what the first epoch sees; where nothing changes to the eye there is none."""
    sections = {each.title: each.html for each in preview(from_dict(recipe(root)), samples=1, versions=1).sections}
    first, seen, evaluated = re.findall("<img.*?>", sections["Samples"])
    rows = [re.findall("<td.*?>(.*?)</td>", row) for row in sections["Transforms"].split("<tr>")[2:]]
    assert [(stage, said.split("(")[0]) for stage, said, _ in rows] == [
        ("train", "as it is read"), ("train", "RandomResizedCrop"), ("train", "RandAugment"), ("train", "Normalize"),
        ("eval", "as it is read"), ("eval", "Resize"), ("eval", "Normalize"),
    ]  # fmt: skip
    read, cropped, augmented, normalised, again, resized, _ = (cell for _, _, cell in rows)
    assert first in read
    assert first in again
    assert "24x20" in read
    assert "16x16" in cropped
    assert seen in augmented
    assert seen not in cropped
    assert evaluated in resized
    assert normalised == ""


@pytest.mark.parametrize("steps", [[T.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.25])], [T.ToFloat()],
                                   [T.ToFloat(), T.Normalize(0.5, 0.1)], []])  # fmt: skip
def test_what_people_see_is_what_was_before_the_numbers_changed(steps: list[Any]) -> None:
    image = np.arange(256 * 3, dtype=np.uint16).astype(np.uint8).reshape(16, 16, 3)
    changed = image
    for step in steps:
        changed = step.images(changed)
    assert np.array_equal(displayed(changed, steps), image)
    unknown = image.astype(np.float32) * 7 - 3
    assert np.array_equal(displayed(unknown, []), image), "stretched"
    assert displayed(image[..., :2], []).shape == (16, 16, 1)
