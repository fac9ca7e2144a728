"""From pairs of pictures to made ones: data, training, measures, bundles, recipes of one's own."""

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
from pdl.data import transforms as T
from pdl.data.faults import DataFault
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, ShapeError
from pdl.train import Recipe
from pdl_cv import Pix2Pix
from pdl_cv.data import Digits, Outlines, PairedFolder
from pdl_cv.generation.judge import Pixels
from pdl_cv.image_to_image.init import write_recipe
from pdl_cv.image_to_image.metrics import L1, Psnr, Ssim, pair_metrics
from pdl_cv.palette import palette
from pdl_cv.steps.pictures import unframed

COUNT = 24


def write(folder: Path, *, joined: bool = False) -> Path:
    """Bright squares on dark ground, and the same in red on blue."""
    rng = np.random.default_rng(0)
    for take in range(COUNT):
        image = np.full((32, 48, 3), 20, np.uint8)
        top, left = rng.integers(0, 16, 2)
        image[top : top + 12, left : left + 16] = 230
        picture = np.where(image > 128, (20, 20, 220), (200, 40, 20)).astype(np.uint8)  # BGR
        files = {"": np.hstack([image, picture])} if joined else {"A": image, "B": picture}
        for name, pixels in files.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(folder / name / f"{take}.png"), pixels)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    normal = {"_target_": "pdl.data.transforms.Normalize", "mean": 0.5, "std": 0.5}
    pairs = {"_target_": "pdl_cv.data.PairedFolder", "root": str(folder)}
    cut = {"ratios": {"train": 0.7, "val": 0.15, "test": 0.15}}
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_cv.ImageToImage"},
        "model": {"_target_": "pdl_cv.Pix2Pix", "width": 8, "depth": 3, "layers": 1},
        "data": {
            **{split: {**pairs, **cut, "split": split} for split in ("train", "val", "test")}, "batch_size": 4,
            "transforms": {
                "train": [{"_target_": "pdl.data.transforms.RandomHorizontalFlip"}, normal],
                "eval": [{"_target_": "pdl.data.transforms.Letterbox", "size": [40, 48]}, normal],
            },
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 2e-3, "betas": [0.5, 0.99]},
        "train": {"epochs": 30, "eval_every": 10, "clip_norm": None},
    }  # fmt: skip
    path = tmp_path_factory.mktemp("runs") / "pix2pix"
    workflow.train(Recipe(from_dict(tree)), run=path, progress=False)
    return path


# -- data --------------------------------------------------------------------------------------------------------------
def test_pairs_are_found_by_folders_by_names_and_in_one_file(folder: Path, tmp_path: Path) -> None:
    plain, named = PairedFolder(folder), PairedFolder(folder, inputs="B", targets="A")
    whole = PairedFolder(write(tmp_path, joined=True), joined="left")
    turned = PairedFolder(tmp_path, joined="right")
    assert len(plain) == len(named) == len(whole) == len(turned) == COUNT
    for i in range(3):
        for name, other in (("image", "picture"), ("picture", "image")):
            np.testing.assert_array_equal(plain[i][name], named[i][other])
            np.testing.assert_array_equal(whole[i][name], turned[i][other])
        np.testing.assert_array_equal(plain[i]["picture"], whole[i]["picture"])
    assert plain.fingerprint != named.fingerprint


def test_classes_are_drawn_in_their_colours(tmp_path: Path) -> None:
    """CamVid's layout: a folder of maps beside that of photographs."""
    numbers = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for name, pixels in (("train", np.zeros((3, 4, 3), np.uint8)), ("trainannot", numbers)):
        (tmp_path / name).mkdir()
        cv2.imwrite(str(tmp_path / name / "a.png"), pixels)
    sample = PairedFolder(tmp_path, inputs="trainannot", targets="train", classes=True)[0]
    np.testing.assert_array_equal(sample["image"], palette()[numbers])


