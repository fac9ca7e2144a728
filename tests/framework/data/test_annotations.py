"""Boxes, masks, keypoints and points follow the pixels: what is drawn before is found where the annotation says."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.data import ArrayDataset, Compose, DataLoader, Dataset, Sample, SampleRandom, Transform
from pdl.data import transforms as T
from pdl.data.transforms import augment
from pdl.data.transforms.annotations import Geometric
from pdl.data.transforms.motion import Motion, Warp
from pdl.data.transforms.pixels import affine_matrix, mask_boxes, warp
from pdl.errors import ConfigError, UsageError

HEIGHT, WIDTH = 90, 120


@dataclass(frozen=True)
class Operation(Geometric):
    """One of RandAugment's, at a strength."""

    name: str
    strength: float

    def motion(self, shape: tuple[int, ...], rng: SampleRandom) -> Motion:
        return augment.operation(self.name, shape, self.strength, (0,), False)


GEOMETRIC: list[Transform] = [
    T.Resize(64), T.Resize((200, 70)), T.ResizeShort(50), T.ResizeShort(133), T.RandomShortestSize((40, 80, 100), 120),
    T.ResizeWithin(96), T.RandomView((80, 120), limit=90, degrees=20),
    T.ResizeHeight(48, 200), T.ResizeHeight(64, 40), T.PadTo((150, 260)), T.PadTo(90, multiple=(32, 50)),
    T.CenterCrop(80), T.CenterCrop((100, 140)), T.Pad((3, 5, 7, 9)), T.Pad(6, mode="edge"), T.RandomCrop(70, padding=4),
    T.RandomResizedCrop(64), T.RandomResizedCrop((90, 50), scale=(0.5, 1), interpolation="linear"),
    T.RandomHorizontalFlip(0.7, flip_pairs=[[0, 1]]), T.RandomVerticalFlip(0.7, flip_pairs=[[0, 1]]),
    T.RandomRotation(30), T.RandomAffine(25, 0.15, (0.7, 1.4), (-10, 10, -5, 5)), T.RandomPerspective(0.4, p=0.9),
    T.Letterbox(96, fill=0), T.Letterbox((64, 160), fill=0, centre=False), T.Letterbox(200, fill=0, enlarge=False),
    T.RandomIoUCrop(), T.RandomZoomOut(fill=0, p=0.8),
    *(Operation(name, strength) for name in augment.WARPS for strength in (-0.6, 0.5)),
]


def rng(i: int = 0) -> SampleRandom:
    return SampleRandom(0, 0, i)


def drawn(seed: int, count: int = 3, masks: bool = True) -> Sample:
    """Rectangles, each in a colour of its own, with all annotations; two keypoints in each: left and right."""
    random = np.random.default_rng(seed)
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    sizes = random.integers(14, 40, (count, 2))
    corners = np.stack([random.integers(0, WIDTH - sizes[:, 0]), random.integers(0, HEIGHT - sizes[:, 1])], 1)
    boxes = np.concatenate([corners, corners + sizes], 1)
    found = np.zeros((count, HEIGHT, WIDTH), np.uint8)
    for number, (x1, y1, x2, y2) in enumerate(boxes):
        image[y1:y2, x1:x2, number] = 255
        found[number, y1:y2, x1:x2] = 1
    middle = (boxes[:, [1, 3]].sum(1) / 2)[:, None]
    sides = [np.concatenate([boxes[:, [0]] + 5 if left else boxes[:, [2]] - 5, middle], 1) for left in (True, False)]
    keypoints = np.concatenate([np.stack(sides, 1), np.full((count, 2, 1), 2)], 2).astype(np.float32)
    sample = {
        "image": image, "boxes": boxes.astype(np.float32), "labels": np.arange(count), "keypoints": keypoints,
        "crowd": np.zeros(count, bool), "difficult": np.ones(count, bool),
        "area": sizes.prod(1).astype(np.float32),
        "points": np.array([[0, 0], [WIDTH, 0], [0, HEIGHT]], np.float32), "index": seed,
    }  # fmt: skip
    return {**sample, "masks": found} if masks else sample


def consistent(sample: Sample) -> None:
    """Lengths and dtypes agree, and boxes lie inside of the image."""
    n, (h, w) = len(sample["boxes"]), sample["image"].shape[:2]
    dtypes = {"boxes": np.float32, "labels": np.int64, "keypoints": np.float32, "crowd": bool, "difficult": bool,
              "area": np.float32}  # fmt: skip
    for name, dtype in dtypes.items():
        assert (len(sample[name]), sample[name].dtype) == (n, dtype), name
    if "masks" in sample:
        assert (sample["masks"].shape, sample["masks"].dtype) == ((n, h, w), np.uint8)
    boxes = sample["boxes"]
    assert (boxes >= 0).all()
    assert (boxes <= [w, h, w, h]).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()


