"""`pdl train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Interrupted, Json, Recipe, recipe
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl train -c configs/cv/digits_lenet.yaml train.epochs=3    (go on with: pdl train --resume RUN)"
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OVERRIDES", help="train.epochs=3  +key=value  ~key. With --resume, the run.", show_default=False
    ),
]
Folder = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="The run folder; by default the next free one below runs/.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint of the run folder.")]
Fast = Annotated[bool, typer.Option("--fast-dev-run", help="A few batches of everything, to see that it works.")]
Overfit = Annotated[int, typer.Option("--overfit", metavar="N", min=0, help="Learn N samples by heart, as a check.")]


def command(
    words: Words = None,
    config: Recipe = None,
    run: Folder = None,
    resume: Resume = False,
    fast_dev_run: Fast = False,
    overfit: Overfit = 0,
    json: Json = False,
) -> None:
    """Train a recipe. The run folder then holds config.yaml, metrics, checkpoints, report.html and result.json."""
    overrides = list(words or ())
    if resume:
        run, overrides = _run_folder(run, overrides)
        config = config or run / "config.yaml"
    loaded = recipe(config, overrides)
    result = _train(loaded, run, resume=resume, fast_dev_run=fast_dev_run, overfit=overfit)
    style.json(result.to_dict()) if json else style.pairs(result.rows())


def _run_folder(run: Path | None, words: list[str]) -> tuple[Path, list[str]]:
    """`--resume RUN x=y` and `--run RUN --resume x=y` are the same."""
    if run is None and words and "=" not in words[0]:
        run, words = Path(words[0]), words[1:]
    if run is None:
        raise UsageError("which run? write: pdl train --resume RUN")
    return run, words


def _train(config: Any, run: Path | None, *, resume: bool, **options: Any) -> Any:
    """`pdl.train.train`, with the folder chosen here, so that an interruption can say how to go on."""
    from pdl.train import Run, train

    folder = Run(run) if resume and run is not None else Run.new(run, config.path.stem)
    try:
        return train(config, run=folder.path, resume=resume, **options)
    except KeyboardInterrupt:
        if folder.resumable:
            mode = f" --overfit {options['overfit']}" if options["overfit"] else ""
            mode += " --fast-dev-run" if options["fast_dev_run"] else ""
            raise Interrupted(f"interrupted; go on with: pdl train --resume {folder.path}{mode}") from None
        raise Interrupted("interrupted before the first checkpoint, so there is nothing to go on from") from None
