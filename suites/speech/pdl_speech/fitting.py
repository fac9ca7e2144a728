"""Whether waveforms and a net fit each other: what tasks on recordings look at before training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pdl.dtype import Array
from pdl.errors import ConfigError, ShapeError
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.tensor import as_tensor
from pdl.train import Recipe, Task
from pdl.train.task import first_samples
from pdl_speech.models.audio_net import AudioNet


def check_rates(model: Module, datasets: Mapping[str, Any]) -> None:
    """ConfigError where a net is none for waveforms, or a data set gives waveforms of another rate than its own."""
    if not isinstance(model, AudioNet):
        raise ConfigError(f"model: {type(model).__name__} is no pdl_speech.models.AudioNet, so it takes no waveforms")
    for split, dataset in datasets.items():
        rate = getattr(dataset, "rate", model.rate)
        if rate != model.rate:
            raise ConfigError(
                f"data.{split}: gives waveforms at {rate} Hz, but model.features takes {model.rate} Hz; set "
                f"data.{split}.rate=${{model.features.rate}}"
            )


def first_waves(task: Task, datasets: Mapping[str, Any], recipe: Recipe) -> Iterator[tuple[Array, str]]:
    """Of each split a waveform as the model is given it, [1, T], and where it comes from."""
    for split, dataset in datasets.items():
        training = split == "train"
        loader: Any = task.loader(first_samples(dataset, 1), recipe, training=training, seed=0)
        loader.workers, loader.drop_last = 0, False
        batch = next(iter(loader), None)
        if batch is None:  # an unreadable first recording, with on_error=skip
            continue
        yield batch["audio"], f"data.{split} after data.transforms.{'train' if training else 'eval'}"


def answer(model: Module, waves: Array, source: str, recipe: Recipe) -> Any:
    """What a model makes of waveforms [N, T], in evaluation mode. ConfigError where it does not take them."""
    try:
        with evaluating(model):
            return model(as_tensor(waves))
    except ShapeError as error:
        raise ConfigError(
            f"model: {recipe.model.target} does not take the waveforms of {source}, {waves.shape[1]} samples: {error}"
        ) from error
