"""`Deployment`: what goes into a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.vocabulary import Vocabulary


@dataclass
class Deployment:
    """What goes into a bundle, and what it is checked with.

    module     the function that is traced, in evaluation mode
    inputs     name -> shape and dtype of each of its arguments; sizes that may change are `pdl.dims.Dim` symbols
    outputs    names of what it returns
    pre, post  steps of `pdl.runtime.steps`, as plain values, for one input and for outputs: {"image": [{"step": ...}]}
    samples    real inputs as people give them (pictures uint8 [H, W, C], sessions ["a", "b"]), to compare bundle and
               model with
    prepare    a sample as training prepares it: the inputs by name, without a batch axis
    labels     names of classes or characters, in the order of their numbers
    vocabularies  names by number that the steps speak of, by kind: {"items": ...}
    constants  arrays that the steps read, by name, such as a graph
    card       markdown for people: what it is, data, metrics and how they were measured, licence, how to use it
    licence    of the weights
    about      further plain facts for people
    options    of `Task.predict`, with which a run answers as its bundle does: {"repeat": True}
    """

    module: Module
    inputs: dict[str, Spec]
    outputs: tuple[str, ...]
    pre: dict[str, list[dict[str, Any]]]
    post: dict[str, list[dict[str, Any]]]
    samples: Sequence[Any]
    prepare: Callable[[Any], dict[str, Any]]
    labels: Sequence[str] = ()
    card: str = ""
    licence: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)


__all__ = ["Deployment"]
