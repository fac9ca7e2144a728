"""The log of a training: metrics.jsonl for programs, lines for people."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from pdl.distributed.launcher import CLEAR, job_terminal
from pdl.files import read_text
from pdl.train.hooks import Hook
from pdl.train.loop import Trainer, total_steps


class MetricsLog(Hook):
    """metrics.jsonl: one JSON object a line.

    {"kind": "step", "epoch", "step", "loss", "lr", "lr_lowest"?, "grad_norm"?, "seconds", parts of the loss...}   the
    first step and every `log_every` steps
    {"kind": "epoch", "epoch", "step", "train/loss", "lr", "val/loss", "val/...", "seconds", "samples_per_second"}
    {"kind": "test", "step", "test/loss", "test/...", "weights"}                                      once, at the end

    A checkpoint knows how long the file was; a resumed run cuts off what came after and writes it again.
    """

    def __init__(self, path: Path, every: int) -> None:
        self.path, self.every = path, every
        self._keep: int | None = None
        self._file: Any = None
        self._epoch_began = (0.0, 0.0)

    def on_start(self, trainer: Trainer) -> None:
        mode = "r+b" if self._keep is not None and self.path.is_file() else "wb"
        self._file = self.path.open(mode)
        if self._keep is not None and mode == "r+b":
            self._file.truncate(self._keep)
            self._file.seek(0, 2)
        self._epoch_began = (trainer.state.seconds, trainer.state.samples)

    def on_step(self, trainer: Trainer) -> None:
        state, last = trainer.state, trainer.last
        if state.step % self.every and state.step != 1:
            return
        line = {
            "kind": "step",
            "epoch": state.epoch + 1,
            "step": state.step,
            "loss": last.loss,
            "lr": last.lr,
            **last.lowest,
            **last.parts,
        }
        if last.grad_norm is not None:
            line["grad_norm"] = last.grad_norm
        self.write({**line, "seconds": round(state.seconds, 3)})

    def on_epoch(self, trainer: Trainer) -> None:
        state = trainer.state
        seconds, samples = state.seconds - self._epoch_began[0], state.samples - self._epoch_began[1]
        self._epoch_began = (state.seconds, state.samples)
        speed = {
            "seconds": round(state.seconds, 3),
            "samples_per_second": round(samples / seconds, 1) if seconds > 0 else None,
        }
        self.write({"kind": "epoch", "epoch": state.epoch, "step": state.step, **trainer.epoch_log, **speed})

    def write(self, line: dict[str, Any]) -> None:
        """Append one line, at once."""
        self._file.write(_encoded(line))
        self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def state_dict(self) -> dict[str, Any]:
        return {"bytes": self._file.tell() if self._file is not None else 0}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._keep = state.get("bytes")


def append_log(path: Path, line: dict[str, Any]) -> None:
    """Add one line to a finished metrics.jsonl."""
    with path.open("ab") as file:
        file.write(_encoded(line))


def _encoded(line: dict[str, Any]) -> bytes:
    """The line as JSON; NaN and infinity, which JSON lacks, become null."""
    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in line.items()}
    return json.dumps(plain).encode() + b"\n"


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; a last line that a kill cut short is left out."""
    lines = []
    for text in read_text(path).splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


COLUMNS = 120  # of a line where there is no terminal


