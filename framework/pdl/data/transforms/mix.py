"""Whole batches: images mixed with one another, whose labels int64 [N] become soft targets float32 [N, num_classes];
and images of one drawn size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args

import numpy as np

from pdl.data.dataset import Batch
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.data.transforms._args import Interpolation, Probability, choice, number, size_pair
from pdl.data.transforms.annotations import moved_classes, transform
from pdl.data.transforms.geometry import resize_all
from pdl.data.transforms.motion import Scaled
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range


def soft_targets(labels: np.ndarray, num_classes: int) -> np.ndarray:
    """One-hot rows float32 [N, num_classes]; labels that are soft already pass."""
    if labels.ndim == 2:
        return labels
    if labels.size and not 0 <= labels.min() <= labels.max() < num_classes:
        raise UsageError(f"soft targets: labels {labels.min()}..{labels.max()} do not fit num_classes={num_classes}")
    out = np.zeros((len(labels), num_classes), np.float32)
    out[np.arange(len(labels)), labels] = 1
    return out


@dataclass(frozen=True)
class _Mix(Transform):
    """Shared by MixUp and CutMix: with probability p, one share for the whole batch and one random partner a sample."""

    batch_level: ClassVar[bool] = True

    num_classes: Annotated[int, Range(2)]
    alpha: Annotated[float, Range(above=0)] = 1.0
    p: Probability = 1.0

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if not isinstance(self.num_classes, int) or self.num_classes < 2:
            raise ConfigError(f"{owner}: num_classes={self.num_classes!r} must be an integer of at least 2")
        number(owner, "alpha", self.alpha, 0, above=True)
        number(owner, "p", self.p, 0, 1)

    def __call__(self, batch: Batch, rng: SampleRandom) -> Batch:
        if "label" not in batch:
            raise UsageError(f"{type(self).__name__}: mixes classes of images, and this batch has no label, only "
                             f"{', '.join(map(str, batch))}; for boxes there is MixUpDetection")
        target = soft_targets(batch["label"], self.num_classes)
        if not rng.chance(self.p):
            return {**batch, "label": target}
        generator = rng.generator()
        share = float(generator.beta(self.alpha, self.alpha))
        partner = generator.permutation(len(target))
        images, share = self._images(batch["image"], partner, share, generator)
        mixed = np.float32(share) * target + np.float32(1 - share) * target[partner]
        return {**batch, "image": images, "label": mixed}

    def _images(self, images: np.ndarray, partner: np.ndarray, share: float,
                generator: np.random.Generator) -> tuple[np.ndarray, float]:
        """The mixed images, and the share of the first ones in them."""
        raise NotImplementedError


@dataclass(frozen=True)
class MixUp(_Mix):
    """x = l x_i + (1 - l) x_j and y = l y_i + (1 - l) y_j with l ~ Beta(alpha, alpha), j a random partner.

    Zhang et al., arXiv 1710.09412. Works on float images: put Normalize or ToFloat before it. The paper's alpha is
    0.2 for ImageNet and 1 for CIFAR-10.

    alpha        of the distribution of shares: 1 is uniform, less mixes less
    num_classes  how many classes there are: labels become rows of shares
    """

    def _images(self, images: np.ndarray, partner: np.ndarray, share: float,
                generator: np.random.Generator) -> tuple[np.ndarray, float]:
        if images.dtype.kind != "f":
            raise UsageError(f"MixUp: works on float images, got {images.dtype}; put Normalize or ToFloat before it")
        return images * images.dtype.type(share) + images[partner] * images.dtype.type(1 - share), share


@dataclass(frozen=True)
class CutMix(_Mix):
    """Paste a rectangle of the partner's image; its sides are sqrt(1 - l) of the image's, l ~ Beta(alpha, alpha).

    The centre is uniform and the rectangle is cut at the border; the labels are mixed by the area that is left
    (Yun et al., arXiv 1905.04899).

    alpha        of the distribution of shares: 1 is uniform, less mixes less
    num_classes  how many classes there are: labels become rows of shares
    """

    def _images(self, images: np.ndarray, partner: np.ndarray, share: float,
                generator: np.random.Generator) -> tuple[np.ndarray, float]:
        height, width = images.shape[1:3]
        side = float(np.sqrt(1 - share))
        y, x = int(generator.integers(height)), int(generator.integers(width))
        half_h, half_w = int(height * side) // 2, int(width * side) // 2
        top, bottom = max(0, y - half_h), min(height, y + half_h)
        left, right = max(0, x - half_w), min(width, x + half_w)
        out = images.copy()
        out[:, top:bottom, left:right] = images[partner, top:bottom, left:right]
        return out, 1 - (bottom - top) * (right - left) / (height * width)


@dataclass(frozen=True)
class BatchRandomResize(Transform):
    """Scale all images of a batch to one of `sizes`, drawn uniformly, with all that is annotated:
    training at several scales (Redmon, Farhadi, arXiv 1612.08242, section 2: "multi-scale training").

    A training step is compiled for each size, so there should be few. Arrays of boxes are [N, M, 4], of masks
    [N, M, H, W].

    sizes  each an int for a square, or (height, width)
    """

    batch_level: ClassVar[bool] = True

    sizes: Sequence[int | Sequence[int]]
    interpolation: Interpolation = "linear"

    def __post_init__(self) -> None:
        owner = "BatchRandomResize"
        if not isinstance(self.sizes, Sequence) or not self.sizes:
            raise ConfigError(f"{owner}: sizes={self.sizes!r} must be a list of sizes")
        self._set(sizes=tuple(size_pair(owner, "sizes", size) for size in self.sizes))
        choice(owner, "interpolation", self.interpolation, get_args(Interpolation))

    def __call__(self, batch: Batch, rng: SampleRandom) -> Batch:
        size: Any = self.sizes[rng.integers(0, len(self.sizes))]
        images: np.ndarray = batch["image"]
        motion, before = Scaled(size), images.shape[1:3]
        matrix = motion.matrix(*before)
        out = {**batch, "image": resize_all(images, size, self.interpolation)}
        for name in ("boxes", "points"):
            if name in batch:
                pairs = batch[name].reshape(*batch[name].shape[:-1], -1, 2)
                out[name] = transform(pairs, matrix).reshape(batch[name].shape)
        if "keypoints" in batch:
            out["keypoints"] = batch["keypoints"].copy()
            out["keypoints"][..., :2] = transform(batch["keypoints"][..., :2], matrix)
        if "masks" in batch:
            masks = motion.masks(batch["masks"].reshape(-1, *before))
            out["masks"] = masks.reshape(*batch["masks"].shape[:2], *size)
        if "mask" in batch:
            out["mask"] = moved_classes(batch["mask"], motion)
        if "area" in batch:
            out["area"] = np.float32(batch["area"] * (matrix[0, 0] * matrix[1, 1]))
        return out
