"""Frames of video files and cameras, one at a time, through OpenCV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.runtime.images import opencv

EXTENSIONS = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm")
RATE = 25.0  # frames a second of what does not tell
CAMERA = "camera"


@dataclass(frozen=True)
class Film:
    """What frames come from, and how many a second."""

    name: str
    rate: float


def is_video(name: str) -> bool:
    """Whether it names a camera ("camera", "camera:1") or a file whose name ends as those of videos do."""
    return camera(name) is not None or name.lower().endswith(EXTENSIONS)


def camera(name: str) -> int | None:
    """The number of the camera that it names; None where it names none."""
    word, _, number = name.partition(":")
    if word != CAMERA or not (number.isdigit() or name == CAMERA):
        return None
    return int(number or 0)


def frames(name: str) -> Iterator[tuple[Film, int, Array]]:
    """(film, number, image uint8 [H, W, 3] RGB) of each frame. DataError for what cannot be opened, or has none."""
    source: Any = camera(name)
    if source is None:
        source = str(Path(name).expanduser())
        if not Path(source).is_file():
            raise DataError(f"{name}: no such file")
    cv2 = opencv("videos are read")
    capture = cv2.VideoCapture(source)
    try:
        if not capture.isOpened():
            raise DataError(f"{name}: cannot be opened as {'a camera' if isinstance(source, int) else 'a video'}")
        rate = float(capture.get(cv2.CAP_PROP_FPS))
        film, number = Film(name, rate if np.isfinite(rate) and 0 < rate <= 1000 else RATE), 0
        while True:
            there, image = capture.read()
            if not there:
                break
            yield film, number, cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
            number += 1
        if number == 0:
            raise DataError(f"{name}: holds no frame that can be decoded")
    finally:
        capture.release()


class VideoWriter:
    """Writes images uint8 [H, W, 3] RGB of one size as an MP4 video, frame by frame."""

    def __init__(self, path: Path, rate: float) -> None:
        self.path, self.rate = path, rate
        self._writer: Any = None

    def write(self, image: Array) -> None:
        """The next frame; DataError where the video cannot be written."""
        cv2 = opencv("videos are written")
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            size = image.shape[1], image.shape[0]
            self._writer = cv2.VideoWriter(str(self.path), cv2.VideoWriter_fourcc(*"mp4v"), self.rate, size)
            if not self._writer.isOpened():
                raise DataError(f"{self.path}: the video cannot be written")
        self._writer.write(cv2.cvtColor(image, cv2.COLOR_RGB2BGR))

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.release()