def check(before: Sample, after: Sample, slack: float) -> None:
    """Every annotation is where its colour is, within `slack` pixels; what is dropped is hardly visible."""
    consistent(after)
    image = after["image"]
    bright = (image > 127).transpose(2, 0, 1).astype(np.uint8)
    seen = mask_boxes(bright)
    for number in set(range(3)) - set(after["labels"].tolist()):
        assert bright[number].sum() <= 0.25 * image.size / 3
    for row, number in enumerate(after["labels"].tolist()):
        box, (h, w) = after["boxes"][row], image.shape[:2]
        cut = (box <= 0).any() or (box >= [w, h, w, h]).any()
        if not cut or "masks" in after:
            np.testing.assert_allclose(box, seen[number], atol=slack)
        for x, y, visible in after["keypoints"][row]:
            if visible and 2 < x < w - 2 and 2 < y < h - 2:
                assert bright[number, int(y), int(x)]
        if "masks" in after:
            both = (after["masks"][row] & bright[number]).sum() / max(1, (after["masks"][row] | bright[number]).sum())
            assert both > 0.75 or bright[number].sum() < 100


@pytest.mark.parametrize("transform", GEOMETRIC, ids=lambda t: repr(t)[:60])
@pytest.mark.parametrize("masks", [True, False])
def test_what_is_drawn_is_found(transform: Transform, masks: bool) -> None:
    for seed in range(12):
        before = drawn(seed, masks=masks)
        kept = copy.deepcopy(before)
        after = transform(before, rng(seed))
        check(before, after, 2.0)
        assert after["index"] == seed
        for name, value in kept.items():
            np.testing.assert_array_equal(before[name], value)


CHAINS = st.lists(st.sampled_from([t for t in GEOMETRIC if not isinstance(t, T.Pad) or t.mode == "constant"]),
                  min_size=1, max_size=4)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(CHAINS, st.integers(0, 10**6))
def test_chains(chain: list[Transform], seed: int) -> None:
    """Of several in a row, too; each interpolates, so that edges blur."""
    try:
        after = Compose(chain)(drawn(seed % 50), rng(seed))
    except UsageError as error:
        assert "does not fit" in str(error)  # noqa: PT017 - a crop of what another has made smaller
        return
    consistent(after)
    bright = (after["image"] > 100).transpose(2, 0, 1).astype(np.uint8)
    for row, number in enumerate(after["labels"].tolist()):
        mask = after["masks"][row]
        if mask.sum() > 200:
            assert (mask & bright[number]).sum() / (mask | bright[number]).sum() > 0.6


AFFINE = [t for t in GEOMETRIC if not isinstance(t, T.RandomPerspective)]


@pytest.mark.parametrize("transform", AFFINE, ids=lambda t: repr(t)[:60])
def test_points_recover_the_map(transform: Transform) -> None:
    for seed in range(5):
        before = drawn(seed, masks=False)
        points = np.array([[0, 0], [WIDTH, 0], [0, HEIGHT], [7, 9]], np.float32)
        after = transform({**before, "points": points}, rng(seed))
        source = np.array([[0, 0, 1], [WIDTH, 0, 1], [0, HEIGHT, 1]], np.float64)
        matrix = np.linalg.solve(source, after["points"][:3].astype(np.float64))
        np.testing.assert_allclose([7, 9, 1] @ matrix, after["points"][3], atol=1e-3)
        for row, number in enumerate(after["labels"].tolist()):
            x1, y1, x2, y2 = before["boxes"][number]
            corners = np.array([[x1, y1, 1], [x2, y1, 1], [x2, y2, 1], [x1, y2, 1]]) @ matrix
            h, w = after["image"].shape[:2]
            hull = np.clip(np.concatenate([corners.min(0), corners.max(0)]), 0, [w, h, w, h])
            np.testing.assert_allclose(after["boxes"][row], hull, atol=1e-3)


@pytest.mark.parametrize("transform", GEOMETRIC, ids=lambda t: repr(t)[:60])
def test_images_without_instances_pass(transform: Transform) -> None:
    for masks in (True, False):
        after = transform(drawn(0, count=0, masks=masks), rng())
        consistent(after)
        assert len(after["boxes"]) == 0


