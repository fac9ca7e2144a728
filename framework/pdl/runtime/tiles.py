"""Large images looked at in overlapping tiles, so that small things on them stay large enough for a net."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pdl.dtype import Array
from pdl.errors import DataError, TimeLimitError, UsageError
from pdl.runtime import images
from pdl.runtime.pipeline import Answer, Pipeline
from pdl.runtime.steps.images import ImageInput

OVERLAP = 0.2  # of a tile's side with the next one, at least


def starts(length: int, side: int, overlap: float = OVERLAP) -> list[int]:
    """Where tiles of `side` pixels begin along an axis: spread evenly, the last one ends where the axis does."""
    if length <= side:
        return [0]
    step = max(1, int(side * (1 - overlap)))
    count = -(-(length - side) // step) + 1
    return [round(i * (length - side) / (count - 1)) for i in range(count)]


def answers(
    pipeline: Pipeline,
    items: Iterable[Any],
    run: Callable[[dict[str, Array]], Mapping[str, Array]],
    side: int,
    *,
    skip_errors: bool = False,
) -> list[Answer]:
    """As `Pipeline.answers`, for images: one with a longer side than `side` pixels is answered tile by tile, and as a
    whole, which shows what is larger than a tile; the step of its answer joins these. UsageError for other inputs."""
    source = pipeline.input
    if not isinstance(source, ImageInput):
        raise UsageError(f"--tiles is for images; this model takes a {source.takes}")
    found = []
    for item in items:
        try:
            image = images.read(item, source.mode)
        except DataError as error:
            if not skip_errors or isinstance(error, TimeLimitError):
                raise
            found.append(Answer(error=str(error)))
            continue
        found.append(_answer(pipeline, image, run, side))
    return found


def _answer(
    pipeline: Pipeline, image: Array, run: Callable[[dict[str, Array]], Mapping[str, Array]], side: int
) -> Answer:
    height, width = image.shape[:2]
    if max(height, width) <= side:
        return pipeline.answers([image], run)[0]
    places = [(0, 0), *((x, y) for y in starts(height, side) for x in starts(width, side))]
    tiles = [image, *(image[y : y + side, x : x + side] for x, y in places[1:])]
    size = pipeline.input.batch_size
    some = [each for i in range(0, len(tiles), size) for each in pipeline.answers(tiles[i : i + size], run)]
    return pipeline.joined(some, places, (height, width))
