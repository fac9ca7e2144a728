"""What nets say as sounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, ClassVar

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.runtime.drawing import Drawing
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count, number, one_of, text
from pdl.runtime.steps.base import Resources
from pdl.runtime.steps.inputs import Flag, InputStep
from pdl.runtime.steps.outputs import Form, PostStep
from pdl_speech.audio import wav
from pdl_speech.audio.griffin_lim import ITERATIONS, MOMENTUM, MelVocoder
from pdl_speech.spectra import picture
from pdl_speech.steps.text import FLAGS


class GriffinLimStep(PostStep):
    """{"audio": float32 [T], "rate", "seconds"} of ln mel energies [frames, bands], of which another output says how
    many there are; see `pdl_speech.audio.MelVocoder`. The filters [bins, bands] and the window [n_fft] are the
    constants `filters` and `window`.

    rate        samples a second
    hop         samples from one frame to the next
    power       of the moduli that the energies are of
    iterations  turns between phases and waveform
    momentum    from 0 to 1
    frames      the name of that output
    """

    name = "griffin_lim"
    unprinted: ClassVar[Sequence[str]] = ("audio",)

    def __init__(
        self,
        rate: int,
        hop: int,
        power: int = 2,
        iterations: int = ITERATIONS,
        momentum: float = MOMENTUM,
        frames: str = "frames",
    ) -> None:
        self.rate, self.hop = count("rate", rate, most=384_000), count("hop", hop)
        self.power, self.iterations = one_of("power", power, (1, 2)), count("iterations", iterations, most=10_000)
        self.momentum, self.beside = number("momentum", momentum, 0, 1), (text("frames", frames),)

    def bind(self, resources: Resources) -> None:
        super().bind(resources)
        filters, window = (resources.constants.get(name) for name in ("filters", "window"))
        if filters is None or window is None or filters.ndim != 2 or window.shape != (2 * len(filters) - 2,):
            raise UsageError("griffin_lim needs the constants filters [bins, bands] and window [2 bins - 2]")
        if self.hop > len(window):
            raise UsageError(f"griffin_lim: hop {self.hop} must not be above the {len(window)} samples of a frame")
        self.vocoder = MelVocoder(filters, window, self.hop, self.power, self.iterations, self.momentum)

    def __call__(self, value: Any, sample: Sample) -> Any:
        frames = int(sample.outputs[self.beside[0]])
        if value.ndim != 2 or value.shape[1] != self.vocoder.unmel.filters.shape[1]:
            raise UsageError(f"griffin_lim: expected energies [frames, bands], got {value.shape}")
        if frames > len(value):
            raise DataError(
                f"it would be said in {frames * self.hop / self.rate:.1f} s, for which there is no room: "
                "give shorter sentences, or speak faster (--speed)"
            )
        wave = self.vocoder(value[:frames])
        return {"audio": wave, "rate": self.rate, "seconds": round(len(wave) / self.rate, 3)}

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """As long: phases are found in many steps, and spectra have been compared."""
        return bool(ours["audio"].shape == theirs["audio"].shape)

    def rows(self, answer: Any) -> list[dict[str, Any]]:
        return [{name: value for name, value in answer.items() if name != "audio"}]

    @property
    def flags(self) -> Sequence[Flag]:
        return FLAGS

    @property
    def forms(self) -> Sequence[Form]:
        return (Form("wav", ".wav", "recordings", Recording),)

    def draw(self, item: Any, answer: Any, source: InputStep) -> Drawing:
        """The spectrogram, and the waveform's envelope."""
        if not len(answer["audio"]):
            raise UsageError("nothing is said, which cannot be drawn")
        said = item if isinstance(item, str) else str(item.get("text", "")) if isinstance(item, Mapping) else str(item)
        return Drawing(image=picture(np.asarray(answer["audio"]), self.rate), caption=said, any_script=True)


class Recording:
    """A WAV file of 16 bits that is being written (`pdl.runtime.steps.outputs.Pages`)."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file

    def add(self, prediction: Any) -> None:
        """What is said."""
        answer = prediction.answer.value
        self.file.write(wav.encoded(answer["audio"], answer["rate"]))

    def close(self) -> None:
        """Nothing follows it."""
