"""Pictures of how training goes, kept in the run folder and shown in its report."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

from pdl.files import write_atomic
from pdl.report import Section, png
from pdl.train.hooks import Hook

if TYPE_CHECKING:
    from pdl.train.loop import Evaluation, Trainer

FOLDER = "pictures"
SHOWN = 6  # evaluations in the report, spread over all


class Pictures(Hook):
    """Writes what `Task.pictures` makes of each evaluation on the validation data: EPOCH-NAME.png."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        for name, picture in trainer.task.pictures(evaluation).items():
            self.folder.mkdir(exist_ok=True)
            write_atomic(self.folder / f"{trainer.state.epoch:04d}-{name}.png", png(picture))


def picture_sections(folder: Path) -> list[Section]:
    """Of the pictures that a run has kept, those of some epochs."""
    names: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*-*.png")):
        names.setdefault(path.stem.partition("-")[2], []).append(path)
    return [Section(f"As training went: {name}", "".join(map(_shown, _spread(paths)))) for name, paths in names.items()]


def _spread(paths: list[Path]) -> list[Path]:
    count = min(SHOWN, len(paths))
    return [paths[round(i * (len(paths) - 1) / max(1, count - 1))] for i in range(count)]


def _shown(path: Path) -> str:
    source = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    return f'<p>Epoch {int(path.stem.partition("-")[0])}</p><img alt="" src="{source}">'
