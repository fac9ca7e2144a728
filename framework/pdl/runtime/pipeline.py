"""The pipeline of a bundle: what happens to an input before the net, and to the net's outputs after it.

pipeline.json names steps (`steps.py`) with their arguments, and nothing else can be named:

    {"format": 1,
     "pre": {"image": [{"step": "mode", "mode": "rgb"}, {"step": "resize_short", "size": 184}, ...]},
     "post": {"logits": [{"step": "softmax"}, {"step": "top", "k": 5}]}}

The first step says what an input is: a picture, unless it is a reader (`readers.py`):

    {"format": 1,
     "pre": {"items": [{"step": "session", "vocabulary": "items", "max_length": 50}]},
     "post": {"scores": [{"step": "top_items", "vocabulary": "items", "k": 20}]}}

A model without steps for its inputs has no pipeline; its arrays go to `Session.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import PdlError, UsageError
from pdl.runtime import (  # noqa: F401 - register steps
    bit_strings,
    boxes,
    fields,
    graph_input,
    molecules,
    names,
    node_names,
    pair_input,
    pauli_words,
    pictures,
    questions,
    words,
)
from pdl.runtime.bundle import Bundle
from pdl.runtime.frame import Frame
from pdl.runtime.readers import Reader
from pdl.runtime.sample import Sample
from pdl.runtime.steps import POST, PRE, Informed, Mode, Step
from pdl.runtime.strict import demand, fault
from pdl.vocabulary import Vocabulary

MAX_STEPS = 32


class Pipeline:
    """The steps of a bundle: `take` an input, `batches` of them for the net, `finish` the outputs for each."""

    def __init__(self, pre: Mapping[str, list[Step]], post: Mapping[str, list[Step]]) -> None:
        self.pre, self.post = dict(pre), dict(post)

    @classmethod
    def of(cls, bundle: Bundle) -> Pipeline | None:
        """The pipeline of a bundle; None where it has no steps for its input. DataError for one that is damaged."""
        known = bundle.program if bundle.kind == "program" else bundle.program["graph"]
        for when, side in (("pre", "inputs"), ("post", "outputs")):
            ports: Any = known.get(side)
            demand(isinstance(ports, list), bundle.source, "program.json", f"it lacks its {side}")
            have = [each.get("name") if isinstance(each, dict) else each for each in ports]
            for name in bundle.pipeline[when]:
                what = f"has steps for {name!r}, the model has the {side} {', '.join(map(str, have))}"
                demand(name in have, bundle.source, f"pipeline.json: {when}", what)
        return cls.read(bundle.pipeline, bundle.labels, bundle.source, bundle.vocabularies, bundle.constants)

    @classmethod
    def read(
        cls,
        data: Mapping[str, Any],
        labels: Sequence[str],
        source: str,
        vocabularies: Mapping[str, Vocabulary] = {},
        constants: Mapping[str, Array] = {},
    ) -> Pipeline | None:
        """The pipeline that pipeline.json describes."""
        pre = {name: _steps(steps, PRE, source, f"pre: {name}") for name, steps in data["pre"].items()}
        post = {name: _steps(steps, POST, source, f"post: {name}") for name, steps in data["post"].items()}
        pictured = sum(_reader(steps) is None for steps in pre.values())
        demand(pictured <= 1, source, "pipeline.json", f"{pictured} inputs have steps for a picture; one may")
        for where, sides in (("pre", pre), ("post", post)):
            for name, steps in sides.items():
                _bind(steps, (labels, vocabularies), constants, source, f"pipeline.json: {where}: {name}")
        return cls(pre, post) if pre else None

    @property
    def mode(self) -> str:
        """How files are decoded."""
        found = [step.mode for steps in self.pre.values() for step in steps if isinstance(step, Mode)]
        return found[0] if found else "rgb"

    @property
    def reader(self) -> Reader | None:
        """What says what an input is; None where it is a picture."""
        return next((r for r in map(_reader, self.pre.values()) if r is not None), None)

    def prepare(self, item: Any) -> dict[str, Array]:
        """The inputs by name for one item: what the reader takes, or else a picture: an array uint8 [H, W] or
        [H, W, C], a path, or the bytes of a file."""
        return self.take(item).inputs

    def take(self, item: Any) -> Sample:
        """The inputs for one item as `prepare` makes them, and what `finish` has to know about it."""
        sample = Sample()
        for name, steps in self.pre.items():
            reader = _reader(steps)
            if reader is None:
                sample.inputs[name], sample.frame = self._pictured(item, steps)
                continue
            value: Any = reader.read(item, sample.told)
            for step in steps[1:]:
                value = _taken(step, value)
            sample.inputs[name] = value
        return sample

    def _pictured(self, item: Any, steps: Sequence[Step]) -> tuple[Array, Frame]:
        value = pictures.picture(item, self.mode)
        frame = Frame(*value.shape[:2])
        for step in steps:
            before, value = value, _taken(step, value)
            frame = step.follow(frame, before, value)
        return value, frame

    def batches(self, samples: Sequence[Sample]) -> Iterator[tuple[list[int], dict[str, Array]]]:
        """The samples as batches for the net: the numbers of those in it, and the inputs [N, ...] by name."""
        groups: dict[Any, list[int]] = {}
        for number, sample in enumerate(samples):
            key = tuple((name, self._together(name, array)) for name, array in sample.inputs.items())
            groups.setdefault(key, []).append(number)
        for members in groups.values():
            yield members, self.joined([samples[i].inputs for i in members])

    def _together(self, name: str, array: Array) -> Any:
        reader = _reader(self.pre[name])
        return array.shape if reader is None else reader.together(array)

    def joined(self, inputs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """One batch of the inputs of several samples."""
        made = {}
        for name, steps in self.pre.items():
            arrays, reader = [each[name] for each in inputs], _reader(steps)
            made[name] = np.stack(arrays) if reader is None else reader.joined(arrays)
        return made

    def random(
        self, name: str, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]
    ) -> Array | None:
        """Made-up values that an input takes, where symbolic axes have these sizes; None where any will do."""
        reader = _reader(self.pre.get(name, []))
        return None if reader is None else reader.random(shape, rng, sizes)

    def finish(self, outputs: Mapping[str, Array], sample: Sample | None = None) -> Any:
        """The prediction, of outputs without a batch axis: what the steps made of them; arrays where there are none.

        One output with steps gives its value, several a dict by name. `sample` is what `take` made of the input; steps
        that tell places or items need it. What it tells of the input is part of an answer that is a dict.
        """
        sample = Sample() if sample is None else sample
        found: dict[str, Any] = {}
        for name, steps in self.post.items():
            value: Any = outputs[name]
            for step in steps:
                value = _taken(step, value, sample)
            found[name] = value
        if not found:
            return dict(outputs)
        said = next(iter(found.values())) if len(found) == 1 else found
        return {**said, **sample.told} if sample.told and isinstance(said, dict) else said

    def set(self, **arguments: Any) -> None:
        """Change arguments of the last steps, such as ``set(k=3)`` of the step top; UsageError where none has them."""
        for key, value in arguments.items():
            holders = [step for steps in self.post.values() for step in steps if key in vars(step)]
            if not holders:
                raise UsageError(f"no step of this pipeline has the argument {key!r}")
            for step in holders:
                setattr(step, key, value)


def _reader(steps: Sequence[Step]) -> Reader | None:
    return steps[0] if steps and isinstance(steps[0], Reader) else None


def _taken(step: Step, value: Any, sample: Sample | None = None) -> Any:
    """The value after a step; UsageError where it is none that the step takes, as in steps put in a wrong order."""
    try:
        return step.inform(value, sample) if isinstance(step, Informed) and sample is not None else step(value)
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        shown = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise UsageError(f"the step {step.name} of the pipeline cannot take {shown}: {error}") from error


def describe(steps: Sequence[Mapping[str, Any]]) -> str:
    """Steps for people: ``resize_short(size=184) > crop(size=[160, 160])``."""
    return " > ".join(
        f"{step['step']}({', '.join(f'{k}={_short(v)}' for k, v in step.items() if k != 'step')})" for step in steps
    )


def _short(value: Any) -> str:
    return f"[{', '.join(map(_short, value))}]" if isinstance(value, list | tuple) else f"{value}"


def _steps(entries: Any, table: Mapping[str, type[Step]], source: str, where: str) -> list[Step]:
    part = f"pipeline.json: {where}"
    demand(isinstance(entries, list) and len(entries) <= MAX_STEPS, source, part, f"expected up to {MAX_STEPS} steps")
    return [_step(entry, table, source, part) for entry in entries]


def _bind(
    steps: Sequence[Step],
    known: tuple[Sequence[str], Mapping[str, Vocabulary]],
    constants: Mapping[str, Array],
    source: str,
    part: str,
) -> None:
    for number, step in enumerate(steps):
        demand(number == 0 or not isinstance(step, Reader), source, part, f"{step.name} must be the first step")
        try:
            step.bind(*known)
            step.hold(constants)
        except UsageError as error:
            raise fault(source, part, str(error)) from None


def _step(entry: Any, table: Mapping[str, type[Step]], source: str, part: str) -> Step:
    name = entry.get("step") if isinstance(entry, dict) else None
    if not isinstance(name, str) or name not in table:
        known = ", ".join(sorted(table))
        raise fault(source, part, f"unknown step {str(name)[:40]!r}; this pdl has {known}", "update pdl")
    try:
        make: Callable[..., Step] = table[name]
        return make(**{key: value for key, value in entry.items() if key != "step"})
    except (PdlError, TypeError) as error:
        raise fault(source, f"{part}: {name}", str(error)) from None
