"""The task of classifying videos: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pdl.data import Fault
from pdl.data.folders import split_folder
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Recipe
from pdl.train.class_loss import ClassWeights, Gamma
from pdl.train.images import answer
from pdl.train.parts import SmokeTest
from pdl.train.task import first_samples
from pdl_cv.classification.task import Classification
from pdl_cv.video.baselines import baselines
from pdl_cv.video.check import check
from pdl_cv.video.clips import RANKS, averaged, kind_of, told
from pdl_cv.video.deploy import VideoDeployer
from pdl_cv.video.preview import VideoPreviewer
from pdl_cv.video.report import VideoReporter


class VideoClassification(Classification):
    """One class for each clip, or for each sequence of skeletons, by cross-entropy.

    classes          their names in the order of the labels; by default the data set's
    mode             "rgb" or "gray": how `pdl predict` reads clips; by default as the data set does
    edges            pairs of joints of skeletons, for drawings; by default the data set's
    label_smoothing  share of the target that is spread evenly over all classes (Szegedy et al., arXiv 1512.00567); in
                     training only
    class_weights    weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike; in
                     training only, as the next one
    focal_gamma      of the focal loss (Lin et al., arXiv 1708.02002); 0: plain cross-entropy
    mistakes         how many of the worst mistakes the report shows

    Samples are {"clip": frames uint8 [T, H, W, C] or a `pdl_cv.data.clips.Clip`, "label": int} or {"skeleton": float32
    [T, joints, channels], "label": int}; transforms give all of them one length, and models take [N, T, H, W, C] or
    [N, T, joints, channels]. Where those of evaluation give several clips or crops of each (`Segments` and `Stride`
    with `clips`, `ThreeCrops`), their probabilities are averaged, in bundles, too.
    """

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        mode: Literal["rgb", "gray"] | None = None,
        edges: Sequence[Sequence[int]] | None = None,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.0,
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        super().__init__(
            classes=classes, mode=mode, label_smoothing=label_smoothing, class_weights=class_weights,
            focal_gamma=focal_gamma, mistakes=mistakes,
        )  # fmt: skip
        self.edges = None if edges is None else [list(pair) for pair in edges]
        self.kind = "clip" if edges is None else "skeleton"
        self.train_data: Any = None

    # -- training ------------------------------------------------------------------------------------------------------
    def inputs(self, batch: Any) -> Any:
        return batch[kind_of(batch)]

    def scoring(self, model: Module) -> Module:
        return averaged(model, RANKS[self.kind])

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the class names, and on what samples show."""
        super().prepare(recipe, datasets)
        for dataset in datasets.values():
            self.mode = self.mode or told(dataset, "mode")
            if self.edges is None and (edges := told(dataset, "edges")) is not None:
                self.edges, self.kind = [list(map(int, pair)) for pair in edges], "skeleton"
        self.train_data = datasets.get("train")

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The number of classes; of skeletons also what they are."""
        known = {"joints": "joints", "in_channels": "channels", "edges": "edges", "centre": "centre"}
        of_data = {name: value for name, own in known.items() if (value := told(self.train_data, own)) is not None}
        frames = {} if self.mode is None else {"in_channels": 1 if self.mode == "gray" else 3}
        return {**super().facts(recipe), **frames, **of_data}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one clip of each split through its transforms and the model."""
        for split, dataset in datasets.items():
            training = split == "train"
            loader: Any = self.loader(first_samples(dataset, 1), recipe, training=training, seed=0)
            loader.workers, loader.drop_last = 0, False
            batch = next(iter(loader), None)
            if batch is None:  # an unreadable first clip, with on_error=skip
                continue
            source = f"data.{split} after data.transforms.{'train' if training else 'eval'}"
            x, kind = self.inputs(batch), kind_of(batch)
            if isinstance(x, list) or x.dtype.kind != "f":
                what = f"{x.dtype} clips" if not isinstance(x, list) else "clips of which no frames are chosen"
                advice = "begin with pdl_cv.data.transforms.Segments or Stride, and end with EachFrame of Normalize"
                raise ConfigError(f"{source} gives {what}; {advice}")
            self.kind = kind
            self.check_logits(answer(self.scoring(model), x, source, recipe), recipe)

    def learned_config(self) -> dict[str, Any]:
        return {**super().learned_config(), "edges": self.edges}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, logistic regression and the nearest neighbour on one frame, and on all of them."""
        return baselines(self, recipe, datasets, split)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of class folders."""
        if self.kind == "skeleton":
            raise UsageError(
                "--data: skeletons are read by the data set of the recipe; set its root, data.test.root=PATH"
            )
        own = None if split_folder(path, split) is None else split
        return {"_target_": "pdl_cv.data.VideoFolder", "root": str(path), "split": own, "ratios": None,
                "mode": self.mode or "rgb", "classes": self.classes, "allow_empty": True}  # fmt: skip

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=64, test=16, epochs=6, batch_size=16)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> VideoDeployer:  # type: ignore[override]
        return VideoDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> VideoPreviewer:  # type: ignore[override]
        return VideoPreviewer(self, recipe)

    def reporter(self) -> VideoReporter:
        return VideoReporter(self)
