"""The classification task on images made here: folders in, run folder, predictions and report out."""

from __future__ import annotations

import html.parser
import io
import json
import os
import shlex
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
import pdl_cv.data
from pdl.config import load
from pdl.data import Few, Fold
from pdl.errors import CheckError, ConfigError, DataError, NumericalError, UsageError
from pdl.hub.pretrained import deferred
from pdl.train import Evaluation, Hook, Recipe
from pdl.train.assembly import restored
from pdl.train.metrics import Mistake
from pdl.workflow.result import FIELDS, Result
from pdl_cv import Classification

COLOURS = {"blue": (200, 40, 40), "green": (40, 200, 40), "red": (40, 40, 200)}  # BGR, as OpenCV writes


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of 12 noisy images of one colour, of unequal size."""
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name, colour in COLOURS.items():
        for i in range(12):
            noise = rng.normal(0, 30, (20 + i, 24, 3))
            (root / name).mkdir(exist_ok=True)
            cv2.imwrite(str(root / name / f"{i}.png"), np.clip(noise + colour, 0, 255).astype(np.uint8))
    return root


def recipe(photos: Path, **over: Any) -> dict[str, Any]:
    t = "pdl.data.transforms."
    resize, norm = {"_target_": t + "Resize", "size": 16}, {"_target_": t + "Normalize", "mean": 0.5, "std": 0.25}
    source = {
        "_target_": "pdl_cv.data.ImageFolder",
        "root": str(photos),
        "ratios": {"train": 0.6, "val": 0.2, "test": 0.2},
    }
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_cv.Classification"},
        "model": {
            "_target_": "pdl_cv.LeNet",
            "in_channels": 3,
            "image_size": 16,
            "channels": [4, 8],
            "hidden": [16, 8],
        },
        "data": {split: {**source, "split": split} for split in ("train", "val", "test")}
        | {"transforms": {"train": [resize, norm], "eval": [resize, norm]}, "batch_size": 8},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-2},
        "train": {"epochs": 12, "log_every": 1},
    }
    for key, value in over.items():
        at, *names = key.split("__")
        node = tree[at]
        for name in names[:-1]:
            node = node[name]
        node[names[-1]] = value
    return tree


@pytest.fixture(scope="session")
def run(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "my photos"
    pdl.workflow.train(recipe(photos, train__tensorboard=True), run=folder, progress=False)
    return folder


def test_the_folder_holds_what_it_promises(run: Path) -> None:
    made = [
        "checkpoints",
        "config.yaml",
        "example.png",
        "metrics.jsonl",
        "model.pdl",
        "report.html",
        "result.json",
        "run.json",
        "tensorboard",
        "train.log",
    ]
    assert sorted(p.name for p in run.iterdir()) == made
    assert {p.name for p in (run / "checkpoints").iterdir()} == {"best.safetensors", "last.safetensors"}
    kinds = [json.loads(line)["kind"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert kinds.count("epoch") == 12
    assert kinds[-1] == "test"


def test_result_follows_its_schema(run: Path) -> None:
    data = json.loads((run / "result.json").read_text())
    assert data.keys() == FIELDS.keys()
    wrong = {name: data[name] for name, kind in FIELDS.items() if not isinstance(data[name], kind)}
    assert not wrong
    assert {"test/accuracy", "test/loss", "val/accuracy", "val/loss", "train/loss"} <= data["metrics"].keys()
    assert data["metrics"]["test/accuracy"] > 0.8
    assert data["weights"].startswith("best (epoch ")
    assert data["recipe"] == "run"
    assert Result.load(run / "result.json").to_dict() == data
    assert shlex.split(data["next"]) == ["pdl", "predict", str(run), str(run / "example.png")]


def test_evaluate_agrees_with_the_end_of_training(run: Path) -> None:
    known = Result.load(run / "result.json").metrics
    assert pdl.workflow.evaluate(run).metrics == {k: v for k, v in known.items() if k.startswith("test/")}
    assert pdl.workflow.evaluate(run, split="val").metrics == {k: v for k, v in known.items() if k.startswith("val/")}
    assert pdl.workflow.evaluate(run, split="train").metrics["train/accuracy"] > 0.8
    with pytest.raises(UsageError, match=r"no split 'tets'"):
        pdl.workflow.evaluate(run, split="tets")
    with pytest.raises(UsageError, match=r"no weights 'first' in a run"):
        pdl.workflow.evaluate(run, weights="first")


def test_predict_from_the_run_alone(run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    moved = tmp_path / "moved"
    os.rename(photos, tmp_path / "gone")
    try:
        copied = {p.relative_to(run): p.read_bytes() for p in run.rglob("*") if p.is_file()}
        for name, data in copied.items():
            (moved / name).parent.mkdir(parents=True, exist_ok=True)
            (moved / name).write_bytes(data)
        gone = tmp_path / "gone"
        red = gone / "red" / "0.png"
        array = cv2.imread(str(red))[..., ::-1]
        monkeypatch.setattr("sys.stdin", type("In", (), {"buffer": io.BytesIO(red.read_bytes())}))
        found = pdl.workflow.predict(
            moved, [red, str(gone / "green"), str(gone / "b*" / "1?.png"), "-", array], topk=2, batch_size=5
        )
    finally:
        os.rename(tmp_path / "gone", photos)
    assert [p["label"] for p in found] == ["red", *["green"] * 12, *["blue"] * 2, "red", "red"]
    assert found[0]["score"] == pytest.approx(found[-2]["score"]) == pytest.approx(found[-1]["score"])
    assert [len(p["top"]) for p in found] == [2] * 17
    assert found[0]["class"] == 2
    assert 1 >= found[0]["score"] == found[0]["top"][0]["score"] > found[0]["top"][1]["score"]
    json.dumps(found)


def test_annotated_pictures(run: Path, photos: Path, tmp_path: Path) -> None:
    found = pdl.workflow.predict(run, [photos / "red" / "0.png", photos / "blue" / "0.png"], save=tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["0-2.png", "0.png"]
    drawn = cv2.imread(found[0]["saved"])
    assert drawn.shape[1] >= 256


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ("absent.png", DataError, r"absent.png: no such file"),
        ("none*.png", DataError, r"none\*.png: no file matches"),
        (".", DataError, r"no images"),
        (np.zeros((4, 4, 3)), UsageError, r"float64 \(4, 4, 3\)"),
        (b"GIF89a", DataError, r"not an image.*; give a whole image$"),
    ],
    ids=["file", "pattern", "folder", "array", "bytes"],
)
def test_bad_inputs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, item: Any, error: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        pdl.workflow.predict(run, [item])


class Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("img", "meta", "br", "rect", "line", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_one_static_page(run: Path) -> None:
    text = (run / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.open
    assert page.tags.count("svg") >= 3
    assert page.tags.count("script") <= 1, "the one that copies commands"
    assert "link" not in page.tags
    assert all(address.startswith("data:") for address in page.addresses)
    for part in ("Confusion matrix", "learning rate", "green", "pdl_cv.LeNet", "test/accuracy"):
        assert part in text


@pytest.mark.parametrize("part", ["folder", "few", "fold", "digits"])
def test_mistakes_name_their_files(photos: Path, part: str) -> None:
    folder = pdl_cv.data.ImageFolder(photos)
    datasets: dict[str, Any] = {
        "folder": folder,
        "few": Few(folder, 30),
        "fold": Fold([folder], split="train", fold=0, folds=3),
        "digits": pdl_cv.data.Digits(split="test"),
    }
    dataset, task = datasets[part], Classification(classes=folder.classes)
    index = len(dataset) - 1
    details = {"confusion": np.eye(3, dtype=int), "mistakes": [Mistake(2.0, index, 2, 0, 0.75)]}
    sections = task.reporter().sections(Evaluation("test", {}, details, {}, 0.0), dataset)
    worst = next(each.html for each in sections if each.title == "Worst mistakes")
    named = f"sample {index}" if part == "digits" else os.path.relpath(str(dataset.path_of(index)), photos)
    assert f"red taken for blue (75%), {named}<" in worst


def test_resumed_after_an_error_equals_unbroken(photos: Path, tmp_path: Path, run: Path) -> None:
    class Stop(Hook):
        def on_step(self, trainer: Any) -> None:
            if trainer.state.step == 7:
                raise KeyboardInterrupt

    cfg = recipe(photos, train__tensorboard=True)
    with pytest.raises(KeyboardInterrupt):
        pdl.workflow.train(cfg, run=tmp_path / "r", hooks=[Stop()], progress=False)
    assert pdl.workflow.info(tmp_path / "r")["status"] == "unfinished"
    with pytest.raises(UsageError, match=r"holds a run already"):
        pdl.workflow.train(cfg, run=tmp_path / "r")
    with pytest.raises(UsageError, match=r"optim.lr: 0.01 -> 0.1"):
        pdl.workflow.train(recipe(photos, train__tensorboard=True, optim__lr=0.1), run=tmp_path / "r", resume=True)
    again = pdl.workflow.train(
        recipe(photos, train__tensorboard=True, data__workers=1), run=tmp_path / "r", resume=True, progress=False
    )
    assert again.metrics == Result.load(run / "result.json").metrics
    weights = [pdl.checkpoint.load(r / "checkpoints/last.safetensors")["model"] for r in (tmp_path / "r", run)]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[1])
    assert pdl.workflow.info(tmp_path / "r")["status"] == "finished"


def test_workers_and_the_next_run_change_no_bit(photos: Path, tmp_path: Path) -> None:
    hashes = []
    for workers in (0, 1, 2):
        folder = tmp_path / str(workers)
        pdl.workflow.train(recipe(photos, data__workers=workers, train__epochs=2), run=folder, progress=False)
        state = pdl.checkpoint.load(folder / "checkpoints/last.safetensors")["model"]
        hashes.append(b"".join(state[name].tobytes() for name in sorted(state)))
    assert len(set(hashes)) == 1


def test_fast_dev_run_and_overfit(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = pdl.workflow.train(recipe(photos), run=tmp_path / "quick", fast_dev_run=True, progress=False)
    assert (quick.status, quick.steps) == ("fast dev run", 2)
    known = pdl.workflow.train(recipe(photos), run=tmp_path / "known", overfit=6, progress=False)
    assert known.status == "overfit"
    assert known.metrics["val/accuracy"] == 1.0
    monkeypatch.setattr("pdl.workflow.training.OVERFIT_EPOCHS", 2)
    with pytest.raises(CheckError, match=r"not to a tenth"):
        pdl.workflow.train(recipe(photos, optim__lr=0.0), run=tmp_path / "never", overfit=6, progress=False)


RESIZE = {"_target_": "pdl.data.transforms.Resize", "size": 16}
MISFITS: list[tuple[dict[str, Any], Any, str]] = [
    (
        {"model__num_classes": 7},
        ConfigError,
        r"outputs of shape \(1, 7\), but the data has 3 classes \(blue, green, red\)",
    ),
    ({"model__in_channels": 1}, ConfigError, r"pdl_cv.LeNet does not take the images of data.train"),
    ({"data__transforms__eval": []}, ConfigError, r"data.val after data.transforms.eval"),
    (
        {"data__transforms__train": [{"_target_": "pdl.data.transforms.Resize", "size": 16}]},
        ConfigError,
        r"uint8 images; add .*Normalize",
    ),
    ({"task__classes": ["a", "b"]}, DataError, r"data.train: has 3 classes \(blue, green, red\), expected 2 \(a, b\)"),
    ({"data__train__root": "/nowhere"}, DataError, r"/nowhere"),
]


@pytest.mark.parametrize(("over", "error", "message"), MISFITS, ids=[next(iter(over)) for over, _, _ in MISFITS])
def test_what_does_not_fit_is_said_before_anything_is_written(
    photos: Path, tmp_path: Path, over: Any, error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        pdl.workflow.train(recipe(photos, **over), run=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_divergence_keeps_the_last_good_checkpoint(photos: Path, tmp_path: Path) -> None:
    class Break(Hook):
        def sync_gradients(self, trainer: Any) -> None:
            if trainer.state.epoch == 1:
                for p in trainer.model.parameters():
                    p.grad = p.grad * float("nan")

    with (
        pytest.raises(NumericalError, match=r"(?s)diverged.*last good checkpoint is .*last.safetensors"),
        np.errstate(all="ignore"),
    ):
        pdl.workflow.train(recipe(photos), run=tmp_path / "run", hooks=[Break()], progress=False)
    saved = pdl.checkpoint.load(tmp_path / "run/checkpoints/last.safetensors")
    assert saved["state"]["epoch"] == 1
    assert all(np.isfinite(w).all() for w in saved["model"].values())


def test_soft_labels_and_smoothing() -> None:
    task = Classification(classes=["a", "b", "c"], label_smoothing=0.1)
    logits = pdl.tensor([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]])
    hard = np.array([1, 2])
    batch = {"image": np.zeros((2, 1), np.float32), "label": hard}
    soft = {**batch, "label": np.eye(3, dtype=np.float32)[hard]}
    model: Any = lambda x: logits  # noqa: E731
    assert task.step(model, batch).value.item() == pytest.approx(task.step(model, soft).value.item(), rel=1e-5)
    assert task.evaluate(model, batch).value.item() < task.step(model, batch).value.item()


def test_mixed_batches_train(photos: Path, tmp_path: Path) -> None:
    mix = [{"_target_": "pdl.data.transforms.CutMix", "num_classes": 3, "p": 0.5}]
    result = pdl.workflow.train(
        recipe(photos, data__transforms__batch=mix), run=tmp_path / "run", fast_dev_run=True, progress=False
    )
    assert np.isfinite(result.metrics["train/loss"])


def test_check_finds_faults(photos: Path, tmp_path: Path) -> None:
    cfg = pdl.config.from_dict(recipe(photos, model__num_classes=4))
    faults = Classification().check(Recipe(cfg))
    assert any("3 classes, the model is built for 4" in fault.what for fault in faults)


def test_init_writes_a_recipe_that_trains(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl.workflow.new_recipe import init

    monkeypatch.chdir(tmp_path)
    written = init("cv.classification", data=photos, out=tmp_path / "photos.yaml")
    cfg = Recipe(pdl.config.load(written)).config
    assert cfg["data"]["train"]["root"] == str(photos)
    result = pdl.workflow.train(cfg, fast_dev_run=True, progress=False)
    assert Path(result.run) == tmp_path / "runs" / "photos-1"


@pytest.mark.parametrize(
    ("kind", "side", "said"),
    [
        ("photo", 64, "begins with the weights of cv/mobilenet_v2_imagenet"),
        ("drawn", 64, "RandomCrop, size: 128"),
        ("photo", 32, "Resize, size: 96"),
        ("photo", 48, "lr: 3.0e-4"),
        ("many", 48, "lr: 9.0e-4"),
        ("offline", 64, "pdl_cv.MobileNetV3"),
        ("offline", 32, "pdl_cv.CifarResNet"),
    ],
)
def test_init_chooses_by_what_the_images_are(
    kind: str, side: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pdl_cv.classification import init

    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    if kind != "offline":
        monkeypatch.setattr(init, "obtainable", lambda name: None)
    rng, photos = np.random.default_rng(0), tmp_path / "photos"
    for name in map(str, range(21 if kind == "many" else 2)):
        (photos / name).mkdir(parents=True)
        for i in range(10):
            shape = (side, side, 3) if kind != "drawn" else (side, side, 1)
            image = rng.integers(60, 200, shape) if kind != "drawn" else 255 * rng.integers(0, 2, shape)
            cv2.imwrite(str(photos / name / f"{i}.png"), image.astype(np.uint8))
    text = init.write_recipe(photos)
    assert said in text
    assert ("RandomHorizontalFlip" in text) == (kind != "drawn")
    assert ("pretrained: cv/mobilenet_v2_imagenet" in text) == (kind != "offline")
    assert ("PDL_OFFLINE is set" in text) == (kind == "offline")


def test_the_model_of_a_run_is_restored_without_drawing_weights() -> None:
    pdl.seed(0)
    before = str(pdl.random.generator().bit_generator.state)
    recipe = Recipe(load("cv/digits_lenet", ["+model.pretrained=cv/not_asked_for"]))
    with deferred():
        model = restored(Classification(classes=list("0123456789")), recipe)
    assert str(pdl.random.generator().bit_generator.state) == before
    assert not model.get_parameter("conv1.weight").data.any()
