"""Small bundles of every task of every suite: its quick recipes, cut down as the self-test does, trained for an epoch.

    python -m tests.framework.runtime.exported FOLDER

writes a NAME.pdl for each, and NAME.json with inputs for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.config import from_dict
from pdl.workflow import Run, selftest, train
from pdl.workflow.exporting import deployment_of, export
from tests.test_recipes import QUICK, RECIPES

ITEMS = 2


def write(name: str, folder: Path) -> None:
    """The bundle of a recipe, and inputs for it."""
    with tempfile.TemporaryDirectory() as work:
        cut = selftest.cut_down(RECIPES[name], [], Path(work) / "data")
        tree = cut.config.plain()
        tree["train"] = {**tree["train"], "epochs": 1, "report": False}
        config = from_dict(tree)
        config.path = cut.config.path
        run = Run.open(train(config, run=Path(work) / "run", progress=False).run)
        target = folder / f"{name.replace('/', '_')}.pdl"
        export(run.path, target)
        opened = run.opened()
        split = next(split for split in ("test", "val", "train") if tree["data"].get(split) is not None)
        dataset = opened.recipe.data.datasets((split,))[split]
        samples = deployment_of(opened.task.deployer(opened.recipe), opened.model, dataset).samples[:ITEMS]
        target.with_suffix(".json").write_text(json.dumps([*_stored(samples)]))


def items_of(bundle: Path) -> list[Any]:
    """The inputs that `write` left with a bundle."""
    return [_array(item) for item in json.loads(bundle.with_suffix(".json").read_text())]


def _stored(samples: Sequence[Any]) -> Iterator[Any]:
    """Those that are plain values; a task may hand over more, such as an open folder of graphs."""
    for sample in samples:
        with contextlib.suppress(TypeError):
            json.dumps(made := _plain(sample))
            yield made


def _plain(item: Any) -> Any:
    if isinstance(item, np.ndarray | np.generic):
        return {"array": item.tolist(), "dtype": item.dtype.name}
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items()}
    return [_plain(value) for value in item] if isinstance(item, list | tuple) else item


def _array(item: Any) -> Any:
    if isinstance(item, dict):
        return (
            np.array(item["array"], item["dtype"]) if item.keys() == {"array", "dtype"}
            else {key: _array(value) for key, value in item.items()}
        )  # fmt: skip
    return [_array(value) for value in item] if isinstance(item, list) else item


def names() -> Iterator[str]:
    """The recipes."""
    yield from (name for each in QUICK.values() for name in each)


def main(folder: Path) -> None:
    """See the module."""
    os.environ |= {"PDL_OFFLINE": "1", "PDL_DATA": str(folder / "nothing")}
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        write(name, folder)
    sys.stdout.write(json.dumps({"bundles": len(list(folder.glob("*.pdl")))}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