def test_every_geometric_transform_is_in_the_table() -> None:
    every = {each for name in T.__all__ if isinstance(each := getattr(T, name), type) and issubclass(each, Geometric)}
    assert every - {T.RandAugment, T.TrivialAugmentWide} <= {type(t) for t in GEOMETRIC}


@pytest.mark.parametrize("transform", [T.RandAugment(3, 25), T.TrivialAugmentWide()], ids=repr)
def test_operations_move_annotations_as_pixels(transform: Any) -> None:
    """Colours change, so the image of the masks is what is compared."""
    for seed in range(20):
        before = drawn(seed)
        after = transform(before, rng(seed))
        consistent(after)
        motion = transform.motion(before["image"].shape, rng(seed))
        assert (after["masks"] == motion.masks(before["masks"])[after["labels"]]).all()
        assert (after["image"] == transform.image(before["image"], rng(seed))).all()


def test_the_image_does_not_depend_on_annotations() -> None:
    for transform in GEOMETRIC:
        if not isinstance(transform, T.RandomIoUCrop):
            for seed in range(4):
                sample = drawn(seed)
                alone = transform({"image": sample["image"], "label": 1}, rng(seed))
                assert (alone["image"] == transform(sample, rng(seed))["image"]).all()


def test_parts_of_masks_are_warped_as_whole_ones() -> None:
    for seed in range(20):
        masks = drawn(seed)["masks"]
        masks[0] *= seed % 2
        matrix = affine_matrix(masks.shape[1:], angle=7 * seed, scale=0.6 + seed / 20, translate=(3.3, -4.6))
        whole = np.stack([warp(mask[:, :, None], matrix, "nearest")[:, :, 0] for mask in masks])
        assert (Warp(matrix).masks(masks) != whole).mean() < 2e-3  # where a pixel is as near to one as to another


def test_what_hardly_shows_is_dropped() -> None:
    sample = drawn(0) | {"boxes": np.array([[0, 0, 40, 40], [37, 0, 77, 40], [41, 50, 80, 80]], np.float32)}
    del sample["masks"]
    after = T.RandomCrop((HEIGHT, 40))(sample, _first())
    assert after["labels"].tolist() == [0]  # of the second, 3 of 40 columns are inside
    np.testing.assert_allclose(after["boxes"], [[0, 0, 40, 40]])
    np.testing.assert_allclose(after["area"], sample["area"][:1])
    half = T.RandomCrop((HEIGHT, 57))(sample, _first())
    assert half["labels"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(half["area"][1], sample["area"][1] / 2)
    assert T.SanitizeBoundingBoxes(min_size=18)(half, rng())["labels"].tolist() == [0, 1]
    assert T.SanitizeBoundingBoxes(min_area=1000)(half, rng())["labels"].tolist() == [0]


def _first() -> Any:
    """Random numbers that draw the first of everything."""

    class First(SampleRandom):
        def integers(self, low: int, high: int) -> int:
            return low

    return First(0, 0, 0)


def test_flips_exchange_left_and_right() -> None:
    sample = drawn(3)
    for transform in (T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0)):
        with pytest.raises(UsageError, match=r"mirrors keypoints.*give flip_pairs"):
            transform(sample, rng())
        by_data = transform({**sample, "flip_pairs": np.array([[0, 1]])}, rng())["keypoints"]
        plain = type(transform)(1.0, flip_pairs=[])(sample, rng())["keypoints"]
        assert (by_data == type(transform)(1.0, flip_pairs=[[0, 1]])(sample, rng())["keypoints"]).all()
        assert (by_data == plain[:, ::-1]).all()
    flipped = T.RandomHorizontalFlip(1.0, flip_pairs=[(0, 1)])(sample, rng())
    assert (flipped["keypoints"][:, 0, 0] < flipped["keypoints"][:, 1, 0]).all()  # still left of the right one
    np.testing.assert_allclose(flipped["keypoints"][:, 0, 0], WIDTH - sample["keypoints"][:, 1, 0])
    with pytest.raises(UsageError, match="more than the 2 keypoints"):
        T.RandomHorizontalFlip(1.0, flip_pairs=[(1, 2)])(sample, rng())


