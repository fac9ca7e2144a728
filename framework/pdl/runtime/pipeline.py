"""The pipeline of a bundle: what happens to a picture before the net, and to the net's outputs after it.

pipeline.json names steps (`steps.py`) with their arguments, and nothing else can be named:

    {"format": 1,
     "pre": {"image": [{"step": "mode", "mode": "rgb"}, {"step": "resize_short", "size": 184}, ...]},
     "post": {"logits": [{"step": "softmax"}, {"step": "top", "k": 5}]}}

A model without steps for its inputs has no pipeline; its arrays go to `Session.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pdl.errors import PdlError, UsageError
from pdl.runtime import boxes, pictures  # noqa: F401 - boxes registers its steps
from pdl.runtime.bundle import Bundle
from pdl.runtime.frame import Frame
from pdl.runtime.steps import POST, PRE, Labelled, Mode, Placed, Step
from pdl.runtime.strict import demand, fault
from pdl.tensor import Array

MAX_STEPS = 32


class Pipeline:
    """The steps of a bundle: `prepare` a picture, `finish` the outputs for it."""

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
        return cls.read(bundle.pipeline, bundle.labels, bundle.source)

    @classmethod
    def read(cls, data: Mapping[str, Any], labels: Sequence[str], source: str) -> Pipeline | None:
        """The pipeline that pipeline.json describes."""
        pre = {name: _steps(steps, PRE, source, f"pre: {name}") for name, steps in data["pre"].items()}
        post = {name: _steps(steps, POST, source, f"post: {name}") for name, steps in data["post"].items()}
        demand(len(pre) <= 1, source, "pipeline.json", f"{len(pre)} inputs have steps; a pipeline fills one")
        for step in (step for steps in post.values() for step in steps):
            if isinstance(step, Labelled):
                step.labels = labels
        return cls(pre, post) if pre else None

    @property
    def mode(self) -> str:
        """How files are decoded."""
        found = [step.mode for steps in self.pre.values() for step in steps if isinstance(step, Mode)]
        return found[0] if found else "rgb"

    def prepare(self, item: Any) -> dict[str, Array]:
        """The inputs by name for one picture: an array uint8 [H, W] or [H, W, C], a path, or the bytes of a file."""
        return self.placed(item)[0]

    def placed(self, item: Any) -> tuple[dict[str, Array], Frame]:
        """The inputs for one picture as `prepare` makes them, and where their pixels come from."""
        ((name, steps),) = self.pre.items()
        value = pictures.picture(item, self.mode)
        frame = Frame(*value.shape[:2])
        for step in steps:
            before, value = value, _taken(step, value)
            frame = step.follow(frame, before, value)
        return {name: value}, frame

    def finish(self, outputs: Mapping[str, Array], frame: Frame | None = None) -> Any:
        """The prediction, of outputs without a batch axis: what the steps made of them; arrays where there are none.

        One output with steps gives its value, several a dict by name. `frame` is what `placed` said of the picture;
        steps that tell places need it.
        """
        found: dict[str, Any] = {}
        for name, steps in self.post.items():
            value: Any = outputs[name]
            for step in steps:
                value = _taken(step, value, frame)
            found[name] = value
        if not found:
            return dict(outputs)
        return next(iter(found.values())) if len(found) == 1 else found

    def set(self, **arguments: Any) -> None:
        """Change arguments of the last steps, such as ``set(k=3)`` of the step top; UsageError where none has them."""
        for key, value in arguments.items():
            holders = [step for steps in self.post.values() for step in steps if key in vars(step)]
            if not holders:
                raise UsageError(f"no step of this pipeline has the argument {key!r}")
            for step in holders:
                setattr(step, key, value)


def _taken(step: Step, value: Any, frame: Frame | None = None) -> Any:
    """The value after a step; UsageError where it is none that the step takes, as in steps put in a wrong order."""
    try:
        return step.place(value, frame) if isinstance(step, Placed) and frame is not None else step(value)
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
