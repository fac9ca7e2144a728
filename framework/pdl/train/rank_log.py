"""What each process of a job says, in a file of its own in the run folder; and what only some say, told by the first.
"""

from __future__ import annotations

import json
import os
import time
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from pdl import watch
from pdl.distributed.group import Group
from pdl.train.hooks import Hook
from pdl.train.log import duration, short
from pdl.train.loop import Evaluation, Trainer
from pdl.version import __version__

FOLDER = "logs"
_SHOWN = 20  # messages of other ranks that an epoch shows


class RankLog(Hook):
    """FOLDER/logs/rank<r>.txt, as long as it is entered: host and process, messages, warnings, epochs with the time
    that was spent waiting for others, and the trace-back of what ends it; each with date and time. Going on adds to it.

    On ranks but the first, warnings go there instead of to the terminal. After an epoch the first rank says what only
    others have said, once, with their numbers. On machines that do not share the folder, one of the same path is made.
    """

    def __init__(self, group: Group, folder: Path) -> None:
        self.group, self.path = group, folder / FOLDER / f"rank{group.rank}.txt"
        self.said: list[str] = []  # messages that the first rank has not heard of yet
        self._file: TextIO | None = None
        self._waited = group.waited
        self._since = time.monotonic()

    def __enter__(self) -> RankLog:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:  # training goes on without
            self.said.append(f"no {self.path}: {error.strerror}")
        self._before = watch.note, warnings.showwarning
        watch.note, warnings.showwarning = self._note, self._warn  # type: ignore[assignment]
        rank, host = self.group.rank, self.group.hosts[self.group.rank]
        self.write(f"rank {rank} of {self.group.size}, host {host}, process {os.getpid()}, pdl {__version__}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        watch.note, warnings.showwarning = self._before
        said = "ended" if error is None else "".join(traceback.format_exception(kind, error, at)).rstrip()
        self.write(str(error) or "interrupted" if isinstance(error, KeyboardInterrupt) else said)
        if self._file is not None:
            self._file.close()

    def write(self, text: str) -> None:
        """Add a message, which may have several lines."""
        if self._file is not None:
            with suppress(OSError):  # a disk that is full ends no training
                self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  " + text.replace("\n", "\n    ") + "\n")

    def say(self, text: str) -> None:
        """Add a message that the first rank is to hear of."""
        self.said.append(text)
        self.write(text)

    def _note(self, line: str) -> None:
        self.say(line)
        if not self.group.rank:
            self._before[0](line)

    def _warn(self, message: Warning | str, category: type[Warning], file: str, line: int, *rest: Any) -> None:
        self.say(f"{category.__name__}: {message} ({file}:{line})")
        if not self.group.rank:
            self._before[1](message, category, file, line, *rest)

    def on_start(self, trainer: Trainer) -> None:
        self._mark()

    def on_message(self, trainer: Trainer, line: str) -> None:
        self.say(line)

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        self.write(f"evaluated in {duration(evaluation.seconds)}")

    def on_epoch(self, trainer: Trainer) -> None:
        state, waited = trainer.state, self.group.waited - self._waited
        self.write(
            f"epoch {state.epoch}, step {state.step}, train/loss {short(state.train_loss)}, "
            f"{duration(time.monotonic() - self._since)}, of which {duration(waited)} waiting for others"
        )
        self._mark()
        for line in self.of_others():
            trainer.emit("on_message", line)
        self.said = []

    def _mark(self) -> None:
        self._since, self._waited = time.monotonic(), self.group.waited

    def of_others(self) -> list[str]:
        """To be called by all ranks: on the first, what others have said and it has not, with their numbers."""
        several = [json.loads(text) for text in self.group.texts(json.dumps(self.said[:_SHOWN]))]
        if self.group.rank:
            return []
        known, ranks = set(self.said), dict[str, list[int]]()
        for rank, lines in enumerate(several):
            for line in lines:
                if line not in known:
                    ranks.setdefault(line, []).append(rank)
        return [f"{named(by)}: {line}" for line, by in ranks.items()]


def named(ranks: Sequence[int]) -> str:
    """Ranks in words: rank 3; ranks 1-3 and 7."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        elif not runs or rank != runs[-1][1]:
            runs.append([rank, rank])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    plural = "s" if len(words) > 1 or "-" in words[0] else ""
    return f"rank{plural} " + " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
