"""Going on from a net that reads another dictionary: what it knows of characters that both have is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.hub.pretrained import Report, arrays_of, report, skipped
from pdl.nn import Module
from pdl.nn.stages import head_of
from pdl.runtime.bundle import read


def keep_characters(model: Module, source: str, characters: str) -> None:
    """Give the classes of a net's last layer the weights that `source` (a run, a bundle or a name of the hub) has for
    the same characters, and for the blank; others keep their random ones. Nothing happens where no dictionary is known
    of the source, or it is the same."""
    if skipped():
        return
    theirs = characters_of(source)
    if not theirs or theirs == characters:
        return
    (head,) = head_of(model)
    layer: Any = dict(model.named_modules())[head]
    given = arrays_of(model, source)
    weight, bias = given.get(f"{head}.weight"), given.get(f"{head}.bias")
    if weight is None or bias is None or weight.shape != (layer.weight.shape[0], len(theirs) + 1):
        return
    numbers = {character: number for number, character in enumerate(theirs, 1)}
    known = [(ours, numbers[c]) for ours, c in enumerate(characters, 1) if c in numbers]
    ours, found = np.array([(0, 0), *known]).T
    made = {name: value.data.copy() for name, value in layer.state_dict().items()}
    made["weight"][:, ours], made["bias"][ours] = np.asarray(weight)[:, found], np.asarray(bias)[found]
    layer.load_state_dict(made)
    how = f"the weights of {len(known)} of {len(characters)} characters and of the blank are kept"
    report(Report(str(source), type(model).__name__, 0, {head: how}))


def characters_of(source: str) -> str:
    """The characters that a run, a bundle or a model of the hub reads, in the order of their classes; "" where that is
    not known."""
    from pdl.export import bundle_of

    path = Path(source)
    file = path / "model.pdl" if path.is_dir() else path if path.is_file() else bundle_of(source)
    if file.suffix != ".pdl" or not file.is_file():
        return ""
    bundle = read(file)
    steps = [step for each in bundle.pipeline["post"].values() for step in each if step.get("step") == "ctc"]
    labels = "".join(bundle.labels)
    return labels + str(steps[0].get("more", "")) if steps and len(labels) == len(bundle.labels) else ""
