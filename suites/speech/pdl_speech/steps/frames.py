"""Features of sounds as inputs of nets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime.arrays import read_array
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import count
from pdl.runtime.steps.inputs import Feeder, Input, InputStep
from pdl.runtime.steps.paths import files_of


class Frames(InputStep):
    """Features of a sound -> float32 [frames, channels]: an array, or a *.npy file of one. On the command line also a
    folder or a pattern."""

    name = "frames"
    takes, metavar = "features", "FILE.npy"
    about = "features [frames, channels] of a sound in a *.npy file, a folder, or a pattern"

    def __init__(self, channels: int) -> None:
        self.channels = count("channels", channels, most=1 << 20)

    def parse(self, item: Any, sample: Sample) -> Array:
        if isinstance(item, str | Path):
            try:
                item = read_array(Path(item))
            except (OSError, ValueError) as error:
                raise DataError(f"{item}: not an array that can be read ({error}); write one with numpy.save") from None
        made = np.asarray(item)
        if made.ndim != 2 or made.shape[1] != self.channels or not len(made) or made.dtype.kind not in "fiu":
            raise DataError(
                f"features {made.dtype} {made.shape} must be numbers [frames, {self.channels}], one frame at least"
            )
        if not np.isfinite(made).all():
            raise DataError(f"features {made.shape} must be finite numbers")
        return made.astype(np.float32)

    def title(self, item: Any) -> str:
        return str(item) if isinstance(item, str | Path) else "features"

    def expand(self, given: Any, number: int) -> Iterator[Input]:
        if isinstance(given, str | Path):
            yield from (Input(str(path), path) for path in files_of(str(given), (".npy",), "features"))
        else:
            yield Input(f"features {number}", given)

    @property
    def flags(self) -> tuple[Any, ...]:
        return ()

    def from_word(self, word: str) -> Any:
        return word

    def feeder(self, **options: Any) -> Feeder:
        if options:
            raise UsageError(f"a stream of features has no {', '.join(options)}")
        return Rows(self)

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Noise of two lengths."""
        return [rng.standard_normal((frames, self.channels), np.float32) for frames in (100, 170)]


class Rows:
    """Pieces of features, as they are (`pdl.runtime.steps.inputs.Feeder`)."""

    def __init__(self, step: Frames) -> None:
        self.step = step

    def feed(self, piece: Any) -> Array:
        """The next frames [n, channels]."""
        made = np.asarray(piece)
        return self.step.parse(made, Sample()) if made.size else np.zeros((0, self.step.channels), np.float32)

    def flush(self) -> Array:
        """Nothing is left."""
        return np.zeros((0, self.step.channels), np.float32)
