"""Mosaic, MixUpDetection and CopyPaste: annotations lie where the pixels do; partners are a function of seed, epoch and
index alone."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from pdl.data import DataFault, DataLoader, Dataset, IterableDataset, Sample, SampleRandom, Transform
from pdl.data import transforms as T
from pdl.data.reading import Partners, Reader
from pdl.data.transforms.pixels import mask_boxes
from pdl.errors import ConfigError, UsageError

COUNT = 20


def value(index: int) -> int:
    """The gray level of sample `index`'s rectangle."""
    return 60 + 9 * index


class Rectangles(Dataset):
    """A rectangle each, of a gray level of its own; sample 0 is empty."""

    def __init__(self, reads: list[int] | None = None, broken: tuple[int, ...] = ()) -> None:
        self.reads, self.broken = [] if reads is None else reads, broken

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Sample:
        self.reads.append(index)
        if index in self.broken:
            raise ValueError("torn")
        random = np.random.default_rng(index)
        h, w = int(random.integers(60, 140)), int(random.integers(60, 140))
        x1, y1 = int(random.integers(0, w - 40)), int(random.integers(0, h - 40))
        x2, y2 = x1 + int(random.integers(24, 40)), y1 + int(random.integers(24, 40))
        n = int(index > 0)
        image, masks = np.zeros((h, w, 1), np.uint8), np.zeros((n, h, w), np.uint8)
        if n:
            image[y1:y2, x1:x2], masks[0, y1:y2, x1:x2] = value(index), 1
        boxes = np.array([[x1, y1, x2, y2]], np.float32)[:n]
        middle = np.array([[[(x1 + x2) / 2, (y1 + y2) / 2, 2]]], np.float32)[:n]
        area, points = masks.sum((1, 2)).astype(np.float32), np.array([[0, 0], [w, h]], np.float32)
        return {"image": image, "boxes": boxes, "labels": np.full(n, index), "masks": masks, "keypoints": middle,
                "area": area, "points": points}  # fmt: skip


def run(transform: Transform, index: int, seed: int = 0, **options: Any) -> Sample:
    data = Rectangles(**options)
    partners = Partners(Reader(data), COUNT, skip=False)
    return transform({**data[index], "index": index, "partners": partners}, SampleRandom(seed, 0, index))


def near(image: np.ndarray, level: int) -> np.ndarray:
    """bool [H, W]: the pixels of a gray level."""
    return np.abs(image[:, :, 0].astype(int) - level) <= 3


def grown(mask: np.ndarray, pixels: int) -> np.ndarray:
    """The mask with so many pixels more on all sides, or fewer."""
    kernel = np.ones((2 * abs(pixels) + 1,) * 2, np.uint8)
    change = cv2.dilate if pixels > 0 else cv2.erode
    return change(mask, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0).astype(bool)


def found_there(image: np.ndarray, box: np.ndarray, mask: np.ndarray, level: int) -> bool:
    """Whether the mask covers pixels of its level, no others of it are around it, and the box is around the mask."""
    np.testing.assert_allclose(box, mask_boxes(mask[None])[0], atol=1.5)
    inside = grown(mask, -3)
    around = grown(mask, 4) & ~grown(mask, 2)
    assert near(image, level)[inside].all()
    assert near(image, level)[around].mean() < 0.25
    return bool(inside.any())


@pytest.mark.parametrize("transform", [
    T.Mosaic(96, fill=0), T.Mosaic((80, 120), scale=(0.4, 0.9), fill=0), T.Mosaic(128, (1, 2), translate=0.4, fill=0),
    T.Mosaic(96, degrees=20, shear=5, fill=0),
], ids=repr)  # fmt: skip
def test_mosaics_have_their_boxes_where_the_pixels_are(transform: T.Mosaic) -> None:
    found = 0
    for index in range(COUNT):
        after = run(transform, index, seed=3)
        h, w = transform.size  # type: ignore[misc]
        assert after["image"].shape == (h, w, 1)
        n = len(after["boxes"])
        assert all(len(after[name]) == n for name in ("labels", "masks", "keypoints", "area"))
        levels = [value(label) for label in after["labels"].tolist()]
        for box, mask, points, level in zip(after["boxes"], after["masks"], after["keypoints"], levels, strict=True):
            found += levels.count(level) == 1 and found_there(after["image"], box, mask, level)
            for x, y, visible in points:
                if visible and min(x, w - x, y, h - y) > 1:
                    assert abs(int(after["image"][int(y), int(x), 0]) - level) <= 3
    assert found > 15


