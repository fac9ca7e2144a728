"""The log of a training: metrics.jsonl for programs, a progress bar or plain lines for people."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from pdl.train.hooks import Hook
from pdl.train.loop import Evaluation, Trainer, steps_per_epoch, total_steps


class MetricsLog(Hook):
    """metrics.jsonl: one JSON object a line.

    {"kind": "step", "epoch", "step", "loss", "lr", "lr_lowest"?, "grad_norm"?, "seconds", parts of the loss...}   every
    `log_every` steps
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
        if state.step % self.every:
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
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


class Progress(Hook):
    """How far training is: a bar on a terminal, otherwise a line after each epoch and every `seconds` seconds in a
    long one."""

    def __init__(self, stream: TextIO | None = None, *, seconds: float = 30.0) -> None:
        self.stream = stream or sys.stderr
        self.seconds = seconds
        self._bar: Any = None
        self._task: Any = None
        self._began = self._shown = (0.0, 0.0)
        self._each: int | None = None
        self._total: int | None = None

    def on_start(self, trainer: Trainer) -> None:
        self._each = steps_per_epoch(trainer.loaders["train"], trainer.settings.accumulate, trainer.limit)
        self._total = total_steps(trainer.loaders["train"], trainer.settings, trainer.limit)
        self._began = (time.monotonic(), trainer.state.step)
        self._shown = (time.monotonic(), trainer.state.samples)
        if self.stream.isatty():
            self._bar, self._task = _bar(self.stream, self._total, trainer.state.step)

    def on_step(self, trainer: Trainer) -> None:
        if self._bar is not None:
            epoch = f"epoch {trainer.state.epoch + 1}/{trainer.settings.epochs}"
            status = f"{epoch}  loss {_short(trainer.last.loss)}  lr {trainer.last.lr:.2g}  {self._rate(trainer)}"
            self._bar.update(self._task, completed=trainer.state.step, status=status)
        elif time.monotonic() - self._shown[0] >= self.seconds:
            done = f"step {trainer.state.step}" + (f"/{self._total}" if self._total else "")
            self._say(trainer, f"  {done}  loss {_short(trainer.last.loss)}  lr {trainer.last.lr:.2g}")

    def on_epoch(self, trainer: Trainer) -> None:
        numbers = "  ".join(
            f"{name} {_short(value)}" for name, value in trainer.epoch_log.items() if not name.startswith("lr")
        )
        best = "  *" if trainer.improved else ""
        self._say(trainer, f"epoch {trainer.state.epoch}/{trainer.settings.epochs}  {numbers}{best}")

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        if self._bar is not None:
            self._bar.refresh()

    def on_message(self, trainer: Trainer, line: str) -> None:
        self._print(line)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _say(self, trainer: Trainer, text: str) -> None:
        line = f"{text}  {self._rate(trainer)}  {self._eta(trainer)}".rstrip()
        self._shown = (time.monotonic(), trainer.state.samples)
        self._print(line)

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            self.stream.write(line + "\n")
            self.stream.flush()

    def _rate(self, trainer: Trainer) -> str:
        seconds, samples = time.monotonic() - self._shown[0], trainer.state.samples - self._shown[1]
        return f"{samples / seconds:.0f} samples/s" if seconds > 0 and samples > 0 else ""

    def _eta(self, trainer: Trainer) -> str:
        steps = trainer.state.step - self._began[1]
        if not self._total or steps <= 0 or trainer.finished:
            return ""
        left = (self._total - trainer.state.step) * (time.monotonic() - self._began[0]) / steps
        return f"{duration(left)} left"


def duration(seconds: float) -> str:
    """Seconds as people write them: 8.2 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _bar(stream: TextIO, total: int | None, done: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[status]}"))
    bar = Bar(*columns, console=Console(file=stream), transient=True)
    bar.start()
    return bar, bar.add_task("train", total=total, completed=done, status="")


def _short(value: float) -> str:
    """A number in a line: four places, or four digits where these would say nothing."""
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e5 or value == 0 else f"{value:.4g}"