class Progress(Hook):
    """How far training is, for people: on a terminal a line that is rewritten, and a line after each epoch, every
    `every` steps, and, where there is no terminal, every `seconds` seconds in a long epoch. That of an epoch has the
    losses and the monitored metric, then how fast it went, and of the other metrics as many as fit.

    stream   where it is printed; None: nowhere
    path     a file that all lines are added to, as they are; what is rewritten on a terminal is not among them
    """

    def __init__(
        self, stream: TextIO | None = None, *, seconds: float = 30.0, every: int | None = None, path: Path | None = None
    ) -> None:
        self.stream, self.seconds, self.every, self.path = stream, seconds, every, path
        self._began = self._shown = (0.0, 0.0)
        self._total: int | None = None
        self._wide: dict[str, int] = {}  # characters of each metric's longest number so far
        self._drawn = 0.0  # when the line of a terminal was; 0: there is none

    def on_start(self, trainer: Trainer) -> None:
        self._total = total_steps(trainer.loaders["train"], trainer.settings, trainer.limit)
        self._began = (time.monotonic(), trainer.state.step)
        self._shown = (time.monotonic(), trainer.state.samples)

    def on_step(self, trainer: Trainer) -> None:
        now, terminal = time.monotonic(), self._terminal
        if terminal and now - self._drawn >= 0.1:
            self._drawn = now
            self._write(CLEAR + fitted(self._position(trainer), self._columns - 1))
        waited = not terminal and now - self._shown[0] >= self.seconds
        if waited or (self.every is not None and trainer.state.step % self.every == 0):
            self._say(trainer, [f"  step {self._steps(trainer)}", *_step(trainer)])

    def on_epoch(self, trainer: Trainer) -> None:
        epochs = str(trainer.settings.epochs)
        numbers = {name: self._number(name, x) for name, x in trainer.epoch_log.items() if not name.startswith("lr")}
        learned = (f"train/{player.name or 'loss'}" for player in trainer.players)
        first = [numbers.pop(name) for name in (*learned, "val/loss", trainer.monitor) if name in numbers]
        mark = "*" if trainer.improved else " "
        self._say(trainer, [f"epoch {trainer.state.epoch:>{len(epochs)}}/{epochs}", *first, mark], [*numbers.values()])

    def _number(self, name: str, value: float) -> str:
        """A metric as wide as it was in any epoch before, so that epochs stand in columns."""
        text = short(value)
        self._wide[name] = max(self._wide.get(name, 0), len(text))
        return f"{name} {text:>{self._wide[name]}}"

    def on_message(self, trainer: Trainer, line: str) -> None:
        self.say(line.split(" "), gap=" ")

    def close(self) -> None:
        self._clear()

    def say(self, pieces: Sequence[str], *, more: Sequence[str] = (), gap: str = "  ") -> None:
        """Print pieces on a line; a terminal breaks it between two of them. Of `more` come as many as the line has room
        for; the file has all of them."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(gap.join([*pieces, *more]) + "\n")
        self._clear()
        columns, line = self._columns, gap.join(pieces)
        line = fitted([line, *more], max(columns, len(line)))
        self._write((line if len(line) <= columns or not self._terminal else broken(pieces, columns, gap)) + "\n")

    def _say(self, trainer: Trainer, pieces: list[str], more: Sequence[str] = ()) -> None:
        speed = [self._rate(trainer), self._left(trainer)]
        self._shown = (time.monotonic(), trainer.state.samples)
        self.say([*pieces, *filter(None, speed)], more=more)

    @property
    def _terminal(self) -> bool:
        """Whether lines can be rewritten: on a terminal, also one that the starter of a job hands them on to."""
        return self.stream is not None and (self.stream.isatty() or self._handed_on is not None)

    @property
    def _handed_on(self) -> int | None:
        return job_terminal() if self.stream is sys.stderr else None

    @property
    def _columns(self) -> int:
        return (self._handed_on or width()) if self._terminal else COLUMNS

    def _clear(self) -> None:
        if self._drawn:
            self._drawn = 0.0
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        if self.stream is not None:
            with suppress(OSError):  # the terminal is gone: training goes on without
                self.stream.write(text)
                self.stream.flush()

    def _position(self, trainer: Trainer) -> list[str]:
        """What the line of a terminal says, the more important first."""
        state = trainer.state
        bar = "" if not self._total else f"[{'#' * (20 * state.step // self._total):<20}]"
        pieces = [f"epoch {state.epoch + 1}/{trainer.settings.epochs}", self._steps(trainer), bar, *_step(trainer)]
        return [each for each in (*pieces, self._left(trainer), self._rate(trainer)) if each]

    def _steps(self, trainer: Trainer) -> str:
        return f"{trainer.state.step}/{self._total}" if self._total else str(trainer.state.step)

    def _rate(self, trainer: Trainer) -> str:
        seconds, samples = time.monotonic() - self._shown[0], trainer.state.samples - self._shown[1]
        return f"{samples / seconds:.0f} samples/s" if seconds > 0 and samples > 0 else ""

    def _left(self, trainer: Trainer) -> str:
        steps = trainer.state.step - self._began[1]
        if not self._total or steps <= 0 or trainer.finished:
            return ""
        left = (self._total - trainer.state.step) * (time.monotonic() - self._began[0]) / steps
        return f"{duration(left)} left"


def width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def fitted(pieces: Iterable[str], columns: int) -> str:
    """As many of the pieces, from the first on, as fit on a line, two spaces between them."""
    line = ""
    for piece in pieces:
        longer = f"{line}  {piece}" if line else piece
        if len(longer) > columns:
            break
        line = longer
    return line


def broken(pieces: Sequence[str], columns: int, gap: str = "  ") -> str:
    """Pieces with a gap between them, in lines that fit; those after the first are indented."""
    lines = [pieces[0]]
    for piece in pieces[1:]:
        longer = lines[-1] + gap + piece
        if len(longer) <= columns:
            lines[-1] = longer
        else:
            lines.append(f"    {piece}")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Seconds as people write them: 8.2 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _step(trainer: Trainer) -> list[str]:
    """The numbers of the latest step."""
    last, names = trainer.last, [player.name for player in trainer.players if player.name]
    losses = [f"{name} {short(last.parts[name])}" for name in names if name in last.parts]
    return [*(losses or [f"loss {short(last.loss)}"]), f"lr {last.lr:.2g}"]


def short(value: float) -> str:
    """A number in a line: four places, or four digits where these would say nothing; NaN (nothing to measure) as a
    dash."""
    if value != value:
        return "-"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.4g}"
