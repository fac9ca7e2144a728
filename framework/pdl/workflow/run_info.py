"""`info`: what a run is, and what it reached."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from pdl import checkpoint
from pdl.checkpoint import LAST
from pdl.errors import PdlError
from pdl.workflow.result import Result
from pdl.workflow.run import Run
from pdl.workflow.step_program import step_facts


def info(run: str | Path) -> dict[str, Any]:
    """What a run is and what it reached, and what its training step costs, as plain values.

    The step is traced for that, on a batch of the run's data; where these are gone, a line says so.
    """
    folder = Run.open(run)
    config, about = folder.config(), folder.describe()
    facts: dict[str, Any] = {
        "run": str(folder.path.resolve()),
        "recipe": about["recipe"],
        "started": about.get("started"),
    }
    facts |= {"task": config["task"]["_target_"], "model": config["model"]["_target_"]}
    try:
        facts["step"] = step_facts(config, folder.task)
    except PdlError as error:
        facts["step"] = {"program": f"not traced: {error}"}
    if folder.result.is_file():
        result = Result.load(folder.result).to_dict()
        names = (
            "status",
            "epochs",
            "steps",
            "seconds",
            "parameters",
            "weights",
            "metrics",
            "versions",
            "machine",
            "next",
        )
        return facts | {name: result[name] for name in names}
    if not folder.resumable:
        return facts | {"status": "no checkpoint yet", "next": f"pdl train --resume {shlex.quote(str(run))}"}
    state = checkpoint.load(folder.checkpoints / LAST)["state"]
    done = {"epochs": state["epoch"], "steps": state["step"], "seconds": state["seconds"], "metrics": state["metrics"]}
    return facts | {"status": "unfinished", **done, "next": f"pdl train --resume {shlex.quote(str(run))}"}
