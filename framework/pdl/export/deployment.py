"""`Deployment`: what goes into a bundle, and what a run answers by before there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.export.decoder import Eager
from pdl.export.stream import trace_stream
from pdl.nn import Module
from pdl.nn.decoder import Decoder
from pdl.nn.module import evaluating
from pdl.nn.streaming import Streaming
from pdl.ops.base import Spec
from pdl.runtime.decoding.options import OUTPUTS, Options, Writing
from pdl.runtime.decoding.searching import Token
from pdl.runtime.decoding.writer import Writer
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources
from pdl.runtime.streams import Stream, Streams
from pdl.tensor import as_tensor
from pdl.vocabulary import Vocabulary

TOLERANCE = 1e-5


@dataclass
class Deployment:
    """What goes into a bundle, and what it is checked with. It is a `pdl.runtime.predict.Predictor`: a run answers by
    what its bundle would hold, so both say the same by construction.

    module     the function that is traced, in evaluation mode
    net        the net that is trained, where `module` is a function around it whose outputs the task's metrics take
    writing    of a `pdl.nn.Decoder`, which writes token by token: how it is asked. `inputs` are then those of its
               `encode`, and the prompt if there is one; `outputs` are "tokens", "scores" and "ended"
    inputs     name -> shape and dtype of each of its arguments; sizes that may change are `pdl.dims.Dim` symbols
    outputs    names of what it returns
    pre, post  steps of `pdl.runtime.steps`, as plain values, for one input and for outputs: {"image": [{"step": ...}]}
    samples    real inputs as people give them (images uint8 [H, W, C], rows {"column": value}), to compare bundle and
               model with
    prepare    a sample as training prepares it: the inputs by name, without a batch axis; None where training has no
               other way than the pipeline
    labels     names of classes or characters, in the order of their numbers
    vocabularies  names by number that the steps speak of, by kind: {"items": ...}
    constants  arrays that the steps read, by name, such as a graph
    card       markdown for people: what it is, data, metrics and how they were measured, licence, how to use it
    licence    of the weights
    about      further plain facts for people
    tolerance  how far the bundle's outputs may be from the model's, as a share of the largest: two orders of summing
    stream     of a net that can be read chunk by chunk: the same net in that form
    memory     objects by name that a run hands to its own steps and that no bundle holds, such as the data it was
               trained on
    """

    module: Module
    inputs: dict[str, Spec]
    outputs: tuple[str, ...]
    pre: dict[str, list[dict[str, Any]]]
    post: dict[str, list[dict[str, Any]]]
    samples: Sequence[Any]
    prepare: Callable[[Any], dict[str, Any]] | None = None
    labels: Sequence[str] = ()
    card: str = ""
    licence: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] = field(default_factory=dict)
    net: Module | None = None
    writing: Writing | None = None
    stream: Streaming | None = None
    tolerance: float = TOLERANCE

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """The pipeline, with what a run has in memory; None where no input has steps."""
        resources = Resources(self.labels, self.vocabularies, self.constants, self.memory)
        made = Pipeline.read({"pre": self.pre, "post": self.post}, resources, "this model")
        if made is not None:
            made.streams = self.stream is not None
        return made

    @cached_property
    def streams(self) -> Streams:
        """What reads chunks, of a net that can be streamed."""
        assert self.stream is not None
        return trace_stream(self.stream).streams()

    def begin_stream(self, pipeline: Pipeline | None, **options: Any) -> Stream:
        """A stream with the steps of this pipeline."""
        if self.stream is None:
            raise UsageError("this model answers for whole inputs, so it cannot be streamed")
        return Stream(self.streams, pipeline, **options)

    def prepared(self, sample: Any) -> dict[str, Any]:
        """A sample as training prepares it, or where it has no other way, as the pipeline does."""
        if self.prepare is not None:
            return self.prepare(sample)
        assert self.pipeline is not None, "a deployment has steps for its inputs, or says how they are prepared"
        return self.pipeline.prepare(sample)

    @property
    def writer(self) -> Writer:
        """What writes, of a decoder: its net, step by step."""
        writes = None if self.pipeline is None else self.pipeline.writes
        assert self.writing is not None
        assert isinstance(self.module, Decoder), "a deployment with `writing` has a pdl.nn.Decoder for its module"
        return Writer(Eager(self.module), self.writing, list(self.inputs), None if writes is None else writes.text)

    def with_options(self, options: Options) -> Deployment:
        """The same, where a decoder searches with other options."""
        assert self.writing is not None
        return replace(self, writing=replace(self.writing, options=options))

    def stream_tokens(self, inputs: Mapping[str, Array]) -> Iterator[Token]:
        """Tokens for a batch of inputs by name, as a decoder writes them."""
        return self.writer.stream([inputs[name] for name in self.inputs])

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of the module by name, for a batch of inputs by name, in evaluation mode."""
        if self.writing is not None:
            return dict(zip(OUTPUTS, self.writer([inputs[name] for name in self.inputs]), strict=True))
        with evaluating(self.module):
            made = self.module(*[as_tensor(inputs[name]) for name in self.inputs])
        tensors = made if isinstance(made, tuple | list) else (made,)
        return {name: t.numpy() for name, t in zip(self.outputs, tensors, strict=True)}
