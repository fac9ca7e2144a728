"""The base of transforms, and how a chain of them is run over a batch.

A transform is `t(sample, rng) -> sample`. It may also offer `batch(samples, rngs) -> samples`, the same on stacked
samples at once, with the same numbers in the result. Samples that have boxes, masks, keypoints or points are worked on
one by one, as each may lose some of them. Transforms with `batch_level = True` (MixUp, CutMix) see whole batches only
and come last.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from pdl.data.collating import collate, stackable
from pdl.data.dataset import Batch, Sample
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.errors import ConfigError, UsageError
from pdl.hints import part

ANNOTATIONS = frozenset({"boxes", "masks", "mask", "keypoints", "points", "picture"})
"""Keys of what has a place in the image of a sample, and moves with its pixels."""


def annotated(sample: Sample) -> bool:
    """Whether a sample, or a batch, has what moves with the pixels of its image."""
    return not ANNOTATIONS.isdisjoint(sample)


@part
class Transform:
    """Base of all transforms: a frozen dataclass whose fields are its config keys.

    Most transforms only change the image and override `image(image, rng)`; others override `__call__`.

    p              probability with which an image is changed
    fill           value of pixels that come from outside of the image, 0..255
    interpolation  auto (area when shrinking, else linear), nearest, linear, cubic, area or lanczos
    transforms     the transforms that it is made of
    """

    batch_level: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    """Whether it joins the sample with others, which the loader hands over (`pdl.data.reading.Partners`)."""
    internal: ClassVar[bool] = False
    """Whether a task adds it for itself: it changes nothing that people would see (`pdl preview` leaves it out)."""

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        return {**sample, "image": self.image(sample["image"], rng)}

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        """The transformed image; image [H, W, C] is never written to."""
        raise NotImplementedError(f"{type(self).__name__} must define image or __call__")

    def deployed(self) -> list[dict[str, Any]]:
        """The steps (`pdl.runtime.steps`) that do the same to an image in a bundle; UsageError where there are none."""
        raise UsageError(f"{type(self).__name__} has no form that a bundle can hold")

    def config(self) -> dict[str, Any]:
        """The config node that builds this transform again: `_target_` and its fields."""
        node = {f.name: _plain(getattr(self, f.name)) for f in fields(self)}  # type: ignore[arg-type]
        return {"_target_": public_path(type(self)), **node}

    def _set(self, **values: Any) -> None:
        """Write normalised field values from `__post_init__` of a frozen dataclass."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


class ImageBatchTransform(Transform):
    """A transform that works on a whole stack of images as well: overrides `images(images, rngs)`."""

    def batch(self, samples: Batch, rngs: BatchRandom) -> Batch:
        """Apply to every row of samples["image"] [N, H, W, C]; equals applying `__call__` to each sample."""
        return {**samples, "image": self.images(samples["image"], rngs)}

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        """The transformed images; images [N, H, W, C] are never written to."""
        raise NotImplementedError(f"{type(self).__name__} must define images")


@dataclass(frozen=True)
class Compose(Transform):
    """Apply the transforms one after another, each with random numbers of its own."""

    transforms: Sequence[Transform]

    def __post_init__(self) -> None:
        self._set(transforms=tuple(self.transforms))
        if any(getattr(t, "batch_level", False) for t in self.transforms):
            raise ConfigError("Compose: transforms of whole batches (MixUp, CutMix) belong in the loader's list itself")

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        for number, transform in enumerate(self.transforms):
            sample = transform(sample, rng.fork(number))
        return sample

    def deployed(self) -> list[dict[str, Any]]:
        return [step for transform in self.transforms for step in transform.deployed()]


