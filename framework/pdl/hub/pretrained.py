"""Weights into a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdl.errors import DataError, ShapeError
from pdl.hub.files import resolve

if TYPE_CHECKING:
    from pdl.nn import Module


def load_pretrained(model: Module, name: str | Path) -> list[str]:
    """Fill `model` with weights: those of a name of the hub, of a safetensors file with the model's own names, or
    of a run folder.

    A classifier for another number of classes keeps its fresh weights: names whose shapes differ in the last axis
    only, and that all belong to one layer, are left as they are and returned. Any other difference is a ShapeError
    that lists it.
    """
    given, own = read_weights(name), model.state_dict()
    missing = [key for key in own if key not in given]
    unknown = [key for key in given if key not in own]
    other = [key for key in own if key in given and tuple(own[key].shape) != tuple(given[key].shape)]
    head = other if _is_head(other, own, given) else []
    if missing or unknown or (other and not head):
        lines = [f"missing: {key} {tuple(own[key].shape)}" for key in missing]
        lines += [f"not in the model: {key} {tuple(given[key].shape)}" for key in unknown]
        lines += [f"{key}: {tuple(given[key].shape)}, the model has {tuple(own[key].shape)}" for key in other]
        raise ShapeError("\n  ".join([f"the weights {name} do not fit {type(model).__name__}:", *lines]))
    model.load_state_dict({key: given[key] for key in given if key not in head}, strict=False)
    return head


def read_weights(name: str | Path) -> Mapping[str, Any]:
    """The arrays behind a name, a file or a run folder, by parameter name."""
    if (Path(name) / "config.yaml").is_file():
        return _of_run(name)
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = resolve(name)
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise DataError(f"{file}: damaged, or not a safetensors file ({error})") from error


def _of_run(folder: str | Path) -> Mapping[str, Any]:
    """The weights that a run's own test used, with the averaged ones in place."""
    from pdl.config import build
    from pdl.train import Run

    run = Run.open(folder)
    config = run.config()
    source = build(config["task"]).restore(config)
    run.load_weights(source)
    state: Mapping[str, Any] = source.state_dict()
    return state


def _is_head(other: list[str], own: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether these names are one layer that differs in its number of outputs only."""
    layers = {key.rpartition(".")[0] for key in other}
    return len(layers) == 1 and all(own[key].shape[:-1] == given[key].shape[:-1] for key in other)