def test_keypoints_outside_are_not_visible() -> None:
    sample = drawn(0) | {"boxes": np.array([[0, 0, 80, 40]] * 3, np.float32)}
    sample["keypoints"] = np.array([[[10, 10, 2], [70, 10, 2]], [[70, 10, 1], [20, 20, 1]], [[0, 0, 0], [5, 5, 2]]],
                                   np.float32)  # fmt: skip
    del sample["masks"]
    after = T.RandomCrop((HEIGHT, 60))(sample, _first())
    assert after["keypoints"].tolist() == [[[10, 10, 2], [0, 0, 0]], [[0, 0, 0], [20, 20, 1]], [[0, 0, 0], [5, 5, 2]]]


def test_iou_crops_keep_centres_and_the_overlap() -> None:
    crop = T.RandomIoUCrop(overlaps=(0.5, 1.0))
    changed = 0
    for seed in range(120):
        before = drawn(seed, masks=False)
        after = crop(before, rng(seed))
        if after["image"].shape == before["image"].shape:
            continue
        changed += 1
        x, y = -after["points"][0]
        h, w = after["image"].shape[:2]
        centres = (before["boxes"][:, :2] + before["boxes"][:, 2:]) / 2
        inside = ((centres > [x, y]) & (centres < [x + w, y + h])).all(1)
        assert after["labels"].tolist() == np.flatnonzero(inside).tolist()
        both = (after["boxes"][:, 2:] - after["boxes"][:, :2]).prod(1)
        union = before["area"][inside] + w * h - both
        assert (both / union).max() >= 0.5
    assert changed > 5


def test_objects_get_the_sides_of_other_anchors() -> None:
    transform, sides = T.DataAnchorSampling((70, 64), sides=(8, 16, 32), p=1.0), []
    for seed in range(150):
        before = drawn(seed, 1)
        after = transform(before, rng(seed))
        assert after["image"].shape == (70, 64, 3)
        consistent(after)
        old, new = (np.sqrt((each["boxes"][0, 2:] - each["boxes"][0, :2]).prod()) for each in (before, after))
        assert len(after["labels"]) == 1
        assert 4 - 0.1 <= new <= min(64, 2 * max(old, 4)) + 0.1
        sides.append(new)
    assert min(sides) < 8
    assert max(sides) > 40
    assert (np.array(sides) < 16).mean() == pytest.approx(1 / 2, abs=0.15)  # all of the first, a third of the second


def test_a_window_of_an_anchor_holds_the_object_and_little_else_than_the_image() -> None:
    transform = T.DataAnchorSampling(48, sides=(16, 64), p=1.0)
    for seed in range(60):
        before = drawn(seed, 3, masks=False)
        after = transform(before, rng(seed))
        corners = after["points"]
        scale = np.linalg.norm(corners[1] - corners[0]) / np.linalg.norm(before["points"][1] - before["points"][0])
        left, top = corners[0] - before["points"][0] * scale
        for start, length in ((left, WIDTH * scale), (top, HEIGHT * scale)):
            assert start <= 1e-3 if length >= 48 else start >= -1e-3
            assert start + length >= 48 - 1e-3 if length >= 48 else start + length <= 48 + 1e-3
        inside = (before["boxes"][:, :2] + before["boxes"][:, 2:]) / 2 * scale + [left, top]
        assert len(after["labels"]) >= 1
        assert after["labels"].tolist() == np.flatnonzero(((inside > 0) & (inside < 48)).all(1)).tolist()


def test_images_that_no_anchor_is_drawn_for() -> None:
    same = drawn(0)
    assert T.DataAnchorSampling(p=0.0)(same, rng()) is same
    empty = {"image": same["image"], "boxes": np.zeros((0, 4), np.float32), "labels": np.zeros(0, np.int64)}
    assert T.DataAnchorSampling(p=1.0)(empty, rng()) is empty
    with pytest.raises(UsageError, match="has no boxes"):
        T.DataAnchorSampling()({"image": same["image"], "labels": same["labels"]}, rng())


def test_zooming_out_adds_room() -> None:
    shapes = {T.RandomZoomOut((2.0, 2.0), p=1.0)(drawn(seed), rng(seed))["image"].shape for seed in range(3)}
    assert shapes == {(2 * HEIGHT, 2 * WIDTH, 3)}
    same = drawn(0)
    assert T.RandomZoomOut(p=0.0)(same, rng()) is same


class Drawn(Dataset):
    """Images with 0 to 3 rectangles."""

    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> Sample:
        return drawn(index, index % 4)


