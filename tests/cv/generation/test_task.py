"""From folders of pictures to drawn ones: training, measures, bundles, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
from pdl import config, workflow
from pdl.cli import main
from pdl.config import from_dict
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl_cv.generation.init import write_recipe
from pdl_cv.generation.judge import Judge
from pdl_cv.generation.metrics import frechet_distance
from pdl_cv.steps.pictures import grid

NAMES = ("dark", "light")


def write(folder: Path, names: tuple[str, ...] = NAMES, count: int = 40) -> Path:
    rng = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True)
        for take in range(count):
            image = rng.normal(60 if name == "dark" else 200, 10, (16, 16)).clip(0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / name / f"{take}.png"), image)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pictures"))


def recipe(folder: Path, model: dict[str, Any], **more: Any) -> Recipe:
    steps = [{"_target_": "pdl.data.transforms.Normalize", "mean": 0.5, "std": 0.5}]
    cut = {"ratios": {"train": 0.6, "val": 0.2, "test": 0.2}, "mode": "gray"}
    images = {"_target_": "pdl_cv.data.ImageFolder", "root": str(folder), **cut}
    tree = {
        "task": {"_target_": "pdl_cv.Generation", "draw_every": 1},
        "model": model,
        "data": {
            **{split: {**images, "split": split} for split in ("train", "val", "test")},
            "batch_size": 12, "transforms": {"train": steps, "eval": steps},
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 5e-3, "betas": [0.5, 0.99]},
        "train": {"epochs": 40, "eval_every": 10, "ema": 0.9},
        **more,
    }  # fmt: skip
    return Recipe(from_dict(tree))


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "gan"
    model = {"_target_": "pdl_cv.DCGAN", "width": 8, "noise": 8}
    given = recipe(folder, model, players={"discriminator": {"steps": 2}})
    workflow.train(given, run=path, progress=False)
    return path


def test_the_distance_of_normal_distributions() -> None:
    """In closed form for commuting covariances: |m - n|^2 + sum (sqrt s - sqrt t)^2 in their common axes."""
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    white = rng.standard_normal((200, 3))
    white -= white.mean(axis=0)
    white = white @ np.linalg.inv(np.linalg.cholesky(np.cov(white, rowvar=False))).T
    s, t = np.array([1.0, 4.0, 0.25]), np.array([9.0, 1.0, 0.0])
    ours, theirs = white * np.sqrt(s) @ turned, white * np.sqrt(t) @ turned + [1, -2, 0]
    wanted = 5 + np.square(np.sqrt(s) - np.sqrt(t)).sum()
    assert frechet_distance(ours, theirs) == pytest.approx(wanted, rel=1e-6)
    assert frechet_distance(ours, ours) == pytest.approx(0, abs=1e-6)
    assert np.isnan(frechet_distance(ours[:1], theirs))


def test_a_training_draws_nearer_pictures_and_shows_them(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    floor = result["baselines"]["real pictures of training"]["test/frechet"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    assert "mean of each class" in result["baselines"]
    assert not any("real pictures" in each for each in result["warnings"])  # they are no method
    assert floor < result["metrics"]["test/frechet"] < 10 * floor  # 200 x that of an untrained one
    assert epochs[-1]["val/frechet"] < 0.8 * epochs[9]["val/frechet"]
    assert {"train/discriminator", "train/generator", "val/frechet"} <= epochs[-1].keys()
    assert sorted(path.name for path in (run / "pictures").iterdir()) == [f"00{n}-drawn.png" for n in (10, 20, 30, 40)]
    page = (run / "report.html").read_text()
    assert "As training went: drawn" in page
    assert "Drawn pictures (test)" in page


def test_a_bundle_draws_what_its_run_draws(run: Path) -> None:
    session = pdl.runtime.load(run / "model.pdl")
    orders = [{"class": "light", "seed": 3, "number": i} for i in range(2)]
    ours, theirs = workflow.predict(run, orders), session.batch(orders)
    for mine, its in zip(ours, theirs, strict=True):
        assert mine["class"] == its["class"] == "light"
        assert its["picture"].shape == (16, 16, 1)
        assert np.abs(mine["picture"].astype(int) - its["picture"]).max() <= 1
    assert (theirs[0]["picture"] != theirs[1]["picture"]).any()
    stays = session({"class": 1, "seed": 3})["picture"]
    assert np.abs(stays.astype(int) - theirs[0]["picture"]).max() <= 1
    with pytest.raises(DataError, match="'grey' is no class of this model"):
        session({"class": "grey"})


def test_the_command_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(run / "model.pdl")
    assert main(["predict", bundle, "--class", "1", "-n", "3", "--save", str(tmp_path / "drawn")]) == 0
    assert cv2.imread(str(tmp_path / "drawn/pictures-3.png"), cv2.IMREAD_UNCHANGED).shape == (16, 16)
    assert "light" in capsys.readouterr().out
    assert main(["predict", str(run), "-n", "4", "--seed", "7", "--save", str(tmp_path / "all.png")]) == 0
    assert cv2.imread(str(tmp_path / "all.png"), cv2.IMREAD_UNCHANGED).shape == (33, 33)  # two of each class
    for wrong, said in ((["photo.png"], "this model reads nothing"), (["-n", "many"], "expected a whole number")):
        assert main(["predict", bundle, *wrong]) != 0
        assert said in capsys.readouterr().err


def test_a_diffusion_model_is_deployed_whole(folder: Path, tmp_path: Path) -> None:
    """All of its steps are one program, for any number of pictures; eval measures the bundle as the run."""
    model = {"_target_": "pdl_cv.DDPM", "width": 16, "multipliers": [1], "patch": 2, "sampling_steps": 3}
    given = recipe(folder, model, train={"epochs": 2})
    result = workflow.train(given, run=tmp_path / "run", progress=False)
    measured = workflow.evaluate(tmp_path / "run/model.pdl", split="test").metrics
    assert measured["test/frechet"] == pytest.approx(result.metrics["test/frechet"], rel=1e-2)
    again = workflow.evaluate(tmp_path / "run", split="test").metrics
    assert again["test/loss"] == pytest.approx(result.metrics["test/loss"], rel=1e-5)
    session = pdl.runtime.load(tmp_path / "run/model.pdl")
    for n in (1, 3):
        noise = np.random.default_rng(0).standard_normal((n, 16, 16, 1), np.float32)
        assert session.run({"noise": noise, "class": np.zeros(n, np.int64)})["image"].shape == noise.shape


def test_a_judge_calls_real_pictures_right() -> None:
    data = pytest.importorskip("pdl_cv.data")
    try:
        images = data.FashionMNIST(split="test").arrays
    except DataError as reason:
        pytest.skip(str(reason))
    judge = Judge("cv/fashion_mnist_resnet", data.FashionMNIST.CLASSES)
    features, called = judge(images["image"][:500])
    assert features.shape == (500, 64)
    assert (called == images["label"][:500]).mean() >= 0.92
    with pytest.raises(ConfigError, match=r"task.judge: cv/fashion_mnist_resnet does not know kimono"):
        Judge("cv/fashion_mnist_resnet", ["kimono"])


def test_a_recipe_for_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(write_recipe(folder))
    found = Recipe(config.load(tmp_path / "own.yaml"))
    assert found.model.target == "pdl_cv.DDPM"
    assert found.config["data"]["train"]["mode"] == "gray"
    alone = write(tmp_path / "alone", names=("dark",), count=30)
    (tmp_path / "alone.yaml").write_text(write_recipe(alone))
    assert (tmp_path / "alone.yaml").read_text().startswith("# pictures without classes, ")


def test_images_that_no_net_can_draw_are_refused(folder: Path) -> None:
    given = recipe(folder, {"_target_": "pdl_cv.DCGAN"})
    node = given.config["data"]["transforms"]
    node["train"] = node["eval"] = [{"_target_": "pdl.data.transforms.Normalize", "mean": 0.5, "std": 0.25}]
    with pytest.raises(ConfigError, match="expected -1 to 1"):
        workflow.train(Recipe(given.config), progress=False)


def test_a_grid_has_a_row_for_each_list() -> None:
    tile = np.zeros((2, 3, 1), np.uint8)
    assert grid([[tile, tile], [tile]]).shape == (5, 7, 1)
    assert grid([[tile] * 12]).shape == (5, 39, 1)
    assert grid([[]]).shape == (0, 0, 1)
