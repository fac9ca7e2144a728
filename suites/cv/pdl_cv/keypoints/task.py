"""The keypoints task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.data.pipeline import prepares
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.classes import agreed
from pdl.train.images import answer, first_images
from pdl.train.metrics import Shown
from pdl_cv.data.detection import annotated_at
from pdl_cv.detection.check import check_recipe
from pdl_cv.detection.smoke import smoke_test
from pdl_cv.keypoints.baselines import baselines
from pdl_cv.keypoints.deploy import KeypointDeployer
from pdl_cv.keypoints.flips import Flipped
from pdl_cv.keypoints.loader import Instances, annotation_of, described, keypoint_loader, spans
from pdl_cv.keypoints.losses import heatmap_loss
from pdl_cv.keypoints.metrics import PCK, CutOutAP, Misses, PointShares
from pdl_cv.keypoints.preview import KeypointPreviewer
from pdl_cv.keypoints.report import KeypointReporter
from pdl_cv.steps.keypoints import peaks

Pairs = Sequence[Sequence[Annotated[int, Range(0)]]]


class Keypoints(Task):
    """Named points of each object, such as the joints of a person, by heatmaps of the part of an image around it
    (top-down; Xiao et al., arXiv 1804.06208). Models give heatmaps [N, h, w, num_keypoints] of images [N, H, W, 3].

    names       of the points; by default the data set's
    flip_pairs  points (from 0) that change places when the image is mirrored; by default the data set's
    skeleton    points that lines join in drawings; by default the data set's
    whole       learn from whole images, each of one object, and not from what is around boxes; by default so where
                nobody drew boxes: all are the spans of points
    margin      how many times larger than its box the part around an object is, before it gets the proportions of the
                net's input
    oks_sigmas  of each point, for COCO's average precision: how far annotators disagree on it, as a share of the root
                of an object's area; by default COCO's of 17 points, 0.067 for each of any other number
    misses      how many of the worst misses the report draws
    sigma       of the Gaussians that heatmaps are taught, in their cells
    refine      how points between the cells are found: none, quarter (of a cell to the higher neighbour) or dark (arXiv
                1910.06278)
    flip_test   average each image's heatmaps with those of its mirror image, in evaluation, answers and bundles; twice
                the time
    score       from which on points are drawn
    reference   two points whose distance is the size of an object, of which PCK allows a share; by default the torso
                (left shoulder to right hip, where points are called so), else "box": the longer side of the points'
                span

    Samples are {"image": [H, W, 3], "boxes": float32 [n, 4], "keypoints": float32 [n, P, 3]} (x, y, visibility, 0 of
    points that are not known).
    """

    monitor = "val/pck@0.2"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        names: Sequence[str] | None = None,
        flip_pairs: Pairs | None = None,
        skeleton: Pairs | None = None,
        whole: bool | None = None,
        margin: Annotated[float, Range(1, 10)] = 1.25,
        sigma: Annotated[float, Range(above=0)] = 2.0,
        refine: Literal["none", "quarter", "dark"] = "dark",
        flip_test: bool = False,
        score: Annotated[float, Range(0, 1)] = 0.2,
        reference: Sequence[str] | Literal["box"] | None = None,
        oks_sigmas: Sequence[Annotated[float, Range(above=0)]] | None = None,
        misses: Annotated[int, Range(0)] = 12,
    ) -> None:
        self.names, self.flip_pairs, self.skeleton = list(names or ()), flip_pairs, skeleton
        self.whole, self.margin, self.sigma = whole, margin, sigma
        self.refine, self.flip_test, self.score = refine, flip_test, score
        self.reference, self.oks_sigmas, self.misses = reference, oks_sigmas, misses

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        images = pdl.as_tensor(batch["image"])
        return Loss(self._loss(model(images), images, batch), len(batch["image"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        images = pdl.as_tensor(batch["image"])
        heatmaps = self.flipping(model)(images)
        return Loss(self._loss(heatmaps, images, batch), len(batch["image"]), (heatmaps,))

    def _loss(self, heatmaps: pdl.Tensor, images: pdl.Tensor, batch: Any) -> pdl.Tensor:
        stride = images.shape[1] / heatmaps.shape[1]
        return heatmap_loss(heatmaps, pdl.as_tensor(batch["keypoints"]), stride=stride, sigma=self.sigma)

    def flipping(self, model: Module) -> Module:
        """The model, with its mirror image if that is wanted; a bundle has its own."""
        wanted = self.flip_test and not isinstance(model, Deployed)
        return Flipped(model, self.flip_pairs or (), len(self.names)) if wanted else model

    def metrics(self) -> dict[str, Metric]:
        length: Any = self.reference if isinstance(self.reference, str) else tuple(self.reference or torso(self.names))
        made = {f"pck@{share}": PCK(self.names, threshold=share, reference=length or "box") for share in (0.2, 0.1)}
        precision = Shown.all(CutOutAP(sigmas=self.oks_sigmas))
        return {**made, **precision, "points": PointShares(made["pck@0.2"]), "misses": Misses(self.misses)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        (heatmaps,) = loss.outputs
        found = self.found(np.asarray(heatmaps.numpy() if hasattr(heatmaps, "numpy") else heatmaps), batch)
        truth = np.stack([original["keypoints"] for original in batch["original"]])
        for metric in metrics.values():
            if isinstance(metric, CutOutAP):
                metric.update(found, batch["original"])
            else:
                metric.update(found, truth, *([np.asarray(batch["index"])] if isinstance(metric, Misses) else []))

    def found(self, heatmaps: np.ndarray, batch: Any) -> np.ndarray:
        """float64 [N, P, 3] of an evaluated batch: x and y in the images of its objects, and the scores."""
        height, width = batch["image"].shape[1:3]
        points = peaks(heatmaps, refine=self.refine, sigma=self.sigma)
        points[..., 0] *= width / heatmaps.shape[2]
        points[..., 1] *= height / heatmaps.shape[1]
        for each, back in zip(points, batch["back"], strict=True):
            each[:, :2] = each[:, :2] @ back[:, :2].T + back[:, 2]
        return points

    # -- building ------------------------------------------------------------------------------------------------------
    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        instances = self.instances(dataset, recipe)
        return keypoint_loader(instances, recipe.data, training=training, seed=seed)

    def instances(self, dataset: Any, recipe: Recipe) -> Instances:
        """The objects of a data set, cut out with the proportions of the net's input."""
        image = prepares(recipe.data.transforms(training=False))(np.zeros((64, 64, 3), np.uint8))["image"]
        made = Instances(dataset, aspect=image.shape[1] / image.shape[0], margin=None if self.whole else self.margin)
        made.flip_pairs = np.asarray(self.flip_pairs or (), np.int64).reshape(-1, 2)
        return made

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on names, on which points are left and right of each other, and on what is cut out."""
        for split, dataset in datasets.items():
            names = [str(name) for name in described(dataset, "keypoint_names")]
            self.names = agreed(self.names, names, split=split, what="points") or _numbered(dataset)
            if self.flip_pairs is None:
                self.flip_pairs = [[int(a), int(b)] for a, b in described(dataset, "flip_pairs")]
            if self.skeleton is None:
                self.skeleton = [[int(a), int(b)] for a, b in described(dataset, "skeleton")]
            if self.whole is None:
                self.whole = spans(dataset)
        if self.oks_sigmas is not None and len(self.oks_sigmas) != len(self.names):
            raise ConfigError(
                f"task.oks_sigmas: {len(self.oks_sigmas)} numbers, but the data has {len(self.names)} points "
                f"({listed(self.names)}); give one for each"
            )

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_keypoints": len(self.names)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one object of each split through its transforms and the model."""
        for images, source in first_images(self, datasets, recipe):
            shape = answer(model, images, source, recipe).shape
            if len(shape) != 4 or shape[-1] != len(self.names):
                raise ConfigError(
                    f"model: {recipe.model.target} gives outputs of shape {shape}, but the data has {len(self.names)} "
                    f"points ({listed(self.names)}); set model.num_keypoints={len(self.names)}, or leave it out"
                )

    def learned_config(self) -> dict[str, Any]:
        pairs = {name: [list(pair) for pair in getattr(self, name) or ()] for name in ("flip_pairs", "skeleton")}
        return {"names": self.names, **pairs, "whole": self.whole}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return smoke_test(recipe, batch_size=8, epochs=3)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder, or a file of annotations, in any format with keypoints of `pdl_cv.data.DetectionFolder`."""
        return {**annotated_at(path, split, keypoints=True), "keypoints": True}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The mean pose."""
        train, test = (self.instances(datasets[each], recipe) for each in ("train", split))
        return baselines(
            train, test, lambda: {name: each for name, each in self.metrics().items() if isinstance(each, PCK)}
        )

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def previewer(self, recipe: Recipe) -> KeypointPreviewer:
        return KeypointPreviewer(self, recipe)

    def reporter(self) -> KeypointReporter:
        return KeypointReporter(self)

    def deployer(self, recipe: Recipe) -> KeypointDeployer:
        return KeypointDeployer(self, recipe)


def _numbered(dataset: Any) -> list[str]:
    return [str(i) for i in range(annotation_of(dataset, 0)["keypoints"].shape[1])]


def torso(names: Sequence[str]) -> tuple[str, ...]:
    """The names of the left shoulder and the right hip, however they are written (left_shoulder, lshoulder,
    shoulder_l); () where there are none."""
    plain = {"".join(c for c in name.lower() if c.isalnum()): name for name in names}
    found = []
    for side, part in (("left", "shoulder"), ("right", "hip")):
        words = (f"{side}{part}", f"{side[0]}{part}", f"{part}{side}", f"{part}{side[0]}")
        found += [plain[word] for word in words if word in plain][:1]
    return tuple(found) if len(found) == 2 else ()
