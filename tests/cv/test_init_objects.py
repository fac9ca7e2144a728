"""`pdl init` for images with objects: what was found is told, and the recipe passes the check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pdl import config
from pdl.cli import main
from pdl.errors import DataError
from pdl.workflow.new_recipe import init
from pdl_cv.data import DetectionFolder, standin
from pdl_cv.data.survey import input_side, survey
from pdl_cv.detection.init import write_recipe
from tests.cv.data import objects
from tests.cv.data.objects import FORMS


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PDL_DATA", "PDL_CACHE"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("store")))


@pytest.mark.parametrize("build", FORMS, ids=lambda build: build.__name__)
def test_every_format_gives_a_recipe(build: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    build(tmp_path / "data")
    recipe = config.load(init("cv.detection", data=tmp_path / "data", out=tmp_path / "r.yaml"))
    assert recipe.get("data.train.split") == "train"
    assert recipe.get("data.val.root") == str(tmp_path / "data")
    assert recipe.get("data.test") is None
    assert (recipe.get("task.protocol") == "voc") == (FORMS[build] == "voc")


def test_it_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    standin.write_objects(tmp_path / "data", ["zero", "one"], splits=False)
    recipe = tmp_path / "my recipe.yaml"
    assert main(["init", "cv.detection", "--data", str(tmp_path / "data"), "--out", str(recipe)]) == 0
    said = capsys.readouterr().out
    assert "COCO JSON: 51 images of train (cut)" in said
    assert "zero " in said
    assert "pixels a side" in said
    assert said.splitlines()[-1] == f"next:  pdl train -c '{recipe}'"
    assert len(recipe.read_text().splitlines()) < 40
    parts = survey(tmp_path / "data").parts
    assert sum(map(len, parts.values())) == standin.SCENES["train"]
    assert main(["check", "-c", str(recipe)]) == 0


def test_a_wrong_annotation_of_many_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects.yolo(tmp_path)
    (tmp_path / "labels/train/1.txt").write_text("0 0.5 0.5 0.1")
    assert main(["init", "cv.detection", "--data", str(tmp_path), "--out", str(tmp_path / "r.yaml")]) == 0
    said = capsys.readouterr().out
    assert "2 images of train, 1 images of val" in said
    assert "1 annotation is wrong and not counted (pdl check lists all): " in said
    assert "1.txt:1: 3 numbers after the class" in said


def test_a_class_s_name_stays_in_the_comment(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    file = tmp_path / "data.yaml"
    file.write_text(file.read_text().replace("cat", '"cat\\nmodel: dog"'))
    assert "cat model: dog 2" in init("cv.detection", data=tmp_path, out=tmp_path / "r.yaml").read_text()


def test_with_the_weights_of_imagenet_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.yolo(tmp_path)
    texts = {}
    for problem in (None, "offline"):
        monkeypatch.setattr("pdl_cv.detection.init.obtainable", lambda _, found=problem: found)
        texts[problem] = write_recipe(tmp_path)
    assert "pretrained: cv/mobilenet_v2_imagenet" in texts[None]
    assert "pretrained" not in texts["offline"].partition("defaults:")[2]
    assert "# From random weights: offline." in texts["offline"]


def test_the_input_follows_from_pictures_and_objects(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    found = survey(tmp_path)
    assert (found.height, found.width) == (30, 40)
    assert 0.4 < found.span < 0.9
    for height, span, side in ((30, 0.5, 256), (300, 0.5, 320), (2000, 0.5, 320), (2000, 0.02, 480), (256, 0.05, 384)):
        other = type(found)(found.root, found.parts, {}, height, 100, span)
        assert input_side(other, 320, 20) == side


@pytest.mark.parametrize("build", [objects.roboflow_yolo, objects.coco, objects.labelme], ids=lambda b: b.__name__)
def test_instance_masks(build: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    build(tmp_path / "data")
    recipe = config.load(init("cv.instance", data=tmp_path / "data", out=tmp_path / "r.yaml"))
    assert recipe.get("data.train.masks") is True
    assert recipe.get("model._target_") == "pdl_cv.MaskRCNN"


def test_boxes_alone_are_no_masks(tmp_path: Path) -> None:
    objects.yolo(tmp_path)
    with pytest.raises(DataError, match="3 of 3 objects have no mask"):
        init("cv.instance", data=tmp_path, out=tmp_path / "r.yaml")


def test_keypoints(tmp_path: Path) -> None:
    standin.write_objects(tmp_path / "data", ["zero", "one"], splits=True)
    written = init("cv.keypoints", data=tmp_path / "data", out=tmp_path / "r.yaml")
    assert "4 keypoints. " in written.read_text()
    assert "RandomHorizontalFlip" in written.read_text()
    assert "size: [256, 192]" in written.read_text()  # digits are higher than wide
    assert main(["check", "-c", str(written)]) == 0
    for split in ("train", "val", "test"):
        text = (tmp_path / f"data/{split}.json").read_text()
        (tmp_path / f"data/{split}.json").write_text(text.replace("left_", "a").replace("right_", "b"))
    assert "RandomHorizontalFlip" not in init(
        "cv.keypoints", data=tmp_path / "data", out=tmp_path / "r.yaml", force=True).read_text()  # fmt: skip


def test_nothing_is_marked(tmp_path: Path) -> None:
    objects.pictures(tmp_path, "images")
    (tmp_path / "a.csv").write_text("file,x1,y1,x2,y2,class\n" + "".join(f"{n}.png,,,,,\n" for n in range(4)))
    with pytest.raises(DataError, match="no objects are marked"):
        write_recipe(tmp_path)
    assert len(DetectionFolder(tmp_path)) == 4
