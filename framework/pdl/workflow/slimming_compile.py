"""The section `compile` of a plan: the bundle of every step as a program in C, held to the runtime on real samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl import random
from pdl.data import Dataset, Subset
from pdl.dtype import Array
from pdl.errors import CheckError
from pdl.export.c.running import Apart, InC, difference
from pdl.hints import Range
from pdl.runtime.bundle import Bundle, read
from pdl.runtime.session import Session, of_bundle
from pdl.tensor import as_tensor
from pdl.train.deployed import Deployed
from pdl.workflow.compiling import compile_model
from pdl.workflow.evaluation import recipe_of

FOLDER = "c"
#: how far an answer may be from the runtime's, over the largest number of its output
TOLERANCE = 1e-5


@dataclass(frozen=True, kw_only=True)
class AsC:
    """Every step's net as C99, for one sample (`pdl compile`), which answers some of the validation data.

    cpu       one that it runs on, too, emulated by QEMU; "": none
    fast      3x3 convolutions by Winograd's filters, whose weights take four times the bytes
    samples   that it answers on this machine
    emulated  that it answers on `cpu`: emulation is slow
    """

    cpu: Literal["", "aarch64", "arm", "riscv64"] = ""
    fast: bool = False
    samples: Annotated[int, Range(1)] = 16
    emulated: Annotated[int, Range(1)] = 2


@dataclass(frozen=True)
class Compiled:
    """A net in C.

    folder        of its sources
    size          bytes of the program, stripped, as this machine's compiler makes it
    milliseconds  of one input, the median, on one thread
    difference    of its answers from the runtime's, over the largest number of an output
    alone         how many objects only one of both has, of a detector: nearly equal scores, and overlaps near the
                  limit, decide which of two boxes stays
    emulated      the difference on the emulated CPU; None where none was asked for
    """

    folder: Path
    size: int
    milliseconds: float
    difference: float
    alone: int
    emulated: float | None


class Programs(ExitStack):
    """Programs that run until they are closed: `sessions` by name of the step, and what was found of each, by name, as
    `Compiled` without milliseconds has it."""

    def __init__(self, folder: Path, given: AsC | None, bundles: Mapping[str, Path], split: str) -> None:
        super().__init__()
        self.sessions: dict[str, InC] = {}
        self.found: dict[str, dict[str, Any]] = {}
        if given is None:
            return
        try:
            for name, path in bundles.items():
                self._add(folder / FOLDER / name, given, name, read(path), split)
        except BaseException:
            self.close()
            raise

    def _add(self, folder: Path, given: AsC, name: str, bundle: Bundle, split: str) -> None:
        session = of_bundle(bundle, threads=1)
        made = compile_model(bundle.source, folder, name="net", apart=True, fast=given.fast)
        samples = list(samples_of(bundle, session, split, given.samples))
        program = self.sessions[name] = self.enter_context(InC(folder, made.report, session))
        found: dict[str, Any] = {"folder": folder, "size": program.size, "emulated": None}
        found["difference"], found["alone"] = apart(name, program, session, samples)
        if given.cpu:
            with InC(folder, made.report, session, given.cpu) as emulated:
                found["emulated"] = apart(f"{name} on {given.cpu}", emulated, session, samples[: given.emulated]).worst
        self.found[name] = found


def apart(name: str, program: InC, session: Session, samples: Sequence[Mapping[str, Array]]) -> Apart:
    """How far a program is from the runtime; CheckError beyond `TOLERANCE`."""
    unordered = session.pipeline is not None and session.pipeline.unordered
    found = [difference(program.run(each), session.run(each), unordered=unordered) for each in samples]
    worst = max(each.worst for each in found)
    if not worst <= TOLERANCE:
        raise CheckError(f"{name} in C differs from the runtime by {worst:.2g} of its largest output")
    return Apart(worst, sum(each.alone for each in found))


class _Seen(Deployed):
    """A bundle that keeps what it is asked."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.seen: list[list[Array]] = []

    def forward(self, *inputs: Any) -> Any:
        self.seen.append([np.array(as_tensor(x).numpy()) for x in inputs])
        return super().forward(*inputs)


def samples_of(bundle: Bundle, session: Session, split: str, count: int) -> Iterator[dict[str, Array]]:
    """What the net is given for so many samples of a split, spread over the whole of it, one by one."""
    recipe = recipe_of(bundle)
    task: Any = recipe.task.build()
    task.vocabularies.update(bundle.vocabularies)
    task.constants.update(bundle.constants)
    with random.fork_seed(recipe.settings.seed):
        data = recipe.data.datasets((split,))
        task.prepare(recipe, data)
        dataset = data[split]
        if isinstance(dataset, Dataset) and len(dataset) > count:
            dataset = Subset(dataset, np.linspace(0, len(dataset) - 1, count).astype(int).tolist())
        model = _Seen(session)
        task.check_model(model, data, recipe)
        model.seen.clear()
        for batch in task.loader(dataset, recipe, training=False, seed=0):
            task.evaluate(model, batch)
    for inputs in model.seen:
        for i in range(min(count, len(inputs[0]))):
            yield {port.name: x[i : i + 1] for port, x in zip(session.inputs, inputs, strict=True)}
