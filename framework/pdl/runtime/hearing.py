"""What is said while it is still being said: texts by connectionist temporal classification as they grow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.sample import Sample

if TYPE_CHECKING:
    from pdl.runtime.steps.labels import Ctc

PAUSE = 0.6  # seconds without a character behind which an utterance has ended, if the last word has
GAP = 2.0  # seconds without a character that no word has inside
LONGEST = 30.0  # seconds of an utterance, where there is a word's end in it


class Hearing:
    """A `pdl.runtime.steps.outputs.Follower` of steps [n, classes], probabilities. Events are

        {"text": ..., "start": s, "end": s, "score": p, "words": [{"word", "start", "end", "score"}], "final": False}

    of the utterance that is being said, whenever its text has changed, and once it has ended with "final": True. Times
    are seconds since the stream began. The words of all final events are, of the best class of each step, those of the
    answer for the whole.
    """

    def __init__(self, step: Ctc, seconds: float) -> None:
        self.step, self.seconds = step, seconds
        self._done = 0  # steps of utterances before
        self._begin(None)

    def _begin(self, rows: Array | None) -> None:
        self._rows, self._text = rows, ""
        self._search = None
        if rows is not None and self.step.how is not None:
            self._search = self.step.search(rows.shape[1]).begin()
            self._search.feed(np.ascontiguousarray(rows))

    def feed(self, rows: Any) -> list[Any]:
        """The events of the next steps [n, classes]."""
        if self._rows is None:
            self._begin(rows)
        else:
            self._rows = np.concatenate([self._rows, rows])
            if self._search is not None:
                self._search.feed(np.ascontiguousarray(rows))
        found = []
        while (end := self._end()) is not None:
            found += self._ended(end)
        said = self._said(self._rows)
        if said["text"] != self._text:
            self._text = said["text"]
            found.append(self._event(said, final=False))
        return found

    def finish(self, length: int = 0) -> list[Any]:
        """The last utterance."""
        return [] if self._rows is None else self._ended(len(self._rows))

    def _ended(self, end: int) -> list[Any]:
        """The event of an utterance that ends there; what lies behind begins another one."""
        assert self._rows is not None
        if end < len(self._rows):
            first, rest = self._rows[:end], self._rows[end:]
            self._begin(first)
        else:
            rest = self._rows[:0]
        said = self._said(self._rows)
        found = [self._event(said, final=True)] if said["text"] else []
        self._begin(rest)
        self._done += end
        return found

    def _end(self) -> int | None:
        """Where the utterance ends, as a number of its steps; None where it goes on."""
        assert self._rows is not None
        count, step = len(self._rows), self.step
        best = self._rows.argmax(axis=1)
        space = np.isin(best, step.spaces)
        quiet = space | (best == step.blank)
        if not count or quiet.all():
            return count or None
        silent = int(np.argmax(~quiet[::-1]))  # steps behind the last character
        between = not len(step.spaces)
        if silent * self.seconds >= (PAUSE if between or space[count - silent :].any() else GAP):
            return count
        over = count * self.seconds / LONGEST
        if over >= 1:
            first = int(np.argmax(~quiet))
            ends = np.flatnonzero(space if over < 2 and not between else quiet)
            ends = ends[ends > first]
            return int(ends[-1]) + 1 if len(ends) else count if over >= 2 else None
        return None

    def _said(self, rows: Any) -> dict[str, Any]:
        if self._search is None:
            return self.step(rows, Sample()) if len(rows) else {"text": "", "score": 0.0, "words": []}
        classes, steps, _, log_p = next(iter(self._search.best(1)), ([], [], 0.0, 0.0))
        return self.step.answer(rows, classes, steps, math.exp(log_p / max(1, len(classes))))

    def _event(self, said: dict[str, Any], *, final: bool) -> dict[str, Any]:
        begin = self._done * self.seconds
        words = [
            {**word, "start": round(word["start"] + begin, 3), "end": round(word["end"] + begin, 3)}
            for word in said["words"]
        ]
        start, end = (words[0]["start"], words[-1]["end"]) if words else (round(begin, 3),) * 2
        return {"text": said["text"], "start": start, "end": end, "score": said["score"], "words": words,
                "final": final}  # fmt: skip