def test_outlines_of_any_pictures() -> None:
    plain, pairs = Digits(split="val"), Outlines(Digits(split="val"))
    sample = pairs[3]
    np.testing.assert_array_equal(sample["picture"], plain[3]["image"])
    np.testing.assert_array_equal(sample["image"][..., 0], cv2.Canny(plain[3]["image"], 100, 200))
    assert len(pairs) == len(plain)
    assert len({plain.fingerprint, pairs.fingerprint, Outlines(plain, low=50).fingerprint}) == 3
    with pytest.raises(ConfigError, match="low=300"):
        Outlines(plain, low=300)


def test_what_is_wrong_with_pairs(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give both inputs and targets"):
        PairedFolder(folder, inputs="A")
    with pytest.raises(ConfigError, match="or joined where one file holds both"):
        PairedFolder(folder, inputs="A", targets="B", joined="left")
    with pytest.raises(DataFault, match="no pairs found among 48 files"):
        PairedFolder(folder, inputs="C", targets="D")
    for name, size in (("A", (4, 4)), ("B", (4, 5))):
        (tmp_path / name).mkdir()
        cv2.imwrite(str(tmp_path / name / "one.png"), np.zeros(size, np.uint8))
    with pytest.raises(DataFault, match="the picture has 5 x 4 pixels, the image 4 x 4"):
        PairedFolder(tmp_path)[0]
    cv2.imwrite(str(tmp_path / "A" / "two.png"), np.zeros((4, 4), np.uint8))
    with pytest.raises(DataFault, match="no other of its name"):
        PairedFolder(tmp_path)


def test_the_picture_moves_as_the_image_does() -> None:
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    steps = [T.RandomHorizontalFlip(1.0), T.Letterbox(48), T.RandomAffine(20, 0.1), T.RandomCrop(32), T.Resize(20)]
    moved = T.Compose(steps)({"image": image, "picture": 255 - image}, SampleRandom(0, 0, 3))
    assert moved["picture"].shape == (20, 20, 3)
    inside = moved["image"].min(axis=2) > 0  # what comes from outside is black in both
    assert np.abs(moved["image"].astype(int) + moved["picture"] - 255)[inside].mean() < 12


# -- the net -----------------------------------------------------------------------------------------------------------
def test_the_nets_of_the_paper_have_as_many_parameters_as_the_authors_print() -> None:
    """54.414 and 2.769 million, in the log of github.com/junyanz/pytorch-CycleGAN-and-pix2pix for 256 x 256."""
    net = Pix2Pix()
    counts = [sum(p.size for p in part.parameters()) / 1e6 for part in (net.generator, net.discriminator)]
    assert [f"{count:.3f}" for count in counts] == ["54.414", "2.769"]


@pytest.mark.parametrize("norm", ["batch", "instance"])
def test_both_players_learn_alone(norm: Any) -> None:
    pdl.seed(0)
    net = Pix2Pix(in_channels=1, width=4, depth=3, layers=2, norm=norm)
    rng = np.random.default_rng(0)
    images, pictures = (pdl.tensor(rng.uniform(-1, 1, (2, 32, 40, c)).astype(np.float32)) for c in (1, 3))
    assert net(images).shape == (2, 32, 40, 3)
    net.turn("discriminator", images, pictures)[0].backward()
    assert all(p.grad is None for p in net.generator.parameters())
    net.turn("generator", images, pictures)[0].backward()
    for p in net.parameters():
        assert p.grad is not None
        assert np.isfinite(p.grad.data).all()
    with pytest.raises(ShapeError, match="multiples of 8"):
        net(images[:, :30])


def test_a_discriminator_sees_patches_of_the_paper_s_sizes() -> None:
    """Section 6.1.2: 16 x 16, 34 x 34 and 70 x 70 pixels, as far as a logit's gradient reaches."""
    for layers, side in ((1, 16), (2, 34), (3, 70)):
        net = Pix2Pix(in_channels=1, out_channels=1, width=2, layers=layers).discriminator.eval()
        noise = np.random.default_rng(0).standard_normal((1, 128, 128, 2), np.float32)
        x = pdl.tensor(noise, requires_grad=True)
        looks = net(x)
        pdl.sum(looks[0, looks.shape[1] // 2, looks.shape[2] // 2]).backward()
        assert x.grad is not None
        rows = np.flatnonzero(np.abs(x.grad.data[0]).sum(axis=(1, 2)))
        assert rows[-1] - rows[0] + 1 == side


# -- measures ----------------------------------------------------------------------------------------------------------
def test_measures_of_known_pictures() -> None:
    black, gray = np.zeros((2, 16, 16, 3), np.uint8), np.full((2, 16, 16, 3), 51, np.uint8)
    for metric, same, other in ((L1(), 0.0, 0.2), (Psnr(), 100.0, -20 * np.log10(0.2)), (Ssim(), 1.0, None)):
        metric.update(black, black, black)
        assert metric.compute() == pytest.approx(same, abs=1e-6)
        fresh = type(metric)()
        fresh.update(black, black, gray)
        # of flat pictures, SSIM is C1 / (0.2^2 + C1)
        assert fresh.compute() == pytest.approx(1e-4 / (0.04 + 1e-4) if other is None else other, rel=1e-4)


def test_a_judge_compares_what_it_sees() -> None:
    """Pictures that are the true ones, and those of the next class, to a judge of two sizes of areas."""
    true = np.arange(6)[:, None, None, None] * np.full((8, 8, 1), 40, np.uint8)

    class Bright(Pixels):
        calls = True

        def __call__(self, pictures: Any) -> Any:
            return super().__call__(pictures)[0], (pictures.mean(axis=(1, 2, 3)) / 40).round().astype(np.int64)

    for eye, made, called in ((Bright(), true, 1.0), (Bright(), np.roll(true, 1, axis=0), 0.0), (Pixels(), true, None)):
        metrics = pair_metrics(eye)
        for metric in metrics.values():
            metric.update(true, true, made)
        assert metrics["frechet"].compute() == pytest.approx(0, abs=1e-4)  # as a set, they are the same
        assert ("called" in metrics) == (called is not None)
        assert called is None or metrics["called"].compute() == called


def test_a_training_beats_what_is_not_learned(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    best = max(found["test/psnr"] for found in result["baselines"].values())
    assert len(result["baselines"]) == 2
    assert result["metrics"]["test/psnr"] > best + 2
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if line["kind"] == "epoch"][-1]
    assert {"train/discriminator", "train/generator", "val/ssim"} <= last.keys()
    assert "Pictures (test)" in (run / "report.html").read_text()


def test_a_bundle_gives_the_picture_at_the_size_of_the_image(run: Path, folder: Path, tmp_path: Path) -> None:
    session, path = pdl.runtime.load(run / "model.pdl"), str(folder / "A/3.png")
    answer = session(path)["picture"]
    assert answer.shape == (32, 48, 3)
    mine = workflow.predict(run, [path])[0]["picture"]
    assert np.abs(mine.astype(int) - answer).max() <= 1
    known = json.loads((run / "result.json").read_text())
    measured = workflow.evaluate(run / "model.pdl", split="test").metrics
    assert measured["test/l1"] == pytest.approx(known["metrics"]["test/l1"], rel=1e-2)
    assert main(["predict", str(run), path, "--save", str(tmp_path / "made")]) == 0
    assert cv2.imread(str(next((tmp_path / "made").iterdir()))).shape == (32, 48, 3)


def test_a_picture_without_its_letterbox() -> None:
    """An image of 20 x 40 in 32 x 32: at 0.8 of its size, from row 8 on."""
    from pdl.runtime.frame import Frame

    made = np.zeros((32, 32, 1), np.uint8)
    made[8:16], made[16:24] = 100, 200
    whole = unframed(made, Frame(20, 40, (1.25, 1.25), (0.0, -10.0)))
    assert whole.shape == (20, 40, 1)
    assert (whole[1:9] == 100).all()
    assert (whole[11:19] == 200).all()


# -- recipes -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("joined", [False, True])
def test_init_writes_a_recipe_that_is_whole(tmp_path: Path, joined: bool) -> None:
    text = write_recipe(write(tmp_path / "pairs", joined=joined))
    assert ("joined: left" in text) == joined
    assert "mostly about 48 x 32 pixels" in text
    (tmp_path / "own.yaml").write_text(text)
    recipe = Recipe(config.load(tmp_path / "own.yaml"))
    assert len(recipe.data.build("test")[0]["picture"].shape) == 3
