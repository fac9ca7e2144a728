"""From images to single objects: a sample for each, cut out of its image, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, Dataset, Sample, Subset
from pdl.data.collating import collate
from pdl.data.dataset import digest
from pdl.errors import DataError, UsageError
from pdl.train.recipe import Data
from pdl_cv.steps.crops import Crop, around, cut

LOOKED_AT = 32  # annotations by which it is told whether boxes are more than the span of points


class Instances(Dataset):
    """A sample for each object with points of a data set of images: {"image": uint8 [h, w, C], what is around it,
    "keypoints": float32 [1, P, 3] in pixels of that, "original": the object in its image}.

    dataset  of {"image", "keypoints": float32 [n, P, 3], "boxes": float32 [n, 4]}
    aspect   width / height of the part of an image around a box
    margin   how many times larger than the box it is; None: the whole image, of which each shows one object
    """

    def __init__(self, dataset: Dataset, *, aspect: float, margin: float | None) -> None:
        self.dataset, self.aspect, self.margin = dataset, aspect, margin
        self.classes = dataset.classes
        self.flip_pairs = np.asarray(described(dataset, "flip_pairs"), np.int64).reshape(-1, 2)
        self.objects: list[tuple[int, int]] = []
        for index in range(len(dataset)):
            marked = annotation_of(dataset, index)["keypoints"]
            rows = np.flatnonzero((marked[..., 2] > 0).any(axis=1)).tolist()
            if margin is None and len(rows) > 1:
                raise DataError(
                    f"{dataset.path_of(index) or f'sample {index}'}: {len(rows)} objects, but whole images must "
                    "show one each: leave task.whole out, so that boxes are cut out"
                )
            self.objects += [(index, row) for row in rows]

    def __len__(self) -> int:
        return len(self.objects)

    def __getitem__(self, index: int) -> Sample:
        number, row = self.objects[index]
        sample = self.dataset[number]
        image, box = sample["image"], sample["boxes"][row]
        crop = self._window(box, image.shape[:2])
        points = sample["keypoints"][row]
        moved = points - np.array([crop.left, crop.top, 0], np.float32)
        area = float(sample["area"][row]) if "area" in sample else float(np.prod(box[2:] - box[:2]))
        return {
            "image": cut(image, crop),
            "keypoints": np.where(points[:, 2:] > 0, moved, 0)[None].astype(np.float32),
            "flip_pairs": self.flip_pairs,
            "original": {"keypoints": points, "box": box, "area": area, "crop": crop, "image": number},
        }

    def _window(self, box: np.ndarray, size: tuple[int, int]) -> Crop:
        if self.margin is None:
            return Crop(0, 0, size[1], size[0])
        return around(box, aspect=self.aspect, margin=self.margin)

    def placed(self, index: int) -> tuple[Crop, np.ndarray]:
        """The window of an object and its points float32 [P, 3], both in pixels of its image."""
        number, row = self.objects[index]
        found = annotation_of(self.dataset, number)
        size = (0, 0) if self.margin is not None else size_of(self.dataset, number)
        return self._window(found["boxes"][row], size), found["keypoints"][row]

    @property
    def fingerprint(self) -> str:
        return digest(self.dataset.fingerprint, f"{self.aspect} {self.margin}")

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(self.objects[index][0])


def annotation_of(dataset: Dataset, index: int) -> Sample:
    """What is annotated on image `index`; the image is not read where the data set knows it without."""
    known = getattr(dataset, "annotation", None)
    found: Sample = dataset[index] if known is None else known(index)
    missing = [name for name in ("keypoints", "boxes") if name not in found]
    if missing:
        raise UsageError(
            f"{type(dataset).__name__}: sample {index} has no {missing[0]}; expected boxes [n, 4] and keypoints [n, P, "
            "3], which DetectionFolder has with keypoints: true"
        )
    return found


def size_of(dataset: Dataset, index: int) -> tuple[int, int]:
    """(height, width) of image `index`, which is not read where the data set knows them without."""
    if isinstance(dataset, Subset):
        return size_of(dataset.dataset, int(dataset.indices[index]))
    known = getattr(dataset, "size_of", None)
    height, width = known(index) if known is not None else dataset[index]["image"].shape[:2]
    return int(height), int(width)


def described(dataset: Dataset, name: str) -> Any:
    """What a data set says of its points: `keypoint_names`, `skeleton` or `flip_pairs`; () where it says nothing."""
    return described(dataset.dataset, name) if isinstance(dataset, Subset) else getattr(dataset, name, ())


def spans(dataset: Dataset) -> bool:
    """Whether each image has one object whose box is the span of its points: boxes that nobody drew."""
    for index in np.unique(np.linspace(0, len(dataset) - 1, LOOKED_AT).astype(int)).tolist():
        found = annotation_of(dataset, index)
        known = found["keypoints"][found["keypoints"][..., 2] > 0][:, :2]
        if len(found["boxes"]) != 1 or not len(known):
            return False
        span = np.concatenate([known.min(axis=0), known.max(axis=0)])
        if np.abs(span - found["boxes"][0]).max() > 1:
            return False
    return True


def keypoint_loader(instances: Instances, data: Data, *, training: bool, seed: int) -> DataLoader:
    """Batches {"image" [N, H, W, C], "keypoints" float32 [N, P, 3]}; for evaluation also, in lists, the objects in
    their images ("original") and float64 [2, 3], which takes points (x, y, 1) of a prepared image there ("back")."""
    sampler = data.sampler(instances, seed=seed) if training else None
    return DataLoader(
        instances if training else Cornered(instances),
        batch_size=data.size(training=training),
        shuffle=training and sampler is None,
        sampler=sampler,
        transforms=data.transforms(training=training),
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
        on_error=data.on_error,
        collate=training_batch if training else evaluation_batch,
    )


class Cornered(Dataset):
    """The samples of `Instances` with three corners, "points", by which the way back is found."""

    def __init__(self, instances: Instances) -> None:
        self.instances, self.classes = instances, instances.classes

    def __len__(self) -> int:
        return len(self.instances)

    def __getitem__(self, index: int) -> Sample:
        sample = self.instances[index]
        height, width = sample["image"].shape[:2]
        return {**sample, "points": np.array([[0, 0], [width, 0], [0, height]], np.float32)}

    def path_of(self, index: int) -> str | None:
        return self.instances.path_of(index)


def training_batch(samples: Sequence[Sample]) -> Batch:
    """Images and points, stacked."""
    batch = collate([{name: sample[name] for name in ("image", "keypoints", "index")} for sample in samples])
    batch["keypoints"] = batch["keypoints"][:, 0]
    return batch


def evaluation_batch(samples: Sequence[Sample]) -> Batch:
    """The same, with the objects and the way back."""
    batch = training_batch(samples)
    batch["original"] = [sample["original"] for sample in samples]
    batch["back"] = [way_back(sample["points"], sample["original"]["crop"]) for sample in samples]
    return batch


def way_back(corners: np.ndarray, crop: Crop) -> np.ndarray:
    """float64 [2, 3]: takes points (x, y, 1) of a prepared image to the original, by where the upper left, upper right
    and lower left corners [3, 2] of the window are now."""
    now = np.column_stack([corners.astype(np.float64), np.ones(3)])
    left, top, width, height = crop
    before = np.array([[left, top], [left + width, top], [left, top + height]], np.float64)
    return np.asarray(np.linalg.solve(now, before).T)
