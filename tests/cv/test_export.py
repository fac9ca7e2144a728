"""Every shipped recipe goes into a bundle, and the bundle answers what the model answers."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
from pdl.data.transforms import Grayscale, Normalize, Resize
from pdl.errors import CheckError, DataError, UsageError
from pdl.export.bundle import compare, to_bytes, write
from pdl.export.deployment import TOLERANCE
from pdl.export.imported import import_model
from pdl.export.symbolic import trace_symbolic
from pdl.runtime.bundle import read as read_bundle
from pdl.runtime.info import info
from pdl.runtime.predict import predict
from pdl.train import Recipe, Task
from pdl.train.recipe import Data
from pdl.workflow import exporting
from pdl.workflow.exporting import describe
from pdl_cv import LeNet
from tests.cv.test_classification import photos, recipe, run  # noqa: F401 - fixtures
from tests.framework.runtime.made import whole

#: of classification; tests/cv/detection and tests/cv/keypoints export the others
RECIPES = [
    path
    for path in sorted((Path(__file__).parents[2] / "configs/cv").glob("*.yaml"))
    if "/cv/classification" in path.read_text()
]

#: sizes that each recipe's net may leave open
OPEN = {"LeNet": ["n"], "CifarResNet": ["n", "h", "w"], "MobileNetV3": ["n", "h", "w"], "MobileNetV2": ["n", "h", "w"]}


def shaken(model: pdl.nn.Module) -> pdl.nn.Module:
    """A model whose running statistics are those of some training, not of its birth."""
    rng = np.random.default_rng(1)
    for name, buffer in model.named_buffers():
        if buffer.dtype.kind == "f":
            noise = rng.uniform(0.5, 1.5, buffer.shape).astype(np.float32)
            buffer._data[...] = noise - (1 if "mean" in name else 0)
    return model


def overrides(path: Path) -> list[str]:
    """What a recipe needs to be built without data, and without weights that do not ship: they are shaken anyway."""
    folder = ["data.train.root=photos"] if path.stem.startswith("image_folder") else []
    return folder + ["model.pretrained=null"] * ("pretrained: cv/mobilenet_v2_imagenet" in path.read_text())


def built(path: Path) -> tuple[Task, pdl.nn.Module, Recipe]:
    recipe = Recipe(pdl.config.load(path, overrides(path)))
    grayscale = recipe.model.get("in_channels", 1 if "LeNet" in recipe.model.target else 3) == 1
    task = recipe.task.build(classes=[f"class {i}" for i in range(10)], mode="gray" if grayscale else "rgb")
    with pdl.random.fork_seed(0):
        return task, shaken(task.model(recipe)), recipe


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_every_recipe_exports(path: Path, tmp_path: Path) -> None:
    task, model, loaded = built(path)
    deployer = task.deployer(loaded)
    deployment = deployer.deployment(model)
    describe(deployment, deployer.card(model), {}, None, licence="CC0-1.0")
    made = write(tmp_path / "model.pdl", deployment, name=path.stem, config="a: 1\n")
    assert made.comparison.difference < TOLERANCE
    assert made.comparison.prepared < 1.001
    assert made.comparison.samples == len(deployment.samples) == 4
    assert list(made.program.sizes()) == OPEN[type(model).__name__]
    assert path.stem != "digits_lenet" or made.size < 300_000
    session = pdl.runtime.load(tmp_path / "model.pdl")
    for sample in deployment.samples:
        answer = session(sample)
        (theirs,) = (each.to_dict() for each in predict(deployment, [sample], topk=5))
        assert answer["label"] == theirs["label"]
        assert answer["score"] == pytest.approx(theirs["score"], abs=1e-4)
    assert session.bundle.labels == task.classes
    assert "CC0-1.0" in session.bundle.card
    assert session.bundle.meta["licence"] == "CC0-1.0"
    assert exporting.unfit(made.program) == []


def test_open_sizes_are_right_at_any_size(tmp_path: Path) -> None:
    path = next(p for p in RECIPES if p.stem == "cifar10_resnet20")
    task, model, loaded = built(path)
    deployment = task.deployer(loaded).deployment(model)
    session = pdl.runtime.load(to_bytes(trace_symbolic(model, deployment.inputs)[0], deployment))
    rng = np.random.default_rng(0)
    for shape in [(1, 32, 32, 3), (5, 47, 33, 3), (2, 64, 96, 3)]:
        x = rng.standard_normal(shape).astype(np.float32)
        with pdl.no_grad():
            theirs = model.eval()(pdl.as_tensor(x)).numpy()
        assert np.abs(session.run({"image": x})["logits"] - theirs).max() < 1e-5 * max(1, np.abs(theirs).max())


# -- runs --------------------------------------------------------------------------------------------------------------
def test_training_leaves_a_bundle(run: Path, photos: Path) -> None:  # noqa: F811
    session = pdl.runtime.load(run / "model.pdl")
    picture = photos / "red" / "0.png"
    (theirs,) = pdl.workflow.predict(run, [picture])
    for item in (str(picture), picture.read_bytes(), cv2.imread(str(picture))[..., ::-1]):
        answer = session(item)
        assert answer["label"] == theirs["label"] == "red"
        assert answer["score"] == pytest.approx(theirs["score"], abs=1e-3)
    assert session.bundle.meta["metrics"]["test/accuracy"] > 0.8
    assert session.bundle.meta["about"]["weights"].startswith("best (epoch ")
    assert "pdl_cv.LeNet" in session.bundle.config
    assert pdl.config.load(run / "config.yaml").plain()


def test_a_bundle_is_measured_as_its_run_is(run: Path, tmp_path: Path) -> None:  # noqa: F811
    ours, theirs = pdl.workflow.evaluate(run / "model.pdl", split="val"), pdl.workflow.evaluate(run, split="val")
    assert ours.metrics == pytest.approx(theirs.metrics, rel=1e-4)
    assert (ours.parameters, ours.task, ours.model) == (theirs.parameters, theirs.task, theirs.model)
    shifted = pdl.workflow.evaluate(run / "model.pdl", split="val", overrides=["task.label_smoothing=0.3"])
    assert shifted.metrics == pytest.approx(ours.metrics)
    with pytest.raises(UsageError, match=r"one set of weights; leave out --weights"):
        pdl.workflow.evaluate(run / "model.pdl", weights="last")
    with pytest.raises(UsageError, match=r"no split 'all'; splits are train, val, test"):
        pdl.workflow.evaluate(run / "model.pdl", split="all")
    bare = tmp_path / "bare.pdl"
    bare.write_bytes(whole("conv"))
    with pytest.raises(UsageError, match="holds no recipe"):
        pdl.workflow.evaluate(bare)


def test_export_a_run(run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    made = exporting.export(run, tmp_path / "out.pdl", licence="MIT")
    facts = dict(made.facts)
    assert facts["inputs"] == "image [n, 16, 16, 3]"
    assert facts["checked on"].startswith("8 samples") or facts["checked on"].split()[0].isdigit()
    assert not any("fixed" in note for note in made.notes)  # LeNet says itself that it takes one size
    assert pdl.runtime.load(made.path).bundle.meta["licence"] == "MIT"
    photos.rename(photos.with_name("away"))
    try:
        away = exporting.export(run, tmp_path / "away.pdl")
    finally:
        photos.with_name("away").rename(photos)
    assert any("data is not here" in note and "made-up" in note for note in away.notes)
    with pytest.raises(UsageError, match="--opset belongs to --to onnx"):
        exporting.export(run, tmp_path / "x.pdl", opset=17)


@pytest.mark.parametrize(("store", "dtype"), [("bf16", "bfloat16"), ("fp16", "float16")])
def test_weights_in_half_the_bytes(run: Path, tmp_path: Path, store: str, dtype: str) -> None:  # noqa: F811
    whole = exporting.export(run, tmp_path / "whole.pdl")
    made = exporting.export(run, tmp_path / "half.pdl", store=store)
    facts = dict(made.facts)
    bundle, before = (pdl.runtime.load(each.path).bundle for each in (made, whole))
    for name, array in bundle.weights.items():
        assert array.dtype.name == (dtype if array.ndim > 1 else "float32")
        np.testing.assert_array_equal(array, before.weights[name].astype(array.dtype))
    assert sum(a.nbytes for a in bundle.weights.values()) < 0.6 * sum(a.nbytes for a in before.weights.values())
    # the metrics it carries are its own, and shown beside those of the float32 weights
    accuracy = bundle.meta["metrics"]["test/accuracy"]
    assert f" as float32, {accuracy:.4f} as {store} (" in facts["test/accuracy"]
    assert f"{accuracy:.4f}" in bundle.card
    assert "train/loss" not in bundle.meta["metrics"]
    assert bundle.meta["about"]["stored"] == f"matrices and kernels in {store}"
    messages = info(made.path)["weights"]
    assert dtype in messages
    assert "float32" in messages
    with pytest.raises(UsageError, match="--store belongs to bundles"):
        exporting.export(run, tmp_path / "x.onnx", to="onnx", store=store)


def test_the_cost_of_halves_is_what_the_bundle_scores(run: Path, tmp_path: Path) -> None:  # noqa: F811
    """The stored metric is recomputed by hand, from the file, one image after the other."""
    made = exporting.export(run, tmp_path / "half.pdl", store="bf16")
    opened = pdl.workflow.Run.open(run).opened()
    task, data = opened.task, opened.recipe.data.datasets(("test",))["test"]
    session = pdl.runtime.load(made.path)
    right = [session(sample["image"])["label"] == task.classes[int(sample["label"])] for sample in data]
    assert np.mean(right) == pytest.approx(session.bundle.meta["metrics"]["test/accuracy"], abs=1e-9)


def test_a_bundle_says_with_which_weights_its_run_began(run: Path, photos: Path, tmp_path: Path) -> None:  # noqa: F811
    """And what was learned on them can be learned on again."""
    first = str(run / "model.pdl")
    result = pdl.workflow.train(recipe(photos, train__epochs=1, model__pretrained=first), run=tmp_path / "run")
    assert result.pretrained[0]["loaded"] == 10
    session = pdl.runtime.load(tmp_path / "run" / "model.pdl")
    assert session.bundle.meta["about"]["pretrained"] == first
    assert info(tmp_path / "run" / "model.pdl")["pretrained"] == first


def test_storage_that_damages_is_refused(run: Path, tmp_path: Path) -> None:  # noqa: F811
    opened = pdl.workflow.Run.open(run).opened()
    task, model = opened.task, opened.model
    deployment = task.deployer(opened.recipe).deployment(model)
    model.fc3.weight._data[0, 0] = 1e5
    with pytest.raises(CheckError, match=r"fc3.weight holds 1e\+05, more than the 65504 of float16.*--store bf16"):
        write(tmp_path / "model.pdl", deployment, store="fp16")
    # sums of large numbers that cancel, of which bf16 knows no odd ones and fp16 knows all: 8 x (1003 - 1001)
    model.fc2.weight._data[:], model.fc2.bias._data[:] = 0, 1
    model.fc3.weight._data[:] = np.where(np.arange(len(model.fc3.weight.data))[:, None] % 2, 1003, -1001)
    with pytest.raises(CheckError, match=r"with weights stored as bf16: .* more than 0.0625.*use --store fp16"):
        write(tmp_path / "model.pdl", deployment, store="bf16")
    assert not (tmp_path / "model.pdl").exists()
    assert write(tmp_path / "model.pdl", deployment, store="fp16").stored is not None
    with pytest.raises(UsageError, match="--store fp8: choose one of fp32, bf16, fp16, k4"):
        write(tmp_path / "model.pdl", deployment, store="fp8")


def test_what_disagrees_is_not_written(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    opened = pdl.workflow.Run.open(run).opened()
    task, model = opened.task, opened.model
    deployment = task.deployer(opened.recipe).deployment(model)
    program, _ = trace_symbolic(model, deployment.inputs)
    data = to_bytes(program, deployment)
    model.fc3.bias._data[0] += 1e-3
    with pytest.raises(CheckError, match=r"outputs differ from the model's by .* more than 1e-05"):
        compare(pdl.runtime.load(data), deployment)
    named = task.classes.index(pdl.runtime.load(data)(deployment.samples[0])["label"])
    model.fc3.bias._data[named - 1] += 100
    with pytest.raises(CheckError, match=r"the bundle answers {.*} where the model answers"):
        compare(pdl.runtime.load(data), deployment, tolerance=10.0)
    deployment.prepare = lambda sample: {"image": np.zeros((16, 16, 3), np.float32)}
    with pytest.raises(CheckError, match=r"differs from training's by .* grey levels\)"):
        write(tmp_path / "model.pdl", deployment)
    deployment.prepare = lambda sample: {"image": np.zeros((8, 16, 3), np.float32)}
    with pytest.raises(CheckError, match=r"training's float32 \(8, 16, 3\)"):
        write(tmp_path / "model.pdl", deployment)
    assert not (tmp_path / "model.pdl").exists()


def test_transforms_without_a_form_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Recipe(pdl.config.load(next(p for p in RECIPES if p.stem == "digits_lenet")))
    task = loaded.task.build(classes=["a", "b"], mode="gray")
    stages = [Resize(8, interpolation="cubic"), pdl.data.transforms.GaussianBlur(), Normalize(0.5, 0.5)]
    monkeypatch.setattr(Data, "transforms", lambda *_, **__: stages)
    with pytest.raises(UsageError, match=r"Resize with interpolation='cubic'.*\n.*eval: GaussianBlur has no form"):
        task.deployer(loaded).deployment(pdl.nn.Flatten())
    assert Grayscale(3).deployed() == [{"step": "gray", "channels": 3}]


def test_a_run_that_cannot_be_exported_is_as_good(photos: Path, tmp_path: Path, capsys: Any) -> None:  # noqa: F811
    blur = {"_target_": "pdl.data.transforms.GaussianBlur"}
    cfg = recipe(photos, train__epochs=1)
    cfg["data"]["transforms"]["eval"].insert(0, blur)
    result = pdl.workflow.train(cfg, run=tmp_path / "run")
    assert "no model.pdl was written: data.transforms.eval: GaussianBlur has no form" in capsys.readouterr().err
    assert result.metrics["test/loss"] > 0
    assert not (tmp_path / "run" / "model.pdl").exists()
    off = pdl.workflow.train(recipe(photos, train__epochs=1, train__export=False), run=tmp_path / "off", progress=False)
    assert off.status == "finished"
    assert not (tmp_path / "off" / "model.pdl").exists()


def test_check_before_training(photos: Path) -> None:  # noqa: F811
    cfg = pdl.config.from_dict(recipe(photos))
    found = exporting.check(cfg)
    assert found.faults == []
    assert found.inputs == "image [n, 16, 16, 3]"
    with pytest.raises(DataError, match="nowhere"):
        exporting.check(pdl.config.from_dict(recipe(photos / "nowhere")))


def test_check_names_the_line_that_no_program_holds(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    forward = LeNet.forward
    monkeypatch.setattr(LeNet, "forward", lambda self, x: forward(self, x) * float(x.sum()))
    (fault,) = exporting.check(pdl.config.from_dict(recipe(photos))).faults
    assert re.match(r".*test_export.py:\d+: Python needs the values of a tensor", fault)


def test_a_run_as_onnx(run: Path, tmp_path: Path) -> None:  # noqa: F811
    onnx = pytest.importorskip("onnx")
    made = exporting.export(run, tmp_path / "model.onnx", to="onnx", opset=18, licence="MIT")
    facts = dict(made.facts)
    assert facts["opset"] == 18
    assert facts["inputs"] == "image [n, 3, 16, 16]"
    read = onnx.load(str(made.path))
    onnx.checker.check_model(read)
    stored = {entry.key: entry.value for entry in read.metadata_props}
    assert stored["licence"] == "MIT"
    assert "red" in stored["labels"]
    assert "resize" in stored["pre"]


def test_a_bundle_as_onnx(run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    onnx = pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)
    made = exporting.bundle_to_onnx(run / "model.pdl")
    assert made.path == Path("model.onnx")
    assert "e-0" in dict(made.facts)["difference"] or "not compared" in dict(made.facts)["difference"]
    read = onnx.load(str(made.path))
    stored = {entry.key: entry.value for entry in read.metadata_props}
    assert "red" in stored["labels"]
    assert "resize" in stored["pre"]
    again = import_model(made.path, tmp_path / "again.pdl", pipeline=None)
    assert again["checks"] == [] or again["checks"][0]["relative"] < 1e-4
    kept = read_bundle(run / "model.pdl")
    graph = {"kind": "onnx", "graph": {}}
    monkeypatch.setattr(exporting, "read", lambda _: dataclasses.replace(kept, program=graph))
    with pytest.raises(UsageError, match="keeps the ONNX graph"):
        exporting.bundle_to_onnx(run / "model.pdl")


def test_check_names_what_onnx_lacks(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("pdl.export.onnx.missing", lambda program, opset: [("Strange", "net.py:7")])
    found = exporting.check(pdl.config.from_dict(recipe(photos)), to="onnx")
    assert found.faults == ["net.py:7: Strange has no ONNX form"]
