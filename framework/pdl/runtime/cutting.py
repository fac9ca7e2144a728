"""Long recordings cut at pauses: read part by part, so that memory does not grow with them, and answered as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, TimeLimitError, UsageError
from pdl.runtime.steps.inputs import Flag

if TYPE_CHECKING:
    from pdl.runtime.pipeline import Answer, Pipeline

VAD = Flag("--vad", "MODEL", "Cut recordings at pauses that this model finds, such as speech/silero_vad.")
LONGEST = 20.0  # seconds of a part, if there are pauses


class Cutter:
    """What cuts recordings into parts where somebody speaks.

    predictor  a model that is streamed and finds segments: events {"start", "end"} in seconds
    longest    seconds of a part: segments that follow one another are one while it is not longer; what is longer is cut
    """

    def __init__(self, predictor: Any, longest: float = LONGEST) -> None:
        if not getattr(getattr(predictor, "pipeline", None), "streams", False):
            raise UsageError("--vad: this model finds no pauses in a stream; take speech/silero_vad")
        self.predictor, self.longest = predictor, longest

    def answers(
        self,
        pipeline: Pipeline,
        items: Iterable[Any],
        run: Callable[[dict[str, Array]], Mapping[str, Array]],
        *,
        skip_errors: bool = False,
    ) -> list[Answer]:
        """As `Pipeline.answers`; each item part by part."""
        from pdl.runtime.pipeline import Answer

        found = []
        for item in items:
            try:
                found.append(self._answer(pipeline, item, run))
            except DataError as error:
                if not skip_errors or isinstance(error, TimeLimitError):
                    raise
                found.append(Answer(error=str(error)))
        return found

    def _answer(self, pipeline: Pipeline, item: Any, run: Callable[[dict[str, Array]], Mapping[str, Array]]) -> Answer:
        from pdl.runtime.pipeline import Answer

        (name,) = (name for name, steps in pipeline.post.items() if steps)
        starts, answers = [], []
        for start, part in self.parts(pipeline, item):
            (answer,) = pipeline.answers([part], run)
            starts.append(start)
            answers.append(answer.value)
        return Answer(pipeline.post[name][-1].joined_in_time(answers, starts), (name,))

    def parts(self, pipeline: Pipeline, item: Any) -> Iterator[tuple[float, tuple[Array, int]]]:
        """Where each part begins, in seconds, and its samples with their rate."""
        options, pieces = pipeline.input.pieces_of(item)
        rate, stream, spans = options["rate"], self.predictor.stream(**options), Spans(self.longest)
        kept, begin = np.zeros(0, np.float32), 0  # samples, and the number of the first one

        def cut(found: list[tuple[float, float]]) -> Iterator[tuple[float, tuple[Array, int]]]:
            for start, end in found:
                first, last = max(round(start * rate), begin), round(end * rate)
                yield first / rate, (kept[first - begin : last - begin], rate)

        for piece in pieces:
            kept = np.concatenate([kept, piece])
            now = (begin + len(kept)) / rate
            yield from cut(spans.feed(stream.push(piece), now))
            drop = min(max(round(spans.needed(now) * rate) - begin, 0), len(kept))
            kept, begin = kept[drop:], begin + drop
        yield from cut(spans.feed(stream.finish(), (begin + len(kept)) / rate))
        yield from cut(spans.finish())


class Spans:
    """Parts (start, end), in seconds, of the segments that events tell of."""

    def __init__(self, longest: float) -> None:
        self.longest = longest
        self._part: tuple[float, float] | None = None  # segments that have ended
        self._open: float | None = None  # where the one began that has not
        self._cut = 0.0  # what lies before is in a part

    def feed(self, events: Iterable[Mapping[str, Any]], now: float) -> list[tuple[float, float]]:
        """The parts that are known by then."""
        found = []
        for event in events:
            self._open = None if event["final"] or "start" not in event else max(event["start"], self._cut)
            if event["final"]:
                start, end = max(event["start"], self._cut), event["end"]
                if self._part is not None and end - self._part[0] > self.longest:
                    found += self.finish()
                self._part = (start if self._part is None else self._part[0], end)
        if self._open is not None and now - self._open > self.longest:  # nobody pauses
            found += [*self.finish(), (self._open, now)]
            self._open = self._cut = now
        return found

    def finish(self) -> list[tuple[float, float]]:
        """The part that is not full."""
        found, self._part = [] if self._part is None else [self._part], None
        return found

    def needed(self, now: float) -> float:
        """Since when a recording is still needed: a second ago, of which speech may be the beginning, or before."""
        starts = (now - 1.0, *(() if self._open is None else (self._open,)), *(self._part or ())[:1])
        return min(starts)
