"""From inputs as people give them to predictions, and to pictures with the answer written on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import pdl
from pdl.data.faults import DataFault
from pdl.data.image import REPAIR, Mode, change_mode, decode_image, read_image
from pdl.data.pipeline import Pipeline
from pdl.data.randomness import BatchRandom
from pdl.errors import UsageError
from pdl.nn import Module
from pdl.report.answers import caption, save
from pdl.runtime.use import expand
from pdl.tensor import no_grad
from pdl_cv.classification.metric import log_softmax

Named = tuple[str, np.ndarray]


def predict(
    model: Module,
    inputs: Sequence[Any],
    transforms: Sequence[Any],
    classes: Sequence[str],
    *,
    mode: Mode,
    topk: int,
    batch_size: int,
) -> Iterator[dict[str, Any]]:
    """One dict for each picture, in order."""
    if topk < 1 or batch_size < 1:
        raise UsageError(f"topk={topk} and batch_size={batch_size} must be at least 1")
    pipeline = Pipeline(transforms)
    images = pictures(inputs, mode)
    while group := list(islice(images, batch_size)):
        for (name, image), row in zip(group, scores(model, pipeline, [image for _, image in group]), strict=True):
            order = np.argsort(-row, kind="stable")[:topk]
            top = [{"label": classes[i], "class": int(i), "score": float(row[i])} for i in order]
            yield {"input": name, **top[0], "top": top, "_image": image}


def scores(model: Module, pipeline: Pipeline, images: Sequence[np.ndarray]) -> np.ndarray:
    """Probabilities float64 [N, classes]. Pictures that the transforms leave at different sizes go through the model
    one by one."""
    samples = [{"image": image, "index": i} for i, image in enumerate(images)]
    done = pipeline.run(samples, BatchRandom(0, 0, np.arange(len(samples))))
    batches = [done["image"]] if isinstance(done, dict) else _stacks([sample["image"] for sample in done])
    with no_grad():
        logits = [model(pdl.as_tensor(batch)).data for batch in batches]
    return np.exp(log_softmax(np.concatenate(logits)))


def _stacks(images: list[np.ndarray]) -> list[np.ndarray]:
    return [np.stack(images)] if len({image.shape for image in images}) == 1 else [image[None] for image in images]


def pictures(inputs: Sequence[Any], mode: Mode) -> Iterator[Named]:
    """(name, uint8 [H, W, C]) for every picture that the inputs mean."""
    if not len(inputs):
        raise UsageError("predict: no input; name a picture, a folder, a pattern, or - for standard input")
    for number, item in enumerate(inputs):
        if isinstance(item, np.ndarray):
            yield f"array {number}", _from_array(item, mode)
        elif isinstance(item, bytes):
            with _input_advice():
                image = decode_image(item, mode=mode)
            yield f"bytes {number}", image
        elif str(item) == "-":
            with _input_advice():
                image = decode_image(sys.stdin.buffer.read(), mode=mode, path="standard input")
            yield "-", image
        else:
            for path in expand(str(item)):
                with _input_advice():
                    image = read_image(path, mode=mode)
                yield str(path), image


@contextmanager
def _input_advice() -> Iterator[None]:
    """A data set may leave a damaged picture out (on_error='skip'); whoever asks for a prediction cannot."""
    try:
        yield
    except DataFault as error:
        if error.fault.advice != REPAIR:
            raise
        raise DataFault(replace(error.fault, advice="give a whole picture")) from error


def _from_array(array: np.ndarray, mode: Mode) -> np.ndarray:
    image = array[..., None] if array.ndim == 2 else array
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] not in (1, 3):
        raise UsageError(
            f"predict: an array of {array.dtype} {array.shape}; expected uint8 [H, W], [H, W, 1] or [H, W, 3] (RGB)"
        )
    return change_mode(image, mode)


def render(prediction: dict[str, Any], folder: Path) -> Path:
    """The picture, at least 256 wide, with the answer below it; saved as PNG under a name that is free."""
    stem = Path(prediction["input"]).stem.strip("-") or "stdin"
    return save(change_mode(prediction["_image"], "rgb"), caption(prediction), folder, stem)
