"""From inputs as people give them to predictions, and to pictures with the answer written on them."""

from __future__ import annotations

import glob
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import pdl
from pdl.data.faults import DataFault
from pdl.data.image import EXTENSIONS, REPAIR, Mode, change_mode, decode_image, read_image
from pdl.data.pipeline import Pipeline
from pdl.data.randomness import BatchRandom
from pdl.errors import DataError, UsageError
from pdl.nn import Module
from pdl.report import png
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


def expand(name: str) -> Iterable[Path]:
    """The files behind a path, a folder (at any depth) or a pattern, sorted."""
    path = Path(name).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.suffix.lower() in EXTENSIONS and p.is_file())
        where = f"in this folder are no pictures ({', '.join(EXTENSIONS)})"
    else:
        found = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if Path(p).is_file())
        where = "no file matches this pattern" if glob.has_magic(name) else "no such file"
    if not found:
        raise DataError(f"{name}: {where}")
    return found


def _from_array(array: np.ndarray, mode: Mode) -> np.ndarray:
    image = array[..., None] if array.ndim == 2 else array
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[-1] not in (1, 3):
        raise UsageError(
            f"predict: an array of {array.dtype} {array.shape}; expected uint8 [H, W], [H, W, 1] or [H, W, 3] (RGB)"
        )
    return change_mode(image, mode)


def render(prediction: dict[str, Any], folder: Path) -> Path:
    """The picture, at least 256 wide, with the answer below it; saved as PNG under a name that is free."""
    image = change_mode(prediction["_image"], "rgb")
    height, width = image.shape[:2]
    factor = max(1, -(-256 // width))
    large = cv2.resize(image, (width * factor, height * factor), interpolation=cv2.INTER_NEAREST)
    canvas = np.full((large.shape[0] + 32, large.shape[1], 3), 255, np.uint8)
    canvas[: large.shape[0]] = large
    text = f"{prediction['label']}  {prediction['score']:.1%}"
    cv2.putText(canvas, text, (8, canvas.shape[0] - 10), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (20, 20, 20), 1, cv2.LINE_AA)
    path = _free(folder, Path(prediction["input"]).stem.strip("-") or "stdin")
    path.write_bytes(png(canvas))
    return path


def _free(folder: Path, stem: str) -> Path:
    """folder/stem.png, or with a number where that exists."""
    path, number = folder / f"{stem}.png", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}.png", number + 1
    return path
