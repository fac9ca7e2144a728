"""What tasks whose nets take images share: whether a net fits the images, and a deployer that prepares them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from pdl.data import Dataset
from pdl.data.image import Mode, change_mode
from pdl.data.pipeline import deployed_steps, prepares
from pdl.dims import Dim
from pdl.dtype import Array, as_dtype
from pdl.errors import ConfigError, ShapeError
from pdl.export.deployment import TOLERANCE, Deployment
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.ops.base import Spec
from pdl.report import Card, png
from pdl.runtime.frame import Frame
from pdl.tensor import as_tensor
from pdl.train.parts import Deployer
from pdl.train.recipe import Recipe
from pdl.train.task import Task, first_samples

NOISE = ((96, 128), (240, 200), (133, 47), (256, 256))  # heights and widths


class ImageDeployer(Deployer):
    """Images [N, H, W, C], prepared as for evaluation; a subclass says what is run on them and what answers."""

    samples: ClassVar[int] = 4
    """How many images a bundle is checked with."""

    def of_images(
        self,
        model: Module,
        dataset: Any,
        *,
        module: Module,
        outputs: tuple[str, ...],
        post: Mapping[str, list[dict[str, Any]]],
        labels: list[str],
        any_size: bool | Literal["width"] = False,
        tall: float | None = None,
        tolerance: float = TOLERANCE,
        **about: Any,
    ) -> Deployment:
        """The deployment of `module`, a function around `model` that takes one input, "image".

        any_size   whether heights and widths may change, or widths alone; else they are those that the transforms give
        tall       see `pdl.runtime.steps.images.ImageInput`
        tolerance  see `Deployment`
        about      further plain facts for people
        """
        transforms = self.recipe.data.transforms(training=False)
        mode: Mode = getattr(self.task, "mode", None) or "rgb"
        samples = [change_mode(image, mode) for image in self.images(dataset)]
        prepare = prepares(transforms)
        first = prepare(samples[0])["image"]
        height, width = first.shape[:2]
        if any_size:
            width = Dim.symbol("w", width)
        if any_size is True:
            height = Dim.symbol("h", height)
        turned = {} if tall is None else {"tall": tall}
        return Deployment(
            module=module,
            net=model,
            inputs={"image": Spec((Dim.symbol("n", 3), height, width, first.shape[2]), as_dtype(first.dtype))},
            outputs=outputs,
            pre={"image": [{"step": "image", "mode": mode, **turned}, *deployed_steps(transforms)]},
            post=dict(post),
            samples=samples,
            prepare=prepare,
            labels=labels,
            tolerance=tolerance,
            about={**self.recipe.identity(), "parameters": _count(model), **about},
        )

    def images(self, dataset: Any) -> list[np.ndarray]:
        """A few images of the data, uint8 [H, W, C]; noise where there are none."""
        few = first_samples(dataset, min(self.samples, len(dataset))) if isinstance(dataset, Dataset) else dataset
        found = [sample["image"] for sample in islice(iter(() if few is None else few), self.samples)]
        rng = np.random.default_rng(0)
        return found or [rng.integers(0, 256, (*sides, 3), dtype=np.uint8) for sides in NOISE]

    def size_of(self, model: Module) -> str:
        """The class of the model and its parameters, in words."""
        return f"{self.recipe.model.target}, {_count(model):,} parameters"

    def image_card(self, title: str, summary: str, protocol: str, *, draws: bool = True) -> Card:
        """The card of a model that answers about images; `draws`: whether its answers are drawn on them."""
        return Card(
            title=title,
            summary=summary,
            protocol=protocol,
            use="    session = pdl.runtime.load('model.pdl')\n"
            "    session(image)          # uint8 [H, W, 3] RGB, a path, or the bytes of a file\n\n"
            f"or `pdl predict model.pdl photo.jpg{' --save drawn' if draws else ''}`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first image of the test data, as a file."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None or not isinstance(loader.dataset, Dataset):
            return "IMAGE"
        path = folder / "example.png"
        path.write_bytes(png(loader.dataset[0]["image"]))
        return shlex.quote(str(path))


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())


def first_images(task: Task, datasets: Mapping[str, Any], recipe: Recipe) -> Iterator[tuple[Array, str]]:
    """Of each split an image as the model is given it, [1, H, W, C], and where it comes from. A task that has a `mode`
    and does not know it yet learns it from the image. ConfigError for images that are no floats."""
    for split, dataset in datasets.items():
        first, training = first_samples(dataset, 1), split == "train"
        loader: Any = task.loader(first, recipe, training=training, seed=0)
        loader.workers, loader.drop_last = 0, False
        batch = next(iter(loader), None)
        if batch is None:  # an unreadable first image, with on_error=skip
            continue
        if getattr(task, "mode", "rgb") is None:
            task.mode = "gray" if first[0]["image"].shape[-1] == 1 else "rgb"  # type: ignore[attr-defined]
        images, source = batch["image"], f"data.{split} after data.transforms.{'train' if training else 'eval'}"
        if images.dtype.kind != "f":
            raise ConfigError(
                f"{source} gives {images.dtype} images; add pdl.data.transforms.Normalize or ToFloat to the list"
            )
        yield images, source


def answer(model: Module, images: Array, source: str, recipe: Recipe) -> Any:
    """What a model makes of images [N, H, W, C], in evaluation mode. ConfigError where it does not take them."""
    try:
        with evaluating(model):
            return model(as_tensor(images))
    except ShapeError as error:
        raise ConfigError(
            f"model: {recipe.model.target} does not take the images of {source}, shape {images.shape[1:]}: {error}"
        ) from error


def frame_of(corners: np.ndarray, size: tuple[int, int]) -> Frame:
    """Where a prepared image lies in the original of `size` (height, width), by where its upper left, upper right and
    lower left corners [3, 2] are now. ConfigError where it was turned or slanted."""
    height, width = size
    origin, across, down = corners.astype(np.float64)
    if abs(across[1] - origin[1]) > 1e-3 or abs(down[0] - origin[0]) > 1e-3:
        raise ConfigError(
            "data.transforms.eval: rotates or shears images, so that boxes cannot be moved to the original"
        )
    scale = width / (across[0] - origin[0]), height / (down[1] - origin[1])
    return Frame(height, width, scale, (-origin[0] * scale[0], -origin[1] * scale[1]))
