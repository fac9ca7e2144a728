"""What of a net that hears goes into a bundle."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import pdl
from pdl import nn
from pdl.data import Dataset
from pdl.dims import Dim
from pdl.errors import UsageError, listed
from pdl.export.deployment import Deployment
from pdl.export.systems import Composed
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.runtime.predict import pipeline_of
from pdl.train.task import first_samples
from pdl_speech.audio import wav
from pdl_speech.data.recordings import rate_of
from pdl_speech.deploy import AudioDeployer, parameters
from pdl_speech.features import Given
from pdl_speech.models.speech_net import Chunks, SpeechNet
from pdl_speech.recognition.loader import sound_of
from pdl_speech.rescoring import ENCODED, TEXTS
from pdl_speech.steps.rescored import SHARE, share

if TYPE_CHECKING:
    from pdl_speech.recognition.task import SpeechRecognition


class Alone(nn.Module):
    """A net for sounds of one length, whose logits alone it gives."""

    def __init__(self, net: SpeechNet) -> None:
        self.net = net

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, T] -> logits [N, steps, num_classes]."""
        return self.net(x)[0]  # type: ignore[no-any-return]


class Listener(nn.Module):
    """The same with what the decoder reads."""

    def __init__(self, net: SpeechNet) -> None:
        self.net = net

    def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        """x [N, T] -> logits [N, steps, num_classes], and what was heard [N, steps, C]."""
        heard, _ = self.net.encoded(x)
        return self.net.classifier(heard), heard


def streamed(net: SpeechNet) -> Chunks | None:
    """A net chunk by chunk; None of one that reads whole sounds alone."""
    return None if net.chunk is None else Chunks(net)


class RecognitionDeployer(AudioDeployer):
    """Logits of the characters at each step of waveforms [N, T] of any length, or of features [N, frames, channels];
    softmax and greedy decoding follow, with the times of words."""

    task: SpeechRecognition
    forms: ClassVar[Mapping[str, str]] = {
        "rescoring": "the most probable texts are judged by the net's attention decoder (--attention W)"
    }

    def composed(self, model: Any, dataset: Any, values: Mapping[str, Sequence[str]]) -> Composed | None:
        if self.chosen != "rescoring":
            return None
        if model.decoder is None:
            raise UsageError(
                f"--form rescoring: {type(model).__name__} has no decoder; train one with it (model.decoder=2)"
            )
        alone = self.deployment(model, dataset)
        listener = replace(alone, module=Listener(model), outputs=("logits", ENCODED), stream=None)
        n, b, sizes = Dim.symbol("n", 3), Dim.symbol("b", 5), (Dim.symbol("s", 17), Dim.symbol("l", 9))
        heard = [listener.run(pipeline_of(alone).collate([alone.prepared(each)]))[ENCODED][0] for each in alone.samples]
        rng, dim = np.random.default_rng(0), heard[0].shape[1]
        judge = Deployment(
            module=model.decoder,
            inputs={ENCODED: Spec((n, sizes[0], dim), pdl.float32), TEXTS: Spec((n, b, sizes[1]), pdl.int64)},
            outputs=("logits",),
            pre={},
            post={},
            samples=[
                {ENCODED: each, TEXTS: rng.integers(1, len(self.task.characters) + 1, (3 + i, 5 + i))}
                for i, each in enumerate(heard)
            ],
            prepare=lambda sample: sample,  # type: ignore[no-any-return]
            tolerance=model.tolerance,
            about={"parameters": parameters(model.decoder)},
        )
        share_of = {} if not (given := values.get(SHARE.name)) else {"attention": share(given[-1])}
        return Composed(
            {"_target_": "pdl_speech.Rescorer", **share_of},
            {"listener": listener, "judge": judge},
            {"listener": {name: each for name, each in values.items() if name != SHARE.name}},
        )

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        post = {"logits": [{"step": "softmax"}, {"step": "ctc", "seconds": model.seconds}]}
        options: dict[str, Any] = {
            "outputs": ("logits",), "post": post, "labels": list(self.task.characters), "tolerance": model.tolerance
        }  # fmt: skip
        if not isinstance(model.features, Given):
            made = self.of_waves(model, dataset, **options)
            whole = len(made.pre["audio"]) == 1  # streams are read as they are
            return replace(made, module=Alone(model), net=model, stream=streamed(model) if whole else None)
        channels = model.features.given
        sounds = self.features(dataset, channels)
        return Deployment(
            module=Alone(model),
            net=model,
            inputs={"features": Spec((Dim.symbol("n", 3), Dim.symbol("t", len(sounds[0])), channels), pdl.float32)},
            pre={"features": [{"step": "frames", "channels": channels}]},
            samples=sounds,
            stream=streamed(model),
            about={**self.recipe.identity(), "parameters": parameters(model), "rate": model.rate},
            **options,
        )

    def features(self, dataset: Any, channels: int) -> list[np.ndarray]:
        """A few features of the data, float32 [frames, channels]; noise where there are none."""
        if not isinstance(dataset, Dataset):
            rng = np.random.default_rng(0)
            return [rng.standard_normal((frames, channels), np.float32) for frames in (120, 75, 203)]
        few = first_samples(dataset, min(self.samples, len(dataset)))
        return [few[i]["features"] for i in range(len(few))]

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first sound of the test data, as a file."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None or not isinstance(loader.dataset, Dataset):
            return "RECORDING"
        key, sound = sound_of(loader.dataset[0])
        path = folder / ("example.wav" if key == "audio" else "example.npy")
        if key == "audio":
            wav.write(path, sound, rate_of(loader.dataset))
        else:
            np.save(path, sound)
        return shlex.quote(str(path))

    def card(self, model: Any) -> Card:
        characters = list(self.task.characters)
        made = self.audio_card(
            f"{type(model).__name__}, {len(characters)} characters",
            f"Writes what is said ({self.size_of(model)}, {model.rate} Hz). Characters: {listed(characters, 99)}.",
            "One pass over each split, in float32, decoded greedily. WER: edits of words by words said; substitutions, "
            "deletions, insertions: its parts; cer: edits by characters; accuracy: the share of texts heard exactly.",
        )
        if isinstance(model.features, Given):
            use = (
                "    session = pdl.runtime.load('model.pdl')\n"
                "    session(features)          # float32 [frames, channels], or a *.npy file\n\n"
                "or `pdl predict model.pdl features.npy`."
            )
            return replace(made, use=use)
        return made
