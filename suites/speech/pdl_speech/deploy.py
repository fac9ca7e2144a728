"""What tasks share whose nets take waveforms: a deployer that prepares recordings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pdl.data import Dataset
from pdl.data.pipeline import Pipeline, deployed_steps
from pdl.data.randomness import BatchRandom
from pdl.dims import Dim
from pdl.dtype import as_dtype
from pdl.export.deployment import TOLERANCE, Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.train.parts import Deployer
from pdl.train.task import first_samples
from pdl_speech.audio import wav
from pdl_speech.data.recordings import rate_of


class AudioDeployer(Deployer):
    """Waveforms [N, T], prepared as for evaluation; a subclass says what answers. T is fixed where the transforms of
    evaluation fix it."""

    samples: ClassVar[int] = 4
    """How many recordings a bundle is checked with."""

    def of_waves(
        self,
        model: Any,
        dataset: Any,
        *,
        outputs: tuple[str, ...],
        post: Mapping[str, list[dict[str, Any]]],
        labels: list[str],
        tolerance: float = TOLERANCE,
        **about: Any,
    ) -> Deployment:
        """The deployment of a net that takes waveforms; `about` are further plain facts for people."""
        transforms = self.recipe.data.transforms(training=False)
        steps = deployed_steps(transforms)
        waves, pipeline = self.waves(dataset, model.rate), Pipeline(transforms)

        def prepare(wave: Any) -> dict[str, Any]:
            done = pipeline.run([{"audio": wave, "index": 0}], BatchRandom(0, 0, np.arange(1)))
            made = done["audio"][0] if isinstance(done, dict) else done[0]["audio"]
            return {"audio": np.ascontiguousarray(made, np.float32)}

        first = prepare(waves[0])["audio"]
        fixed = any(step["step"] == "pad_or_crop" for step in steps)
        length = len(first) if fixed else Dim.symbol("t", len(first))
        return Deployment(
            module=model,
            inputs={"audio": Spec((Dim.symbol("n", 3), length), as_dtype(first.dtype))},
            outputs=outputs,
            pre={"audio": [{"step": "waveform", "rate": model.rate}, *steps]},
            post=dict(post),
            samples=waves,
            prepare=prepare,
            labels=labels,
            tolerance=tolerance,
            about={**self.recipe.identity(), "parameters": parameters(model), "rate": model.rate, **about},
        )

    def waves(self, dataset: Any, rate: int) -> list[np.ndarray]:
        """A few waveforms of the data, float32 [T]; noise where there are none."""
        few = first_samples(dataset, min(self.samples, len(dataset))) if isinstance(dataset, Dataset) else dataset
        found = [sample["audio"] for sample in islice(iter(() if few is None else few), self.samples)]
        rng = np.random.default_rng(0)
        return found or [rng.standard_normal(int(rate * s), np.float32) * 0.1 for s in (1.0, 0.7, 1.6)]

    def audio_card(self, title: str, summary: str, protocol: str) -> Card:
        """The card of a model that answers about recordings."""
        return Card(
            title=title,
            summary=summary,
            protocol=protocol,
            use="    session = pdl.runtime.load('model.pdl')\n"
            "    session('recording.wav')          # a path, the bytes of a file, or (float [T], its rate)\n\n"
            "or `pdl predict model.pdl recording.wav`.",
            data=self.learned_from,
        )

    def size_of(self, model: Module) -> str:
        """The class of the model and its parameters, in words."""
        return f"{self.recipe.model.target}, {parameters(model):,} parameters"

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first recording of the test data, as a file."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None or not isinstance(loader.dataset, Dataset):
            return "RECORDING"
        path = folder / "example.wav"
        wav.write(path, loader.dataset[0]["audio"], rate_of(loader.dataset))
        return shlex.quote(str(path))


def parameters(model: Module) -> int:
    """How many a net has."""
    return sum(p.size for p in model.parameters())
