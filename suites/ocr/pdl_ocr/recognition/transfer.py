"""Going on from a net that reads another dictionary: what it knows of characters that both have is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pdl.config.source import parsed
from pdl.errors import DataError
from pdl.hub.pretrained import Report, arrays_of, report, skipped
from pdl.onnx import reader
from pdl.runtime.bundle import read
from pdl_ocr.models.recogniser import DECODINGS, Recogniser


def keep_characters(model: Recogniser, source: str, characters: str) -> None:
    """Give the classes of a net (`Recogniser.lettered`) the weights that `source` (a run, a bundle or a name of the
    hub) has for the same characters, and for class 0; others keep their random ones. Nothing happens where no
    dictionary is known of the source, or it is the same."""
    if skipped():
        return
    theirs = characters_of(source)
    if not theirs or theirs == list(characters):
        return
    given = arrays_of(model, source)
    numbers = {character: number for number, character in enumerate(theirs, 1)}
    known = [(ours, numbers[c]) for ours, c in enumerate(characters, 1) if c in numbers]
    ours, found = np.array([(0, 0), *known]).T
    made = {name: model.state_dict()[name].data.copy() for name in model.lettered}
    for name, axis in model.lettered.items():
        kept = given.get(name)
        if kept is None or kept.shape != _with(made[name].shape, axis, len(theirs) + 1):
            return
        np.moveaxis(made[name], axis, 0)[ours] = np.moveaxis(np.asarray(kept), axis, 0)[found]
    model.load_state_dict(made, strict=False)
    layers = dict.fromkeys(name.rpartition(".")[0] for name in made)
    how = f"the weights of {len(known)} of {len(characters)} characters and of {model.decoding.other} are kept"
    report(Report(str(source), type(model).__name__, 0, dict.fromkeys(layers, how)))


def _with(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def characters_of(source: str) -> list[str]:
    """The characters that a run, a bundle or a model of the hub reads, in the order of their classes; none where that
    is not known. A class may be a sequence of several (flags, in PP-OCRv5), which no dictionary of a task has."""
    from pdl.export import bundle_of

    path = Path(source)
    file = path / "model.pdl" if path.is_dir() else path if path.is_file() else bundle_of(source)
    if file.suffix in (".onnx", ".pdiparams"):
        return _of_paddle(file)
    if file.suffix != ".pdl" or not file.is_file():
        return []
    bundle = read(file)
    steps = [step for each in bundle.pipeline["post"].values() for step in each if step.get("step") in DECODINGS]
    return [*bundle.labels, *str(steps[0].get("more", ""))] if steps else []


def _of_paddle(file: Path) -> list[str]:
    """The characters of PaddleOCR's inference.yml beside a file, or else of the metadata that RapidOCR puts into ONNX
    files; a space is the last class behind them."""
    settings = file.with_name("inference.yml")
    if settings.is_file():
        found: Any = parsed(settings.read_text(encoding="utf-8"), settings)
        for key in ("PostProcess", "character_dict"):
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, list):
            raise DataError(f"{settings}: it has no list PostProcess.character_dict, the characters of {file.name}")
        characters = [str(each) for each in found]
    else:
        metadata = (reader.read(file).metadata or {}) if file.suffix == ".onnx" else {}
        characters = metadata.get("character", "").splitlines()
    return [*characters, " "] if characters else []