def test_a_mosaic_without_jitter_is_four_images_that_meet() -> None:
    """All four have the size of the mosaic: the first one's corner is where the others begin."""

    class Plain(Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Sample:
            image = np.full((50, 50, 3), 10 * index + 10, np.uint8)
            return {"image": image, "boxes": np.array([[0, 0, 50, 50]], np.float32), "labels": np.array([index]),
                    "points": np.array([[50, 50]], np.float32)}  # fmt: skip

    loader = DataLoader(Plain(), batch_size=1, transforms=T.Mosaic(50, scale=(1, 1), translate=0), seed=2,
                        collate=lambda samples: {"samples": samples})  # fmt: skip
    for batch in loader:
        for sample in batch["samples"]:
            x, y = np.rint(sample["points"][0]).astype(int)
            image, levels = sample["image"], [10 * label + 10 for label in sample["labels"].tolist()]
            for part in (image[:y - 1, :x - 1], image[:y - 1, x + 1:], image[y + 1:, :x - 1], image[y + 1:, x + 1:]):
                if part.size:
                    assert part.min() == part.max()
                    assert part.min() in levels or part.size < 3 * 250
            assert "partners" not in sample


def test_mixup_keeps_the_boxes_of_both() -> None:
    mix = T.MixUpDetection(alpha=1e8, fill=0)
    both = 0
    for seed in range(30):
        before, after = Rectangles()[0], run(mix, 0, seed)
        assert after["image"].shape == before["image"].shape
        for box, mask, label in zip(after["boxes"], after["masks"], after["labels"].tolist(), strict=True):
            both += found_there(after["image"], box, mask, value(label) // 2)
        more = run(mix, 7, seed)
        assert more["labels"][0] == 7
        assert (more["boxes"][0] == Rectangles()[7]["boxes"][0]).all()
    assert both > 10


def test_pasted_instances_cover_others() -> None:
    covered = dropped = 0
    for seed in range(60):
        for index in (5, 11):
            before, after = Rectangles()[index], run(T.CopyPaste(share=1.0), index, seed)
            if after["labels"].tolist() in ([index], [index, index]):
                continue
            assert (after["masks"].sum(0) <= 1).all()
            dropped += index not in after["labels"].tolist()
            for box, mask, label, area in zip(after["boxes"], after["masks"], after["labels"].tolist(), after["area"],
                                              strict=True):  # fmt: skip
                assert near(after["image"], value(label))[grown(mask, -3)].all()
                if label == index and area < before["area"][0]:
                    covered += 1
                    assert area == mask.sum()
                    assert (box == mask_boxes(mask[None])[0]).all()
                    x, y = after["keypoints"][0, 0, :2].astype(int)
                    assert after["keypoints"][0, 0, 2] == (2 if mask[y, x] else 1)
    assert covered > 5
    assert dropped
    assert run(T.CopyPaste(share=0.0), 5)["labels"].tolist() == [5]


CHAIN = [T.UntilEpoch([T.Mosaic(64, p=0.7), T.RandomApply([T.MixUpDetection()], 0.5)], 1), T.CopyPaste(p=0.4),
         T.RandomHorizontalFlip(flip_pairs=[]), T.Letterbox(64), T.Normalize(0.5, 0.5)]  # fmt: skip


def epochs(workers: int, count: int = 2, **options: Any) -> list[Sample]:
    loader = DataLoader(Rectangles(), batch_size=3, shuffle=True, transforms=CHAIN, workers=workers, seed=5,
                        collate=lambda samples: {"samples": samples}, **options)  # fmt: skip
    return [sample for _ in range(count) for batch in loader for sample in batch["samples"]]


@pytest.mark.parametrize("options", [{"workers": 3}, {"workers": 1, "cache": 0}, {"workers": 2, "cache": 1}], ids=repr)
def test_partners_are_the_same_with_any_number_of_workers_and_any_cache(options: dict[str, Any]) -> None:
    for one, other in zip(epochs(0), epochs(**options), strict=True):
        assert one.keys() == other.keys()
        assert "partners" not in one
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_each_sample_is_decoded_once_as_long_as_there_is_room() -> None:
    for cache, times in ((None, 1), (0, 10)):
        reads: list[int] = []
        loader = DataLoader(Rectangles(reads), batch_size=4, transforms=T.Mosaic(32), cache=cache,
                            collate=lambda samples: {"samples": samples})  # fmt: skip
        for _ in range(3):
            list(loader)
        assert len(reads) >= times * COUNT
        assert len(reads) == COUNT or cache == 0


def test_what_is_kept_is_bounded_and_cannot_be_written_to() -> None:
    data = Rectangles()
    size = sum(array.nbytes for array in data[1].values())
    reader = Reader(data, limit=size + 10)
    assert reader(1)["image"] is reader(1)["image"]
    with pytest.raises(ValueError, match="read-only"):
        reader(1)["image"][0] = 1
    assert reader(2)["image"] is not reader(2)["image"]
    assert reader(2)["image"].flags.writeable


class Pyramid(Rectangles):
    """Reads smaller versions of its images."""

    def size_of(self, index: int) -> tuple[int, int]:
        return self[index]["image"].shape[:2]

    def reduced(self, index: int, factor: int) -> Sample:
        height, width = self.size_of(index)
        return {**T.Resize((height // factor, width // factor))(self[index], SampleRandom(0, 0, 0)), "factor": factor}


def test_smaller_images_are_read_where_they_are_enough() -> None:
    reader, longer = Reader(Pyramid()), max(Pyramid().size_of(3))
    factors = [reader(3, side).get("factor", 1) for side in (None, longer, longer / 2, longer / 4 + 0.1, longer / 9, 1)]
    assert factors == [1, 1, 2, 2, 8, 8]
    loader = DataLoader(Pyramid(), batch_size=4, transforms=T.Mosaic(24, fill=0),
                        collate=lambda samples: {"samples": samples})  # fmt: skip
    samples = [sample for batch in loader for sample in batch["samples"]]
    assert len(samples) == COUNT
    for sample in samples:
        levels = [value(label) for label in sample["labels"].tolist()]
        for box, mask, level in zip(sample["boxes"], sample["masks"], levels, strict=True):
            if levels.count(level) == 1:
                found_there(sample["image"], box, mask, level)


def test_partners_that_cannot_be_read() -> None:
    settings: dict[str, Any] = {"batch_size": 4, "transforms": T.Mosaic(32), "seed": 1,
                                "collate": lambda samples: {"samples": samples}}  # fmt: skip
    with pytest.raises(DataFault, match="torn"):
        list(DataLoader(Rectangles(broken=(4, 9)), **settings))
    loader = DataLoader(Rectangles(broken=(4, 9)), on_error="skip", **settings)
    samples = [sample for batch in loader for sample in batch["samples"]]
    assert sorted(loader.faults) == [4, 9]
    assert len(samples) == COUNT - 2
    assert not {4, 9} & {label for sample in samples for label in sample["labels"].tolist()}


def test_until_an_epoch() -> None:
    ends = T.UntilEpoch([T.Resize(8), T.Pad(1)], 2)
    sizes = [ends({"image": np.zeros((4, 4, 3), np.uint8)}, SampleRandom(0, epoch, 0).fork(3))["image"].shape[0]
             for epoch in range(4)]  # fmt: skip
    assert sizes == [10, 10, 4, 4]


def test_what_joins_is_told_where_it_cannot() -> None:
    class Stream(IterableDataset):
        def __iter__(self) -> Any:
            yield Rectangles()[1]

    with pytest.raises(ConfigError, match="no samples by index that its transforms could join"):
        DataLoader(Stream(), batch_size=2, transforms=T.RandomApply([T.Mosaic(32)]))
    with pytest.raises(ConfigError, match="cache=-1 must be 0"):
        DataLoader(Rectangles(), batch_size=2, cache=-1)
    sample = Rectangles()[1]
    for transform in (T.Mosaic(32), T.MixUpDetection(), T.CopyPaste()):
        with pytest.raises(UsageError, match="only a DataLoader hands over"):
            transform(sample, SampleRandom(0, 0, 0))
        with pytest.raises(UsageError, match="works on uint8 images, got float32"):
            transform({**sample, "image": sample["image"].astype(np.float32)}, SampleRandom(0, 0, 0))
    with pytest.raises(UsageError, match="this one has no masks"):
        T.CopyPaste()({name: sample[name] for name in ("image", "boxes", "labels")}, SampleRandom(0, 0, 0))