def test_loaders_give_the_same_with_any_number_of_workers() -> None:
    transforms = [T.RandomIoUCrop(), T.RandomAffine(10, 0.1, (0.8, 1.2)), T.RandomHorizontalFlip(flip_pairs=[(0, 1)]),
                  T.Letterbox(64), T.Normalize(0.5, 0.5)]  # fmt: skip
    seen = []
    for workers in (0, 1, 3):
        loader = DataLoader(Drawn(), batch_size=4, shuffle=True, transforms=transforms, workers=workers, seed=5,
                            collate=lambda samples: {"samples": samples})  # fmt: skip
        seen.append([sample for batch in loader for sample in batch["samples"]])
    for others in seen[1:]:
        for one, other in zip(seen[0], others, strict=True):
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[name], other[name]) for name in one)


def test_stacks_of_annotated_samples_are_worked_on_one_by_one() -> None:
    """Their arrays have equal shapes at first, as one each does, and are whole batches of an array data set."""
    samples = [drawn(i, 1) for i in range(6)]
    arrays = {name: np.stack([s[name] for s in samples]) for name in samples[0] if name != "index"}
    flips = [T.Resize(60), T.RandomHorizontalFlip(flip_pairs=[(0, 1)])]
    batch = next(iter(DataLoader(ArrayDataset(**arrays), batch_size=6, transforms=flips, seed=3)))
    for i, sample in enumerate(samples):
        for number, transform in enumerate(flips):
            sample = transform(sample, SampleRandom(3, 0, i).fork(number))
        for name in arrays:
            np.testing.assert_array_equal(batch[name][i], sample[name])


MOVING = [
    T.Resize((50, 70)), T.Letterbox(96), T.RandomHorizontalFlip(p=1.0), T.RandomCrop(48, padding=8),
    T.RandomAffine(degrees=30, translate=0.2, scale=(0.7, 1.4)), T.RandomPerspective(p=1.0),
]  # fmt: skip


@pytest.mark.parametrize("transform", MOVING, ids=lambda each: type(each).__name__)
def test_the_class_of_each_pixel_moves_as_an_instance_does(transform: Transform) -> None:
    """Where it is known; what comes from outside counts nothing."""
    sample = drawn(3)
    sample = {"image": sample["image"], "masks": sample["masks"][:1], "mask": sample["masks"][0] * np.uint8(254)}
    after = transform(sample, rng())
    assert after["mask"].shape == after["image"].shape[:2]
    assert set(np.unique(after["mask"]).tolist()) <= {0, 254, 255}
    np.testing.assert_array_equal(after["mask"] == 254, after["masks"][0] == 1)


def test_batches_of_one_drawn_size() -> None:
    """Batches as the loader of detection pads them; each is of one size, a function of its position."""
    resized, sizes = T.BatchRandomResize([60, (45, 90), (90, 120)]), set()
    for i in range(12):
        samples = [{**each, "mask": each["masks"][0]} for each in (drawn(10 * i + k) for k in range(4))]
        batch = {name: np.stack([s[name] for s in samples]) for name in samples[0]}
        batch["boxes"][3, 2], batch["labels"][3, 2] = 0, -1
        after = resized(batch, rng(i))
        assert all((after[name] == value).all() for name, value in resized(batch, rng(i)).items())
        h, w = after["image"].shape[1:3]
        sizes.add((h, w))
        assert after["boxes"][3, 2].tolist() == [0, 0, 0, 0]
        for k, sample in enumerate(samples):
            alone = T.Resize((h, w), "linear")(sample, rng())
            for name in ("image", "masks", "mask", "keypoints", "area", "points"):
                np.testing.assert_allclose(after[name][k], alone[name], rtol=1e-6, atol=1e-4)
            np.testing.assert_allclose(after["boxes"][k][:2], alone["boxes"][:2], atol=1e-4)
    assert sizes == {(60, 60), (45, 90), (90, 120)}


@pytest.mark.parametrize("pairs", [[1, 2], [[1, 2, 3]], [[1, -2]], [[1, 2], [2, 3]], [["a", "b"]]])
def test_pairs_are_checked(pairs: Any) -> None:
    with pytest.raises(ConfigError, match="flip_pairs="):
        T.RandomHorizontalFlip(flip_pairs=pairs)


@pytest.mark.parametrize("transform", [T.RandomIoUCrop(), T.SanitizeBoundingBoxes()], ids=repr)
def test_samples_without_boxes_are_told(transform: Transform) -> None:
    with pytest.raises(UsageError, match="this one has no boxes, labels, only image, label"):
        transform({"image": drawn(0)["image"], "label": 1}, rng())
