"""Who looks at drawn pictures: a classifier that has learned from real ones alone, or sizes of areas where there is
none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdl.dtype import Array
from pdl.errors import ConfigError, listed
from pdl.export.from_hub import bundle_of
from pdl.runtime.bundle import read
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.session import Session
from pdl_cv.classification.baselines import averaged

BATCH = 128
SIDE = 8  # areas a side


class Pixels:
    """Features of pictures without a judge: the mean of each of 8 x 8 areas and channels, from 0 to 1."""

    calls = False
    """Whether it says of what class a picture is."""

    def __call__(self, pictures: Array) -> tuple[Array, Array]:
        """uint8 [N, H, W, C] -> features float32 [N, D]; and -1 [N] for classes, which it does not know."""
        small = averaged(pictures.astype(np.float64) / 255, SIDE)
        return small.reshape(len(pictures), -1).astype(np.float32), np.full(len(pictures), -1, np.int64)


class Judge:
    """A classification bundle, whose features are what its last layer reads.

    ConfigError where it is none, or knows other classes than `classes`, those that may be asked for (None: its own).
    """

    calls = True

    def __init__(self, word: str, classes: Sequence[str] | None = None) -> None:
        bundle = read(bundle_of(word))
        pipeline = Pipeline.of(bundle)
        if bundle.kind != "program" or pipeline is None or len(pipeline.inputs) != 1 or not bundle.labels:
            raise ConfigError(f"task.judge: {word} is no bundle that classifies images; pdl export makes one of a run")
        classes = list(bundle.labels) if classes is None else classes
        lacking = [name for name in classes if name not in bundle.labels]
        if lacking:
            raise ConfigError(f"task.judge: {word} does not know {listed(lacking, 5)}; its classes are "
                              f"{listed(list(bundle.labels), 12)}")  # fmt: skip
        program = bundle.build()
        last = program.outputs[0].node if program.outputs[0] is not None else None
        if last is None or len(last.inputs) < 2 or last.inputs[0] is None or len(last.inputs[0].spec.shape) != 2:
            raise ConfigError(f"task.judge: the last layer of {word} is not linear, so it has no features to compare")
        program.outputs = [program.outputs[0], last.inputs[0]]
        (self.port,) = pipeline.inputs
        self.pipeline = pipeline
        self.session = Session.of(program, inputs=bundle.program["inputs"], outputs=["logits", "features"])
        self.numbers = np.array([classes.index(name) if name in classes else -1 for name in bundle.labels], np.int64)

    def __call__(self, pictures: Array) -> tuple[Array, Array]:
        """uint8 [N, H, W, C] -> features float32 [N, D], and of which class each is: int64 [N], -1 of one that cannot
        be asked for."""
        features, called = [], []
        for begin in range(0, len(pictures), BATCH):
            prepared = np.stack([self.pipeline.prepare(each)[self.port] for each in pictures[begin : begin + BATCH]])
            made = self.session.run({self.port: prepared})
            features.append(made["features"])
            called.append(self.numbers[made["logits"].argmax(axis=1)])
        return np.concatenate(features), np.concatenate(called)
