"""What of a classifier of videos goes into a bundle."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.data.pipeline import Pipeline, deployed_steps
from pdl.data.randomness import BatchRandom
from pdl.dims import Dim
from pdl.dtype import as_dtype
from pdl.errors import UsageError, listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.runtime.steps.inputs import InputStep
from pdl.train.parts import Deployer
from pdl.train.task import first_samples
from pdl_cv.data.clips import Clip
from pdl_cv.steps.clips import ClipInput, read_clip
from pdl_cv.steps.skeletons import SkeletonInput, read_skeletons
from pdl_cv.video.clips import RANKS, Averaged

if TYPE_CHECKING:
    from pdl_cv.video.task import VideoClassification

SAMPLES = 4  # that a bundle is checked with
USE = {
    "clip": "    session('clip.mp4')     # a video, a folder of frames, or uint8 [T, H, W, 3] RGB\n\n"
    "or `pdl predict model.pdl clip.mp4 --save drawn`.",
    "skeleton": "    session(joints)         # float [T, joints, channels], or *.npy\n\n"
    "or `pdl predict model.pdl sequence.npy --save drawn`.",
}


class VideoDeployer(Deployer):
    """Logits of clips, or of skeletons, prepared as for evaluation; softmax and the five best classes afterwards."""

    task: VideoClassification

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, transforms = self.task, self.recipe.data.transforms(training=False)
        first, *others = deployed_steps(transforms)
        kind = first["step"]
        if kind not in RANKS:
            choosing = "pdl_cv.data.transforms.Segments, Stride, Resample or FillUp"
            raise UsageError(f"data.transforms.eval: begins with {choosing}, so that a bundle knows what it takes")
        first |= {"mode": task.mode or "rgb"} if kind == "clip" else self.skeletons(model)
        step = (ClipInput if kind == "clip" else SkeletonInput)(**{k: v for k, v in first.items() if k != "step"})
        items, pipeline = self.items(dataset, step), Pipeline(transforms)

        def prepare(item: Any) -> dict[str, Any]:
            held = self.whole(item, step)
            done = pipeline.run([{kind: held, "index": 0}], BatchRandom(0, 0, np.arange(1)))
            made = done[kind][0] if isinstance(done, dict) else done[0][kind]
            return {kind: np.ascontiguousarray(made, np.float32)}

        shape = prepare(items[0])[kind].shape
        return Deployment(
            module=Averaged(model, RANKS[kind]),
            net=model,
            inputs={kind: Spec((Dim.symbol("n", 3), *shape), as_dtype(np.float32))},
            outputs=("logits",),
            pre={kind: [first, *others]},
            post={"logits": [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]},
            samples=items,
            prepare=prepare,
            labels=task.classes,
            about={**self.recipe.identity(), "parameters": _count(model)},
        )

    def skeletons(self, model: Any) -> dict[str, Any]:
        """What a bundle knows of skeletons."""
        return {"joints": model.joints, "channels": model.in_channels, "edges": self.task.edges or []}

    def items(self, dataset: Any, step: InputStep) -> list[Any]:
        """A few clips as people give them, of the data, or made up where there are none."""
        few = first_samples(dataset, min(SAMPLES, len(dataset))) if isinstance(dataset, Dataset) else dataset
        found = [
            sample.get("clip", sample.get("skeleton")) for sample in islice(iter(() if few is None else few), SAMPLES)
        ]
        given = [each.path if isinstance(each, Clip) else each for each in found]
        return given or step.samples(np.random.default_rng(0))

    def whole(self, item: Any, step: InputStep) -> Any:
        """An item as a sample of a data set holds it."""
        if isinstance(step, SkeletonInput):
            return read_skeletons(item, step.joints, step.channels)
        assert isinstance(step, ClipInput)
        return Clip(str(item), step.mode) if isinstance(item, str | Path) else read_clip(item, step.mode, np.arange)

    def card(self, model: Module) -> Card:
        classes, kind = self.task.classes, self.task.kind
        given = "skeleton sequences" if kind == "skeleton" else "clips"
        return Card(
            title=f"{type(model).__name__}, {len(classes)} classes",
            summary=f"A classifier of {given} ({self.recipe.model.target}, {_count(model):,} parameters). Classes: "
            f"{listed(classes, 20)}.",
            protocol="One pass over each split in float32; where evaluation takes several clips or crops of a video, "
            "the mean of their probabilities.",
            use=f"    session = pdl.runtime.load('model.pdl')\n{USE[kind]}",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first clip of the test data: its file, or one made of it."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None or not isinstance(loader.dataset, Dataset):
            return "CLIP"
        sample = loader.dataset[0]
        held = sample.get("clip", sample.get("skeleton"))
        if isinstance(held, Clip):
            return shlex.quote(held.path)
        path = folder / "example.npy"
        np.save(path, np.asarray(held))
        return shlex.quote(str(path))


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())
