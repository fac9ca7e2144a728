"""`Cascade`: a detector, and a second model that looks at each object found: people and their poses, faces and whether
they wear a mask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Predictor, answers, pipeline_of
from pdl.runtime.session import in_turns
from pdl.runtime.steps.arguments import count, number, texts
from pdl.runtime.steps.images import ImageInput
from pdl.runtime.steps.labels import Top
from pdl_cv.steps.crops import around, cut
from pdl_cv.steps.detections import Detections
from pdl_cv.steps.inspected import Inspected
from pdl_cv.steps.keypoints import Keypoints, shifted


class Cascade:
    """{"detections": [{"label", "class", "score", "box", ...}], "size"} of an image: a detector finds objects, and a
    second model is asked about the part of the image around each. A `pdl.runtime.predict.Predictor`.

    A classifier's label, class and score take the place of the detector's, which are kept as "found": {"label",
    "score"}; a keypoint net adds "keypoints", in pixels of the image.

    detect   finds objects: answers {"detections": [{"box", "label", "score"}]}
    each     is asked about every one: a classifier, or a net of the task `Keypoints`
    only     labels of the objects it is asked about; the others are left out. By default all
    margin   how many times larger than its box the part around an object is; by default what a keypoint net was taught
             (`Keypoints.margin`), and 1 for others
    most     objects it is asked about, best first
    """

    def __init__(
        self,
        detect: Predictor,
        each: Predictor,
        *,
        only: Sequence[str] | None = None,
        margin: Annotated[float, Range(1, 10)] | None = None,
        most: Annotated[int, Range(1)] = 100,
    ) -> None:
        self.detect, self.each = detect, each
        self.only, self.most = None if only is None else texts("only", only), count("most", most)
        if pipeline_of(detect).answering(Detections) is None:
            raise UsageError("Cascade: detect is no detector: it does not answer with detections")
        if all(pipeline_of(each).answering(kind) is None for kind in (Keypoints, Top)):
            raise UsageError("Cascade: each is neither a classifier nor a net of keypoints")
        step, self.aspect = pipeline_of(each).answering(Keypoints), _aspect(pipeline_of(each))
        taught = 1.0 if step is None else step.margin
        if taught is None and margin is None:
            raise UsageError(
                "Cascade: the keypoint net was taught whole images, not parts around boxes; give margin, such as 1.25"
            )
        in_turns(detect, each)
        self.margin = number("margin", taught if margin is None else margin, 1, 10)
        shown = Inspected() if step is None else Inspected(step.skeleton, step.score)
        self.pipeline = Pipeline({"image": [ImageInput("rgb")]}, {"detections": [shown]})

    def __call__(self, item: Any) -> dict[str, Any]:
        """The objects of one image: an array uint8 [H, W] or [H, W, 3] (RGB), a path, or the bytes of a file."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """The answers for several images, in order."""
        return [answer.plain() for answer in self.pipeline.answers(items, self.run)]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """The objects of each of several images uint8 [N, H, W, 3]."""
        return {"detections": [self._looked(image) for image in inputs["image"]]}

    def _looked(self, image: Array) -> dict[str, Any]:
        (answer,) = answers(self.detect, [image])
        found = [one for one in answer["detections"] if self.only is None or one["label"] in self.only][: self.most]
        windows = [around(one["box"], aspect=self.aspect, margin=self.margin) for one in found]
        said = answers(self.each, [cut(image, window) for window in windows])
        objects = [
            _joined(one, more, window.left, window.top) for one, more, window in zip(found, said, windows, strict=True)
        ]
        return {**answer, "detections": objects}


def _joined(one: Mapping[str, Any], more: Mapping[str, Any], left: int, top: int) -> dict[str, Any]:
    """An object with what the second model says of the part whose upper left pixel is (left, top)."""
    if "keypoints" in more:
        return {**one, "keypoints": shifted(more["keypoints"], left, top)}
    said = {name: more[name] for name in ("label", "class", "score")}
    return {**one, **said, "found": {"label": one["label"], "score": one["score"]}}


def _aspect(pipeline: Pipeline) -> float | None:
    """width / height of what a keypoint net takes, so that it sees more of the image and no filling; None of others."""
    if pipeline.answering(Keypoints) is None:
        return None
    sizes = [getattr(step, "size", None) for steps in pipeline.pre.values() for step in steps]
    height, width = next((size for size in sizes if isinstance(size, tuple)), (1, 1))
    return float(width / height)