class Pipeline:
    """A loader's transforms, sorted into three runs: sample by sample, stacked, and on the finished batch."""

    def __init__(self, transforms: Transform | Sequence[Transform] | None) -> None:
        given = [] if transforms is None else [transforms] if callable(transforms) else list(transforms)
        chain = [t for top in given for t in (top.transforms if isinstance(top, Compose) else [top])]
        wrong = [t for t in chain if not callable(t)]
        if wrong:
            raise ConfigError(f"transforms: {wrong[0]!r} is not a transform; expected t(sample, rng) -> sample")
        self.transforms: list[Any] = chain
        levels = [bool(getattr(t, "batch_level", False)) for t in chain]
        if levels != sorted(levels):
            late = chain[levels.index(True) + levels[levels.index(True):].index(False)]
            raise ConfigError(f"transforms: {type(late).__name__} comes after a transform of whole batches; "
                              "put MixUp and CutMix last")
        self.steps: list[Any] = chain[:len(chain) - sum(levels)]
        self.mixers = chain[len(self.steps):]
        single = [number for number, t in enumerate(self.steps) if not hasattr(t, "batch")]
        self.head = single[-1] + 1 if single else 0  # steps that must run sample by sample

    @property
    def joins(self) -> bool:
        """Whether a step, or one that it is made of, joins several samples."""
        return any(getattr(each, "joins", False) for each in _all(self.steps))

    @property
    def stacked(self) -> bool:
        """True if every step can run on stacked samples."""
        return self.head == 0

    def run(self, samples: list[Sample], rngs: BatchRandom, *, stack: bool = True) -> list[Sample] | Batch:
        """Run the steps; the result is a stacked batch, or a list of samples where they do not stack (or must not)."""
        stack = stack and not any(map(annotated, samples))
        cut = self.head if stack else len(self.steps)
        samples = [self._each(s, rngs[i], 0, cut) for i, s in enumerate(samples)]
        if not stack:
            return samples
        if not stackable(samples):
            return [self._each(s, rngs[i], cut, len(self.steps)) for i, s in enumerate(samples)]
        return self.run_stacked(collate(samples), rngs, cut)

    def run_stacked(self, batch: Batch, rngs: BatchRandom, start: int = 0) -> Batch:
        """Run the steps from `start` on stacked samples."""
        for number in range(start, len(self.steps)):
            batch = self.steps[number].batch(batch, rngs.fork(number))
        return batch

    def mix(self, batch: Batch, rng: SampleRandom) -> Batch:
        """Run the transforms of whole batches."""
        for number, mixer in enumerate(self.mixers):
            batch = mixer(batch, rng.fork(number))
        return batch

    def _each(self, sample: Sample, rng: SampleRandom, start: int, end: int) -> Sample:
        for done in self.stages(sample, rng, start, end):
            sample = done
        return sample

    def stages(self, sample: Sample, rng: SampleRandom, start: int = 0, end: int | None = None) -> Iterator[Sample]:
        """The sample after each of the steps from `start` on, up to `end`."""
        for number, step in enumerate(self.steps[start:end], start):
            try:
                sample = step(sample, rng.fork(number))
            except UsageError as error:
                raise UsageError(f"{error} (sample {sample.get('index')})") from error
            except Exception as error:
                error.add_note(f"while {step!r} worked on sample {sample.get('index')}")
                raise
            yield sample


def _all(transforms: Sequence[Any]) -> Iterator[Any]:
    """The transforms, and those that they are made of."""
    for each in transforms:
        yield each
        yield from _all(getattr(each, "transforms", ()))


def public_path(cls: type) -> str:
    """The shortest import path under which the class is exported: parent packages that re-export it come first."""
    parts = cls.__module__.split(".")
    for end in range(1, len(parts)):
        package = ".".join(parts[:end])
        if getattr(sys.modules.get(package), cls.__name__, None) is cls:
            return f"{package}.{cls.__name__}"
    return f"{cls.__module__}.{cls.__name__}"


def _plain(value: Any) -> Any:
    if isinstance(value, Transform):
        return value.config()
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


_lock = threading.Lock()
_users = 0
_threads_before = 0


@contextmanager
def one_opencv_thread() -> Iterator[None]:
    """OpenCV works with the calling thread only inside the block; the setting of before is restored after the last
    such block. Loaders hold it while they are iterated: `workers` is the number of threads, OpenCV adds none."""
    global _users, _threads_before
    cv2 = sys.modules.get("cv2")
    if cv2 is None:  # nothing loaded OpenCV, so nothing in this pipeline calls it
        yield
        return
    with _lock:
        if _users == 0:
            _threads_before = cv2.getNumThreads()
            cv2.setNumThreads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                cv2.setNumThreads(_threads_before)


def deployed_steps(transforms: Sequence[Any]) -> list[dict[str, Any]]:
    """The steps of all evaluation transforms; UsageError names every one that has none."""
    steps, faults = [], []
    for transform in transforms:
        try:
            steps += transform.deployed()
        except (UsageError, AttributeError) as error:
            known = isinstance(error, UsageError)
            why = str(error) if known else f"{type(transform).__name__} does not say how it is deployed (deployed())"
            faults.append(f"data.transforms.eval: {why}")
    if faults:
        raise UsageError("\n".join(faults))
    return steps


def prepares(transforms: Sequence[Any]) -> Callable[[Any], dict[str, Any]]:
    """A function from one image to {"image": the image after the evaluation transforms}."""
    pipeline = Pipeline(transforms)

    def prepare(image: Any) -> dict[str, Any]:
        done = pipeline.run([{"image": image, "index": 0}], BatchRandom(0, 0, np.arange(1)))
        made = done["image"][0] if isinstance(done, dict) else done[0]["image"]
        return {"image": np.ascontiguousarray(made)}

    return prepare
