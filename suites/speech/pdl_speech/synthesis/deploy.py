"""What of a net that speaks goes into a bundle."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.data import Dataset
from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.train.parts import Deployer
from pdl_speech.audio.griffin_lim import ITERATIONS, MOMENTUM
from pdl_speech.deploy import parameters
from pdl_speech.features import LogMel
from pdl_speech.recognition.loader import texts_of

if TYPE_CHECKING:
    from pdl_speech.synthesis.task import SpeechSynthesis

SAMPLES = 4  # texts that a bundle is checked with
TOLERANCE = 1e-4
LONG = 200  # characters of these, at most


class SynthesisDeployer(Deployer):
    """Mel energies of texts [N, U] of any length, with room for a number of frames that the text decides; waveforms
    follow."""

    task: SpeechSynthesis

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        front: LogMel = model.features
        n, lower = Dim.symbol("n", 3), self.task.lower
        pace = max(0.1, round(float(model.voice.numpy()[4]), 3))
        spoken = {"rate": front.rate, "hop": front.hop_length, "power": front.power, "iterations": ITERATIONS}
        return Deployment(
            module=model,
            inputs={
                "texts": Spec((n, Dim.symbol("u", 23)), pdl.int64),
                "manner": Spec((n, 2), pdl.float32),
                "places": Spec((n, Dim.symbol("t", 160)), pdl.int64),
            },
            outputs=("mel", "frames"),
            pre={
                "texts": [{"step": "spoken_text", "lower": lower}],
                "manner": [{"step": "manner", "lower": lower}],
                "places": [{"step": "frame_room", "pace": pace, "lower": lower}],
            },
            post={"mel": [{"step": "griffin_lim", **spoken, "momentum": MOMENTUM}]},
            samples=self.texts(dataset),
            labels=list(self.task.characters),
            constants=constants(front),
            tolerance=TOLERANCE,
            about={**self.recipe.identity(), "parameters": parameters(model), "rate": front.rate},
        )

    def texts(self, dataset: Any) -> list[str]:
        """A few texts of the data; made-up ones where there are none."""
        if isinstance(dataset, Dataset):
            said = [text for text in texts_of(dataset) if 0 < len(self.task.clean(text)) <= LONG]
            known = [text for text in said if len(self.task.encode(text))]
            if known:
                return known[:: max(1, len(known) // SAMPLES)][:SAMPLES]
        letters = [c for c in self.task.characters if c.isalnum()]
        rng = np.random.default_rng(0)
        return ["".join(rng.choice(letters, length)) for length in (2, 7, 19)]

    def card(self, model: Any) -> Card:
        characters = [c for c in self.task.characters if c != " "]
        hop = 1000 * model.features.hop_length / model.rate
        return Card(
            title=f"{type(model).__name__}, {model.rate} Hz",
            summary=f"Says texts ({self.recipe.model.target}, {parameters(model):,} parameters, a frame every {hop:g} "
            f"ms), in the voice it was trained on. Characters: {listed(characters, 99)}. Voices are not to be made of "
            "people who have not agreed to it, and what is made is not to pass for a recording.",
            protocol="Texts are said from the texts alone. mel_l1: mean |difference| of ln mel energies from the "
            "recording's, along the path of dynamic time warping; mcd: mel-cepstral distortion in dB of the sound, 13 "
            "coefficients of its mel bands, along such a path; copy_mcd: mcd of sounds of the recordings' own mel "
            "energies, the bound of this vocoder; duration: mean difference of lengths by the recordings'; loss: what "
            "training minimises.",
            use="    session = pdl.runtime.load('model.pdl')\n"
            "    answer = session('hello')          # {'audio': float32 [T], 'rate': Hz, 'seconds': s}\n\n"
            "or `pdl predict model.pdl hello --save hello.wav`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first text of the test data."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None or not isinstance(loader.dataset, Dataset):
            return "TEXT"
        return f"{shlex.quote(texts_of(loader.dataset)[0])} --save said.wav"


def constants(front: LogMel) -> dict[str, Array]:
    """What a vocoder needs of a front end: its filters [bins, bands], and its window as frames have it, [n_fft]."""
    size, n_fft = front.win_length, front.n_fft
    before = (n_fft - size) // 2
    window = np.pad(front.window.numpy(), (before, n_fft - size - before))
    return {"filters": np.array(front.filters.numpy(), np.float32), "window": window.astype(np.float32)}
