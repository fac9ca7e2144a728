"""Transforms: values by hand, batched equal to single, arguments checked, config and back."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pdl.data import BatchRandom, SampleRandom, Transform
from pdl.data import transforms as T
from pdl.data.transforms import augment, colour, pixels
from pdl.errors import ConfigError, UsageError


def rng(i: int = 0) -> SampleRandom:
    return SampleRandom(0, 0, i)


def picture(h: int = 12, w: int = 16, c: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (h, w, c), dtype=np.uint8)


def run(transform: Transform, image: np.ndarray, i: int = 0) -> np.ndarray:
    return transform({"image": image, "label": 1}, rng(i))["image"]


# Every per-sample transform, with the output size for a 12 x 16 picture.
TRANSFORMS: list[tuple[Transform, tuple[int, int]]] = [
    (T.Resize(8), (8, 8)), (T.Resize((20, 9), interpolation="cubic"), (20, 9)), (T.ResizeShort(6), (6, 8)),
    (T.ResizeWithin(8, 4), (8, 8)), (T.ResizeWithin(99, 5), (10, 15)),
    (T.ResizeHeight(6, 20), (6, 8)), (T.ResizeHeight(24, 20), (24, 20)), (T.PadTo((14, 16), fill=3), (14, 16)),
    (T.PadTo(5, multiple=(8, 10)), (16, 20)),
    (T.CenterCrop(10), (10, 10)), (T.CenterCrop((14, 20)), (14, 20)), (T.Pad((1, 2)), (16, 18)),
    (T.Pad((1, 2, 3, 4), fill=9), (18, 20)), (T.Pad(2, mode="reflect"), (16, 20)), (T.Pad(2, mode="edge"), (16, 20)),
    (T.RandomCrop(12, padding=3), (12, 12)), (T.RandomCrop((5, 7), padding=1, mode="reflect"), (5, 7)),
    (T.RandomResizedCrop(9), (9, 9)), (T.RandomHorizontalFlip(), (12, 16)), (T.RandomVerticalFlip(), (12, 16)),
    (T.RandomRotation(30), (12, 16)), (T.RandomAffine(10, 0.1, (0.8, 1.2), (-5, 5, -3, 3), fill=7), (12, 16)),
    (T.RandomPerspective(p=1.0), (12, 16)), (T.ColorJitter(0.4, 0.4, 0.4, 0.1), (12, 16)),
    (T.RandomGrayscale(1.0), (12, 16)), (T.RandomGamma((0.5, 2)), (12, 16)),
    (T.AutoContrast(0.01, each=True), (12, 16)), (T.GaussianBlur(5), (12, 16)),
    (T.RandomErasing(p=1.0), (12, 16)), (T.RandAugment(3, 20), (12, 16)),
    (T.TrivialAugmentWide(), (12, 16)), (T.RandomApply([T.RandomRotation(5)], p=0.5), (12, 16)),
    (T.RandomChoice([T.Resize(4), T.CenterCrop(4)], [1, 3]), (4, 4)), (T.ToFloat(), (12, 16)),
    (T.Letterbox((20, 9)), (20, 9)), (T.RandomShortestSize(6, 100), (6, 8)), (T.RandomZoomOut((2, 2), p=1), (24, 32)),
    (T.Normalize(0.5, 0.2), (12, 16)), (T.Compose([T.ResizeShort(9), T.RandomCrop(8)]), (8, 8)),
]
IDS = [f"{type(t).__name__}{i}" for i, (t, _) in enumerate(TRANSFORMS)]


@pytest.mark.parametrize(("transform", "size"), TRANSFORMS, ids=IDS)
@pytest.mark.parametrize("channels", [1, 3])
def test_shape_determinism_and_no_writes(transform: Transform, size: tuple[int, int], channels: int) -> None:
    for i in range(8):
        image = picture(c=channels, seed=i)
        image.flags.writeable = False
        out = run(transform, image, i)
        assert out.shape == (*size, channels)
        assert out.dtype == (np.float32 if isinstance(transform, T.ToFloat | T.Normalize) else np.uint8)
        np.testing.assert_array_equal(out, run(transform, image, i))


@pytest.mark.parametrize("transform", [t for t, _ in TRANSFORMS if hasattr(t, "batch")],
                         ids=[i for i, (t, _) in zip(IDS, TRANSFORMS, strict=True) if hasattr(t, "batch")])
@pytest.mark.parametrize("channels", [1, 3])
def test_batched_equals_single(transform: Any, channels: int) -> None:
    for seed in range(4):
        images = np.stack([picture(c=channels, seed=10 * seed + i) for i in range(9)])
        indices = np.arange(9) * 7 + seed
        for stack in (images, (images / 255).astype(np.float32)):
            many = transform.batch({"image": stack, "label": indices}, BatchRandom(seed, 2, indices))
            for i, index in enumerate(indices.tolist()):
                one = transform({"image": stack[i], "label": index}, SampleRandom(seed, 2, index))
                np.testing.assert_array_equal(many["image"][i], one["image"])
                assert many["image"].dtype == one["image"].dtype


def build(node: Any) -> Any:
    if isinstance(node, list):
        return [build(n) for n in node]
    if isinstance(node, dict):
        module, _, name = node["_target_"].rpartition(".")
        fields = {k: build(v) for k, v in node.items() if k != "_target_"}
        return getattr(importlib.import_module(module), name)(**fields)
    return node


@pytest.mark.parametrize("transform", [*(t for t, _ in TRANSFORMS), T.MixUp(10, alpha=0.2), T.CutMix(10),
                                       T.Mosaic(64, degrees=5), T.MixUpDetection(), T.CopyPaste((0.5, 1)),
                                       T.BatchRandomResize([8, (4, 6)]), T.UntilEpoch([T.Mosaic(9)], 3),
                                       T.RandomIoUCrop(), T.SanitizeBoundingBoxes(2, 9), T.DataAnchorSampling(64),
                                       T.RandomChoice([T.MixUp(3), T.CutMix(3)])], ids=repr)
def test_config_builds_the_same(transform: Transform) -> None:
    node = transform.config()
    assert node["_target_"] in (f"pdl.data.transforms.{type(transform).__name__}", "pdl.data.Compose")
    again = build(node)
    assert again == transform
    assert repr(again) == repr(transform)
    assert again.config() == node


def test_normalize_value() -> None:
    image = picture()
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    out = run(T.Normalize(mean.tolist(), std.tolist()), image)
    np.testing.assert_allclose(out, (image / 255 - mean) / std, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(run(T.Normalize(0.5, 0.25), image), (image / 255 - 0.5) / 0.25, rtol=1e-6, atol=1e-6)
    floats = run(T.Normalize(mean.tolist(), std.tolist()), run(T.ToFloat(), image))
    np.testing.assert_allclose(floats, out, rtol=1e-5, atol=1e-5)


def test_crops_and_flips_move_pixels() -> None:
    image = picture()
    padded = np.pad(image, ((2, 2), (2, 2), (0, 0)))
    places = set()
    for i in range(200):
        out = run(T.RandomCrop((12, 16), padding=2), image, i)
        hits = [(y, x) for y in range(5) for x in range(5) if (padded[y:y + 12, x:x + 16] == out).all()]
        assert len(hits) == 1
        places.add(hits[0])
    assert len(places) == 25
    flips = [(run(T.RandomHorizontalFlip(), image, i) == image[:, ::-1]).all() for i in range(300)]
    assert 110 < sum(flips) < 190
    assert (run(T.RandomVerticalFlip(1.0), image) == image[::-1]).all()
    assert (run(T.CenterCrop(4), image) == image[4:8, 6:10]).all()


def test_resized_crop_stays_in_range() -> None:
    transform = T.RandomResizedCrop(8, scale=(0.2, 0.5), ratio=(0.5, 2.0))
    for i in range(100):
        y, x, h, w = transform._part(60, 80, rng(i))
        assert 0 <= y <= 60 - h
        assert 0 <= x <= 80 - w
        assert 0.18 < h * w / 4800 < 0.53
        assert 0.48 < w / h < 2.1
    assert T.RandomResizedCrop(8, scale=(1, 1), ratio=(4, 4))._part(60, 80, rng()) == (20, 0, 20, 80)


def test_geometry_points() -> None:
    shape = (11, 21, 1)
    turn = pixels.affine_matrix(shape, angle=90)
    np.testing.assert_allclose(turn @ [15, 5, 1], [10, 0], atol=1e-9)  # right of the centre goes up
    np.testing.assert_allclose(pixels.affine_matrix(shape, scale=2) @ [11, 6, 1], [12, 7], atol=1e-9)
    np.testing.assert_allclose(pixels.affine_matrix(shape, shear=(45, 0)) @ [10, 6, 1], [11, 6], atol=1e-9)
    image = picture(11, 21, 1)
    moved = pixels.warp(image, pixels.affine_matrix(shape, translate=(3, 2)), "nearest", (5,))
    assert (moved[2:, 3:] == image[:-2, :-3]).all()
    assert (moved[:2] == 5).all()
    assert (pixels.warp(image, pixels.affine_matrix(shape)) == image).all()


def test_colour_values() -> None:
    image = picture()
    wide = image.astype(np.float64)
    np.testing.assert_array_equal(colour.brightness(image, 1.5), np.clip(np.rint(1.5 * wide), 0, 255))
    gray = wide @ [0.299, 0.587, 0.114]
    np.testing.assert_allclose(colour.gray(image), gray, atol=0.6)
    np.testing.assert_allclose(colour.contrast(image, 0.5), 0.5 * wide + 0.5 * gray.mean(), atol=1.0)
    np.testing.assert_allclose(colour.saturation(image, 0.3), 0.3 * wide + 0.7 * gray[..., None], atol=1.1)
    assert (colour.sharpness(image, 1.0) == image).all()
    assert (colour.saturation(image, 1.0) == image).all()
    red = np.zeros((2, 2, 3), np.uint8)
    red[..., 0] = 200
    green = colour.hue(red, 1 / 3)
    assert green[0, 0, 1] > 190
    assert green[0, 0, 0] < 12
    assert (colour.hue(picture(c=1), 0.3) == picture(c=1)).all()
    np.testing.assert_allclose(
        T.RandomGamma((0.5, 0.5)).image(image, rng()), 255 * (wide / 255) ** 0.5, atol=0.501
    )
    drawn = [int(T.RandomGamma((0.5, 2)).image(np.full((1, 1, 1), 100, np.uint8), rng(k))[0, 0, 0])
             for k in range(40)]  # fmt: skip
    assert min(drawn) < 60
    assert max(drawn) > 140


def test_augment_operations() -> None:
    image = picture()
    assert (augment.posterize(image, 3) == (image & 0xE0)).all()
    assert (augment.posterize(image, 8) == image).all()
    assert (augment.solarize(image, 128) == np.where(image < 128, image, 255 - image)).all()
    flat = (image // 4 + 50).astype(np.uint8)
    stretched = augment.autocontrast(flat)
    assert (stretched.min((0, 1)) == 0).all()
    assert (stretched.max((0, 1)) == 255).all()
    for name in augment.OPERATIONS:
        for wide in (False, True):
            for strength in (-1.0, 0.0, 0.4, 1.0):
                if strength < 0 and name not in augment._SIGNED:
                    continue
                out = augment.operation(name, image.shape, strength, (128,), wide).image(image)
                assert (out.shape, out.dtype) == (image.shape, np.uint8), name
            if name not in ("AutoContrast", "Equalize"):
                unchanged = augment.operation(name, image.shape, 0.0, (128,), wide).image(image)
                assert (unchanged == image).all() or name == "Solarize", name


def test_erasing_covers_the_asked_area() -> None:
    image = np.full((40, 40, 1), 9, np.uint8)
    for i in range(50):
        share = (run(T.RandomErasing(1.0, scale=(0.1, 0.3)), image, i) == 0).mean()
        assert 0.07 < share < 0.35


@pytest.mark.parametrize("mix", [T.MixUp(5, alpha=1.0), T.CutMix(5)], ids=repr)
def test_mix_shares_agree(mix: Any) -> None:
    n = 6
    images = np.repeat(np.arange(n, dtype=np.float32), 8 * 8).reshape(n, 8, 8, 1)
    labels = np.arange(n) % 5
    for i in range(10):
        out = mix({"image": images, "label": labels}, rng(i))
        assert out["label"].shape == (n, 5)
        assert out["label"].dtype == np.float32
        assert out["image"].dtype == np.float32
        np.testing.assert_allclose(out["label"].sum(1), 1, rtol=1e-6)
    # With labels as images, the mean of a picture is the mean of its targets.
    pure = np.arange(5, dtype=np.float32)
    batch = {"image": np.repeat(pure, 64).reshape(5, 8, 8, 1), "label": np.arange(5)}
    for i in range(10):
        out = mix(batch, rng(i))
        np.testing.assert_allclose(out["image"].mean((1, 2, 3)), out["label"] @ pure, rtol=1e-5, atol=1e-5)


def test_mix_without_mixing_still_gives_soft_targets() -> None:
    out = T.MixUp(3, p=0.0)({"image": np.zeros((2, 4, 4, 1), np.uint8), "label": np.array([2, 0])}, rng())
    assert out["label"].tolist() == [[0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize(("make", "words"), [
    (lambda: T.Resize(0), "size=0"), (lambda: T.Resize((3, 4, 5)), r"size=\(3, 4, 5\)"), (lambda: T.Resize(2.5), "2.5"),
    (lambda: T.Resize(8, interpolation="best"), "'best' must be one of auto, nearest"),
    (lambda: T.ResizeShort((3, 4)), "ResizeShort"), (lambda: T.ResizeHeight(0, 9), "height=0"),
    (lambda: T.ResizeWithin(0), "limit=0"),
    (lambda: T.PadTo(8, fill=999), "PadTo: fill=999"), (lambda: T.Letterbox(0), "size=0"),
    (lambda: T.Letterbox(8, centre="left"), "'left' must be one of True, False"),
    (lambda: T.RandomShortestSize([]), r"min_size=\[\]"), (lambda: T.RandomShortestSize(8, 0), "max_size=0"),
    (lambda: T.RandomIoUCrop(overlaps=(0.5,)), "1 among them"),
    (lambda: T.RandomIoUCrop(overlaps=(2, 1)), "overlaps=2"),
    (lambda: T.RandomIoUCrop(trials=0), "trials=0"), (lambda: T.RandomIoUCrop(scale=(0.5, 2)), "scale=2"),
    (lambda: T.DataAnchorSampling(sides=(32, 16)), "ascending"), (lambda: T.DataAnchorSampling(p=2), "p=2"),
    (lambda: T.DataAnchorSampling(0), "size=0"), (lambda: T.DataAnchorSampling(sides=(0, 16)), "sides=0"),
    (lambda: T.RandomZoomOut((0.5, 2)), "side=0.5"), (lambda: T.RandomZoomOut(p=2), "p=2"),
    (lambda: T.SanitizeBoundingBoxes(min_size=-1), "min_size=-1"), (lambda: T.Mosaic(0), "size=0"),
    (lambda: T.Mosaic(8, scale=(0, 1)), "scale=0"), (lambda: T.Mosaic(8, translate=2), "translate=2"),
    (lambda: T.Mosaic(8, shear=90), "shear"), (lambda: T.MixUpDetection(alpha=0), "alpha=0"),
    (lambda: T.MixUpDetection(scale=(2, 1)), "runs backwards"), (lambda: T.CopyPaste(share=2), "share=2"),
    (lambda: T.UntilEpoch([], -1), "epoch=-1"), (lambda: T.BatchRandomResize([]), r"sizes=\[\]"),
    (lambda: T.BatchRandomResize([8, 0]), "sizes=0"),
    (lambda: T.Resize("8"), "size='8'"), (lambda: T.Pad("1"), "padding"),
    (lambda: T.Pad(1, fill="red"), "fill"), (lambda: T.RandomAffine(translate="x"), "translate"),
    (lambda: T.Normalize("a", 1), "numbers"), (lambda: T.ColorJitter("a"), "brightness"),
    (lambda: T.Pad(-1), "padding=-1"),
    (lambda: T.Pad(1, mode="wrap"), "'wrap'"),
    (lambda: T.Pad(1, fill=300), "fill=300"), (lambda: T.RandomCrop(4, padding=(1, 2, 3)), "padding"),
    (lambda: T.RandomHorizontalFlip(1.5), r"p=1.5 must be a number in \[0, 1\]"),
    (lambda: T.RandomVerticalFlip(-1), "p=-1"),
    (lambda: T.RandomResizedCrop(8, scale=(0.5, 0.1)), "runs backwards"),
    (lambda: T.RandomResizedCrop(8, scale=(0.0, 1)), r"scale=0.0 must be a number in \(0, 1\]"),
    (lambda: T.RandomRotation(400), "degrees"), (lambda: T.RandomAffine(translate=2), "translate=2"),
    (lambda: T.RandomAffine(shear=90), "shear"), (lambda: T.RandomPerspective(distortion=1), "distortion=1"),
    (lambda: T.ColorJitter(brightness=-1), "brightness"), (lambda: T.ColorJitter(hue=0.6), "hue"),
    (lambda: T.Grayscale(2), "channels=2"), (lambda: T.RandomGrayscale(2), "p=2"),
    (lambda: T.RandomGamma((0, 1)), "gamma=0"), (lambda: T.AutoContrast(high=0.5), "high=0.5"),
    (lambda: T.GaussianBlur(4), "kernel=4"),
    (lambda: T.GaussianBlur(3, (0, 1)), "sigma"), (lambda: T.RandomErasing(scale=(0.1,)), "two numbers"),
    (lambda: T.RandAugment(0), "num_ops=0"), (lambda: T.RandAugment(2, 31), "magnitude=31"),
    (lambda: T.RandomApply([], p=7), "p=7"), (lambda: T.RandomChoice([]), "0 transforms"),
    (lambda: T.RandomChoice([T.ToFloat()], [0]), "1 transforms"),
    (lambda: T.RandomChoice([T.ToFloat(), T.MixUp(3)]), "do not mix"),
    (lambda: T.Compose([T.MixUp(3)]), "loader's list"), (lambda: T.Normalize((0.5, 0.5), 0.1), "2 channels, std has 1"),
    (lambda: T.Normalize(128, 64), "0..1 scale"), (lambda: T.Normalize(0.5, 0), "std above 0"),
    (lambda: T.MixUp(1), "num_classes=1"), (lambda: T.MixUp(3, alpha=0), "alpha=0"), (lambda: T.CutMix(3, p=2), "p=2"),
])
def test_arguments_are_checked(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize(("transform", "sample", "words"), [
    (T.RandomCrop(20), {"image": picture()}, "20 x 20 does not fit into an image of 12 x 16"),
    (T.Pad(12, mode="reflect"), {"image": picture()}, "larger image than 12 x 16"),
    (T.Normalize((0.5, 0.5), (0.1, 0.1)), {"image": picture()}, "2 channels, the image has 3"),
    (T.RandAugment(), {"image": picture().astype(np.float32)}, "uint8 images, got float32"),
    (T.MixUp(3), {"image": picture()[None], "label": np.array([1])}, "float images, got uint8"),
    (T.MixUp(3), {"image": picture()[None] / 255, "label": np.array([3])}, "num_classes=3"),
    (T.CutMix(3), {"image": picture()[None] / 255, "boxes": np.zeros((1, 8, 4))}, "no label, only image, boxes"),
])
def test_pictures_that_do_not_fit(transform: Transform, sample: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        transform(sample, rng())
