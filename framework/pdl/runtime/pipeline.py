"""The pipeline of a bundle: what happens to an input before the net, and to the net's outputs after it.

pipeline.json names steps (`pdl.runtime.steps`) with their arguments, and nothing else can be named:

    {"format": 1,
     "pre": {"image": [{"step": "image", "mode": "rgb"}, {"step": "resize_short", "size": 184}, ...]},
     "post": {"logits": [{"step": "softmax"}, {"step": "top", "k": 5}]}}

The first step of an input parses it (`InputStep`), the last one of an output gives the answer
(`PostStep`). A model without steps for its inputs has no pipeline; its arrays go to `Session.run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, PdlError, TimeLimitError, UsageError, listed
from pdl.limits import check_time
from pdl.runtime.bundle import Bundle
from pdl.runtime.cutting import VAD, Cutter
from pdl.runtime.drawing import Drawing
from pdl.runtime.sample import Sample
from pdl.runtime.steps import registry
from pdl.runtime.steps.base import Resources, Step
from pdl.runtime.steps.inputs import Feeder, Flag, InputStep, PreStep
from pdl.runtime.steps.outputs import Follower, Form, Kept, PostStep, Ranking, Thresholded, Writer
from pdl.runtime.steps.writing import Writes
from pdl.runtime.strict import check, fault

if TYPE_CHECKING:
    from pdl.runtime.decoding.options import Options

MAX_STEPS = 32
Kind = TypeVar("Kind", bound=PostStep)


@dataclass(frozen=True)
class Answer:
    """What a model says of one input: a value made of some outputs, notes on the input, or why it says nothing."""

    value: Any = None
    outputs: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    def plain(self) -> Any:
        """The value; of a dict with the notes in it."""
        return {**self.value, **self.notes} if self.notes and isinstance(self.value, dict) else self.value


class Pipeline:
    """The steps of a bundle: `parse` an input, `batches` of them for the net, `finish` the outputs for each."""

    streams = False
    """Whether the model can be read chunk by chunk."""
    cutter: Cutter | None = None
    """What cuts recordings at their pauses."""

    def __init__(self, pre: Mapping[str, Sequence[Step]], post: Mapping[str, Sequence[PostStep]]) -> None:
        self.inputs: dict[str, InputStep] = {}
        self.pre: dict[str, list[PreStep]] = {}
        for name, (first, *others) in pre.items():
            assert isinstance(first, InputStep)
            self.inputs[name], self.pre[name] = first, others  # type: ignore[assignment]
        self.post = {name: list(steps) for name, steps in post.items()}

    @classmethod
    def of(cls, bundle: Bundle) -> Pipeline | None:
        """The pipeline of a bundle; None where it has no steps for its input. DataError for one that is damaged,
        PackageError where the distribution of a step is not installed."""
        known = bundle.program["graph"] if bundle.kind == "onnx" else bundle.program
        for when, side in (("pre", "inputs"), ("post", "outputs")):
            ports: Any = known.get(side)
            check(isinstance(ports, list), bundle.source, "program.json", f"it lacks its {side}")
            have = [each.get("name") if isinstance(each, dict) else each for each in ports]
            for name in bundle.pipeline[when]:
                what = f"has steps for {name!r}, the model has the {side} {', '.join(map(str, have))}"
                check(name in have, bundle.source, f"pipeline.json: {when}", what)
        resources = Resources(bundle.labels, bundle.vocabularies, bundle.constants)
        made = cls.read(bundle.pipeline, resources, bundle.source, bundle.meta["requires"])
        if made is not None:
            made.streams = "stream" in bundle.program
        for step in (step for steps in (made.post.values() if made is not None else ()) for step in steps):
            gone = listed(set(step.beside) - set(have))
            check(not gone, bundle.source, "pipeline.json: post", f"{step.name} reads the output {gone}, which is none")
        return made

    @classmethod
    def read(
        cls, data: Mapping[str, Any], resources: Resources, source: str, requires: Sequence[str] = ()
    ) -> Pipeline | None:
        """The pipeline that pipeline.json describes."""
        pre = {name: _steps(steps, source, f"pre: {name}", requires) for name, steps in data["pre"].items()}
        post = {name: _steps(steps, source, f"post: {name}", requires) for name, steps in data["post"].items()}
        for where, sides in (("pre", pre), ("post", post)):
            for name, steps in sides.items():
                part = f"pipeline.json: {where}: {name}"
                _check_order(steps, where, source, part)
                _bind(steps, resources, source, part)
        for name, steps in post.items():
            for step in steps:
                gone = listed(set(step.reads) - pre.keys())  # type: ignore[attr-defined]
                check(not gone, source, f"pipeline.json: post: {name}", f"{step.name} reads {gone}, which has no steps")
        return cls(pre, post) if pre else None  # type: ignore[arg-type]

    @property
    def input(self) -> InputStep:
        """The step that parses inputs; where there are several, the first one."""
        return next(iter(self.inputs.values()))

    # -- before the net ------------------------------------------------------------------------------------------------
    def parse(self, item: Any) -> Sample:
        """The inputs of the net for one item, and what `finish` has to know about it. DataError where the item says
        nothing that the model knows."""
        sample = Sample()
        for name, first in self.inputs.items():
            value: Any = first.parse(item, sample)
            frame = first.frame(value)
            for step in self.pre[name]:
                before, value = value, _called(step, value)
                frame = step.follow(frame, before, value) if frame is not None else None
            sample.inputs[name], sample.frame = value, frame or sample.frame
        return sample

    def prepare(self, item: Any) -> dict[str, Array]:
        """The inputs of the net by name for one item, without a batch axis."""
        return self.parse(item).inputs

    def tolerance(self, name: str) -> float:
        """How far two preparations of an input may differ, in numbers of the net's input."""
        allowed = self.inputs[name].tolerance
        for step in self.pre[name]:
            allowed = step.error(allowed)
        return allowed

    def batches(
        self, samples: Sequence[Sample], batch_size: int | None = None
    ) -> Iterator[tuple[list[int], dict[str, Array]]]:
        """The samples as batches for the net: the numbers of those in it, and the inputs [N, ...] by name. A batch has
        at most `batch_size` samples, those of about one size together; by default as many as no input says
        are too many (`InputStep.together`), but one at least."""
        groups: dict[Any, list[int]] = {}
        for number, sample in enumerate(samples):
            key = tuple(self.inputs[name].group(array) for name, array in sample.inputs.items())
            groups.setdefault(key, []).append(number)
        shares = [
            max(np.asarray(array).nbytes / self.inputs[name].together for name, array in sample.inputs.items())
            for sample in samples
        ]
        for members in groups.values():
            members.sort(key=shares.__getitem__)
            size = batch_size or max(1, int(1 / max(shares[members[-1]], 1e-9)))
            for begin in range(0, len(members), size):
                some = members[begin : begin + size]
                yield some, self.collate([samples[i].inputs for i in some])

    def collate(self, inputs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """One batch of the inputs of several samples."""
        return {name: first.collate([each[name] for each in inputs]) for name, first in self.inputs.items()}

    def random(
        self, name: str, shape: tuple[int, ...], rng: np.random.Generator, sizes: Mapping[str, int]
    ) -> Array | None:
        """Made-up values that an input takes, where symbolic axes have these sizes; None where any will do."""
        return self.inputs[name].random(shape, rng, sizes) if name in self.inputs else None

    # -- behind the net ------------------------------------------------------------------------------------------------
    def finish(self, outputs: Mapping[str, Array], sample: Sample) -> Any:
        """The answer for a sample, of outputs without a batch axis: what the steps made of them; arrays where there are
        none. One output with steps gives its value, several a dict by name. What is not among the outputs is left out:
        a predictor may answer some inputs by some outputs.
        """
        found: dict[str, Any] = {}
        sample.outputs = outputs
        for name in self._answering(outputs):
            value: Any = outputs[name]
            for step in self.post[name]:
                value = _called(step, value, sample)
            found[name] = value
        if not found:
            return dict(outputs)
        return next(iter(found.values())) if len(found) == 1 else found

    def answers(
        self,
        items: Iterable[Any],
        run: Callable[[dict[str, Array]], Mapping[str, Array]],
        *,
        skip_errors: bool = False,
        batch_size: int | None = None,
    ) -> list[Answer]:
        """The answers for several items, in order; samples that fit go through `run` together (`batches`), inputs and
        outputs by name. With `skip_errors`, an item that says nothing that the model knows has an error for an
        answer."""
        if self.cutter is not None:
            whole = copy(self)
            whole.cutter = None
            return self.cutter.answers(whole, items, run, skip_errors=skip_errors)
        found: list[list[Answer]] = []
        places, parsed = list[int](), list[Sample]()
        for number, item in enumerate(items):
            found.append([])
            try:
                views = [self.parse(view) for view in self.input.views(item)]
            except DataError as error:
                if not skip_errors or isinstance(error, TimeLimitError):
                    raise
                found[number].append(Answer(error=str(error)))
                continue
            parsed += views
            places += [number] * len(views)
        made = [Answer()] * len(parsed)
        for members, inputs in self.batches(parsed, batch_size):
            outputs = run(inputs)
            for row, i in enumerate(members):
                value = self.finish({name: y[row] for name, y in outputs.items()}, parsed[i])
                made[i] = Answer(value, self._answering(outputs), parsed[i].notes)
                parsed[i] = Sample()  # an answered one holds its inputs, and outputs of the whole batch
            del inputs, outputs  # before the next run makes others: a reader of lines has megabytes of probabilities
        for place, answer in zip(places, made, strict=True):
            found[place].append(answer)
        return [each[0] if len(each) == 1 else max(each, key=self._certainty) for each in found]

    def _certainty(self, answer: Answer) -> float:
        """How certain an answer is, of those for several views of an input."""
        last = self._last(answer.outputs)
        if len(last) != 1:
            raise UsageError("this model's answers are several, or arrays, so that no view of an input is the best")
        (step,) = last.values()
        return step.certainty(answer.value)

    def following(self, **options: Any) -> tuple[Feeder, Follower]:
        """What makes a stream's pieces elements of the net's input, with `options` of the input step, and what makes
        events of steps of its output. UsageError where a step needs a whole input."""
        (first,), (steps,) = self.inputs.values(), self.post.values()
        between = [*next(iter(self.pre.values())), *(step for step in steps[:-1] if not step.by_rows)]
        if between or not steps:
            named = listed([step.name for step in between]) or "what this model answers"
            raise UsageError(f"{named} is of whole inputs, so this model cannot be streamed")
        return first.feeder(**options), Chain(steps[:-1], steps[-1].follower())

    def limited(self, k: int) -> Pipeline:
        """The same pipeline with at most `k` answers an input; UsageError where no step ranks."""
        made = copy(self)
        made.post = {
            name: [step.limited(k) if isinstance(step, Ranking) else step for step in steps]
            for name, steps in self.post.items()
        }
        if not self.ranks:
            raise UsageError("this model does not rank answers; leave out --topk")
        return made

    def configured(self, values: Mapping[str, Sequence[str]], predictor: Any) -> Pipeline:
        """The same pipeline where options of its last steps have values (`PostStep.configured`)."""
        made = copy(self)
        made.inputs = {name: step.configured(values) for name, step in self.inputs.items()}
        made.post = {
            name: [*steps[:-1], *(step.configured(values, predictor) for step in steps[-1:])]
            for name, steps in self.post.items()
        }
        return made

    def kept(
        self, post: Mapping[str, Sequence[Mapping[str, Any]]], values: Mapping[str, Sequence[str]], predictor: Any
    ) -> tuple[dict[str, list[dict[str, Any]]], Kept]:
        """Of the steps `post` of pipeline.json, whose pipeline this is, those that answer so where options have no
        values, and what else a bundle must hold for that. UsageError for options that none of them keeps."""
        keeping = {name: steps[-1] for name, steps in self.post.items() if steps and steps[-1].keeps}
        can = [flag.name for step in keeping.values() for flag in step.flags]
        if unknown := sorted(set(values) - set(can)):
            have = f"those of this model that can be kept are {listed(can)}" if can else "this model has none"
            raise UsageError(f"{listed(unknown)}: no option that a bundle keeps; {have}")
        made, more = {name: [dict(step) for step in steps] for name, steps in post.items()}, Kept()
        for name, step in keeping.items():
            kept = step.configured(values, predictor).kept()
            made[name][-1] |= kept.arguments
            more += kept
        return made, more

    def written_by(self, options: Options) -> Pipeline:
        """The same pipeline where a search has these options: texts that end answers are cut off by the step that makes
        text of tokens."""
        made = copy(self)
        made.post = {name: [_told(step, options) for step in steps] for name, steps in self.post.items()}
        return made

    def above(self, score: float) -> Pipeline:
        """The same pipeline without answers below a score; UsageError where no step leaves answers out."""
        made = copy(self)
        made.post = {
            name: [step.above(score) if isinstance(step, Thresholded) else step for step in steps]
            for name, steps in self.post.items()
        }
        if self.least is None:
            raise UsageError("this model leaves out no answers by their score; leave out --score")
        return made

    @property
    def least(self) -> float | None:
        """The score below which answers are left out; None where none are."""
        step = self.answering(Thresholded)
        return None if step is None else step.score

    @property
    def ranks(self) -> bool:
        """Whether `limited` applies to it."""
        return self.answering(Ranking) is not None

    def answering(self, kind: type[Kind]) -> Kind | None:
        """The first step of outputs that is of a class; None where there is none."""
        return next((step for steps in self.post.values() for step in steps if isinstance(step, kind)), None)

    @property
    def writes(self) -> Writes | None:
        """The step that makes text of what a decoder wrote; None of other models."""
        return self.answering(Writes)  # type: ignore[type-abstract]

    # -- answers -------------------------------------------------------------------------------------------------------
    def rows(self, answer: Answer) -> list[dict[str, Any]]:
        """An answer as rows of a table, best first, none for an error; where several outputs have steps, each row says
        of which it is."""
        if answer.error is not None:
            return []
        last = self._last(answer.outputs)
        if len(last) > 1:
            return [{"output": name, **row} for name, step in last.items() for row in step.rows(answer.value[name])]
        step = next(iter(last.values()), PostStep())
        return step.rows(answer.value)

    def joined(self, answers: Sequence[Answer], places: Sequence[tuple[int, int]], size: tuple[int, int]) -> Answer:
        """The answer for an image, of those for tiles of it; see `PostStep.joined`."""
        first, last = answers[0], self._last(answers[0].outputs)
        if len(last) != 1:
            raise UsageError("this model's answers are several, or arrays; leave out --tiles")
        (step,) = last.values()
        return Answer(step.joined([each.value for each in answers], places, size), first.outputs, first.notes)

    @property
    def flags(self) -> Sequence[Flag]:
        """Options that its last steps have (`PostStep.flags`), and those of models that can be streamed."""
        last = [steps[-1] for steps in self.post.values() if steps]
        own = [flag for step in last for flag in step.flags]
        if len(last) == 1 and last[0].in_time:
            own.append(VAD)
        return [*own, *self.input.stream_flags] if self.streams else own

    @property
    def writers(self) -> Sequence[Writer]:
        """Forms of files, beside tables, that answers can be written in."""
        return [writer for steps in self.post.values() if steps for writer in steps[-1].writers]

    @property
    def forms(self) -> Sequence[Form]:
        """Forms of files, beside drawings, that answers are saved in, each in its own."""
        return [form for steps in self.post.values() if steps for form in steps[-1].forms]

    @property
    def unprinted(self) -> set[str]:
        """Keys of answers that are not printed (`PostStep.unprinted`)."""
        return {key for steps in self.post.values() if steps for key in steps[-1].unprinted}

    def draw(self, item: Any, answer: Answer) -> Drawing:
        """An input with its answer, to look at; UsageError where there is nothing to draw."""
        last = self._last(answer.outputs)
        if len(last) != 1:
            raise UsageError("this model's answers are several, or arrays, which are not drawn; leave out --save")
        (step,) = last.values()
        return step.draw(item, answer.value, self.input)

    def agree(self, ours: Mapping[str, Array], theirs: Mapping[str, Array], sample: Sample, tolerance: float) -> bool:
        """Whether the answers made of two sets of outputs, which may differ by `tolerance`, are the same."""
        a, b = self.finish(ours, sample), self.finish(theirs, sample)
        last = self._last(self._answering(ours))
        if len(last) == 1:
            (step,) = last.values()
            return step.agrees(a, b, tolerance, sample)
        return all(step.agrees(a[name], b[name], tolerance, sample) for name, step in last.items())

    @property
    def unordered(self) -> bool:
        """Whether two runs of the model are compared by their answers alone (`PostStep.unordered`)."""
        return any(step.unordered for steps in self.post.values() for step in steps)

    def _answering(self, outputs: Mapping[str, Any]) -> tuple[str, ...]:
        """The outputs that an answer is made of."""
        return tuple(name for name in self.post if name in outputs)

    def _last(self, outputs: Iterable[str]) -> dict[str, PostStep]:
        """The last step of each of these outputs that has steps."""
        return {name: self.post[name][-1] for name in outputs if self.post[name]}


class Chain:
    """A `Follower` behind steps that work row by row."""

    def __init__(self, steps: Sequence[PostStep], last: Follower) -> None:
        self.steps, self.last = steps, last

    def feed(self, rows: Array) -> list[Any]:
        """The events of the next rows."""
        for step in self.steps:
            rows = _called(step, rows, Sample())
        return self.last.feed(rows)

    def finish(self, length: int) -> list[Any]:
        """Those of the end."""
        return self.last.finish(length)


def _called(step: Any, value: Any, *sample: Sample) -> Any:
    """The value after a step; UsageError where it is none that the step takes, as in steps put in a wrong order."""
    check_time()
    try:
        return step(value, *sample)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        shown = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise UsageError(f"the step {step.name} of the pipeline cannot take {shown}: {error}") from error


# -- reading -----------------------------------------------------------------------------------------------------------
def _steps(entries: Any, source: str, where: str, requires: Sequence[str]) -> list[Step]:
    part = f"pipeline.json: {where}"
    check(isinstance(entries, list) and len(entries) <= MAX_STEPS, source, part, f"expected up to {MAX_STEPS} steps")
    return [_step(entry, source, part, requires) for entry in entries]


def _step(entry: Any, source: str, part: str, requires: Sequence[str]) -> Step:
    check(isinstance(entry, dict), source, part, "expected steps, each an object with its name under step")
    found = registry.find(entry.get("step"), source, part, requires)
    try:
        make: Callable[..., Step] = found
        return make(**{key: value for key, value in entry.items() if key != "step"})
    except (PdlError, TypeError) as error:
        raise fault(source, f"{part}: {found.name}", str(error)) from None


def _check_order(steps: Sequence[Step], where: str, source: str, part: str) -> None:
    """Inputs begin with an input step, which is allowed nowhere else; steps of outputs belong to outputs."""
    for number, step in enumerate(steps):
        wanted = PostStep if where == "post" else InputStep if number == 0 else PreStep
        check(isinstance(step, wanted), source, part, f"{step.name} cannot be step {number + 1}: {_ROLES[wanted]}")
    check(steps or where == "post", source, part, _ROLES[InputStep])


_ROLES: dict[type[Step], str] = {
    InputStep: "the first step says what an input is, such as image or fields",
    PreStep: "the steps behind the first prepare what it read",
    PostStep: "steps of outputs make answers of them",
}


def _bind(steps: Sequence[Step], resources: Resources, source: str, part: str) -> None:
    for step in steps:
        try:
            step.bind(resources)
        except UsageError as error:
            raise fault(source, part, str(error)) from None


# -- for people --------------------------------------------------------------------------------------------------------
def describe(steps: Sequence[Mapping[str, Any]]) -> str:
    """Steps for people: ``resize_short(size=184) > crop(size=[160, 160])``."""
    return " > ".join(
        f"{step['step']}({', '.join(f'{k}={_short(v)}' for k, v in step.items() if k != 'step')})" for step in steps
    )


def _short(value: Any) -> str:
    return f"[{', '.join(map(_short, value))}]" if isinstance(value, list | tuple) else f"{value}"


def _told(step: PostStep, options: Options) -> PostStep:
    if not isinstance(step, Writes):
        return step
    made = copy(step)
    made.options = options
    return made
