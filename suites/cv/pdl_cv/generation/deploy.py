"""What of a model that draws goes into a bundle."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdl.dims import Dim
from pdl.dtype import float32, int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.train.parts import Deployer

if TYPE_CHECKING:
    from pdl_cv.generation.task import Generation

TOLERANCE = 5e-3  # a picture is computed from itself again and again, so that rounding errors grow


class GenerationDeployer(Deployer):
    """Noise and the number of a class in, a picture out: all steps of a model, without what it is learned by."""

    task: Generation

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        shape, labels = list(model.noise_shape), self.task.classes if model.num_classes else []
        n = Dim.symbol("n", 3)
        return Deployment(
            module=model.sampler(),
            net=None if model.sampler() is model else model,
            inputs={"noise": Spec((n, *shape), float32), "class": Spec((n,), int64)},
            outputs=("image",),
            pre={"noise": [{"step": "noise", "shape": shape}], "class": [{"step": "asked"}]},
            post={"image": [{"step": "picture"}]},
            samples=[{"class": i % max(1, len(labels)), "number": i} for i in range(3)],
            labels=labels,
            tolerance=TOLERANCE,
            about={**self.recipe.identity(), "parameters": _count(model.sampler())},
        )

    def card(self, model: Module) -> Card:
        asked = f" of {len(self.task.classes)} classes" if self.task.classes else ""
        judged = f"{self.task.judge}, which has seen no drawn one" if self.task.judge else "means of 8 x 8 areas"
        return Card(
            title=f"{type(model).__name__}, pictures{asked}",
            summary=f"Draws pictures{asked} ({self.recipe.model.target}, {_count(model):,} parameters).",
            protocol=f"One picture is drawn for each {self.task.draw_every} of a split, of the same class. frechet: "
            f"Frechet distance between real and drawn pictures by the features of {judged}; called: share that it "
            "calls what was asked for; loss: that of training, where the model has one.",
            use="    session = pdl.runtime.load('model.pdl')\n"
            "    session({'class': 3, 'seed': 0, 'number': 7})['picture']    # uint8 [H, W, C]\n\n"
            "or `pdl predict model.pdl --class 3 -n 16 --save drawn`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        name = f"--class {shlex.quote(self.task.classes[0])} " if self.task.classes else ""
        return f"{name}-n 16 --save drawn"


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())
