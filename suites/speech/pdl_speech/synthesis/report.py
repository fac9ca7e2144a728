"""What the report says of a net that speaks: what it says beside recordings, to be seen and heard."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.dtype import Array
from pdl.report import Section, image_table, table
from pdl.train import Evaluation, Reporter
from pdl_speech.audio import wav
from pdl_speech.spectra import of_features
from pdl_speech.synthesis.metrics import Compared, Examples, Said

if TYPE_CHECKING:
    from pdl_speech.synthesis.task import SpeechSynthesis

BOUNDS = (10, 20, 40, 80)  # characters of texts that are counted together, up to which
LINE = (255, 255, 255)


class SynthesisReporter(Reporter):
    """Texts by length, and a few of them: spectra of the net and of the recording, with the characters of the latter,
    and both sounds."""

    task: SpeechSynthesis

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        found: Examples = evaluation.details["said"]
        head = ("characters", "texts", *Compared._fields)
        made = [Section(f"Texts by characters ({evaluation.split})", table(_by_characters(found), head=head))]
        if found.said and isinstance(dataset, Dataset):
            rows = [self._row(each, dataset) for each in found.said]
            text = (
                "ln mel energies, low bands below. Lines part the characters of the recording, as the net aligns them."
            )
            pictures = image_table(rows, head=("said", "recording"))
            sounds = "".join(self._heard(each, dataset) for each in found.said)
            made.append(Section("Examples", f"<p>{text}</p>{pictures}"))
            made.append(
                Section("Sounds", f"<table><tr><th>text</th><th>said</th><th>recording</th></tr>{sounds}</table>")
            )
        return made

    def _row(self, each: Said, dataset: Dataset) -> list[tuple[Array, str]]:
        low, high = float(each.heard.min()), float(each.heard.max())
        made, heard = (_drawn(mel, low, high) for mel in (each.made, each.heard))
        if each.durations is not None:
            heard = _parted(heard, each.durations)
        return [(made, each.text), (heard, sample_name(dataset, each.number))]

    def _heard(self, each: Said, dataset: Dataset) -> str:
        rate, real = self.task.front.rate, dataset[each.number]["audio"]
        return f"<tr><td>{escape(each.text)}</td><td>{player(each.sound, rate)}</td><td>{player(real, rate)}</td></tr>"


def _by_characters(found: Examples) -> list[tuple[Any, ...]]:
    groups = np.searchsorted(BOUNDS, [len(text) for _, text, _ in found.rows])
    made = []
    for k in range(len(BOUNDS) + 1):
        own = [row for (_, _, row), group in zip(found.rows, groups, strict=True) if group == k]
        low = 1 if k == 0 else BOUNDS[k - 1] + 1
        name = f"{low} to {BOUNDS[k]}" if k < len(BOUNDS) else f"{low} and more"
        means = (float(np.mean([getattr(row, each) for row in own])) for each in Compared._fields)
        made += [(name, len(own), *means)] if own else []
    return made


def _drawn(mel: Array, low: float, high: float) -> Array:
    """Energies [frames, bands] as an image; colours as of energies from `low` to `high`."""
    if not len(mel):
        return np.full((96, 16, 3), 255, np.uint8)
    ends = np.stack([np.full(mel.shape[1], low, mel.dtype), np.full(mel.shape[1], high, mel.dtype)])
    image = of_features(np.concatenate([ends, np.clip(mel, low, high)]), most=len(mel) + 2)
    return image[:, 2:]


def _parted(image: Array, durations: Array) -> Array:
    """An image [H, frames, 3] with a line where a character ends."""
    made, ends = image.copy(), np.cumsum(durations)[:-1]
    made[::2, ends[ends < image.shape[1]]] = LINE
    return made


def player(sound: Array, rate: int) -> str:
    """HTML that plays a sound [T]."""
    data = base64.b64encode(wav.encoded(np.clip(sound, -1, 1), rate)).decode()
    return f'<audio controls preload="none" src="data:audio/wav;base64,{data}"></audio>'
