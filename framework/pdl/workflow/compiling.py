"""What one does with a bundle: `compile_model` writes its program as C, or as what is made of that."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.export.c.arduino import Board, arduino_folder
from pdl.export.c.model import Report, identifier, to_c
from pdl.export.c.project import FLAGS, write_project
from pdl.export.c.running import built, compiler, require_cpu, said
from pdl.export.c.steps import Steps
from pdl.export.c.web import web_folder
from pdl.program import Program
from pdl.runtime.bundle import Bundle, read
from pdl.runtime.session import Session, of_bundle
from pdl.version import __version__
from pdl.workflow.locating import located

TARGETS = ("c", "wasm", "arduino")
BUNDLE, EXAMPLE = "model.pdl", "example.*"


#: target -> what its test needs
TESTERS = {"c": "C compiler", "wasm": "Node.js", "arduino": "arm-none-eabi-gcc and qemu-system-arm"}


@dataclass(frozen=True)
class Compiled:
    """What `compile_model` made.

    facts       (name, value), for people and programs
    difference  of the compiled test from the runtime, where this machine has what runs it (`TESTERS`); else None
    code        bytes of instructions that this machine's compiler makes of it with -Os, for the target "c"; else None
    emulated    of the test on another CPU, by that CPU; empty where none was asked for
    board       what the test on an emulated Cortex-M4 found, for the target "arduino"; else None
    module      bytes of model.wasm, for the target "wasm"; else None
    """

    to: str
    folder: Path
    files: list[Path]
    report: Report
    difference: float | None
    code: int | None = None
    emulated: dict[str, float] = field(default_factory=dict)
    board: Board | None = None
    module: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """What `pdl compile` shows."""
        made, board = self.report, self.board
        takes, gives = (
            ", ".join(f"{p.name} {p.dtype} [{', '.join(map(str, p.shape))}]" for p in ports)
            for ports in (made.inputs, made.outputs)
        )
        flash, ram = made.flash + (self.code or 0), made.ram
        parts = f"{made.flash:,} weights and tables" + ("" if self.code is None else f" + {self.code:,} code")
        more = f"{made.arena:,} arena + {made.ram - made.arena:,} inputs and outputs"
        if board is not None:
            flash, ram = board.flash, made.ram + board.stack
            parts = f"{made.flash:,} weights and tables + {flash - made.flash:,} code of Cortex-M4"
            more += f" + {board.stack:,} stack"
        sizes = [("flash", f"{flash:,} bytes: {parts}"), ("RAM", f"{ram:,} bytes: {more}")]
        if board is not None:
            sizes.append(("a run", f"{board.instructions:,} instructions of Cortex-M4"))
        if self.module is not None:
            sizes = [("module", f"{self.module:,} bytes: {made.flash:,} weights and tables"), sizes[1]]
        ops = ", ".join(f"{count} {name}" for name, count in sorted(made.ops.items(), key=lambda each: -each[1]))
        found = (
            f"no {TESTERS[self.to]} here"
            if self.difference is None
            else f"{self.difference:.1e} of the runtime's outputs"
        )
        return [
            ("folder", str(self.folder)),
            ("function", f"{made.name}_run: {takes} -> {gives}"),
            *sizes,
            ("ops", ops),
            ("difference", found),
            *((f"on {cpu}", f"{apart:.1e} of them, emulated by QEMU") for cpu, apart in self.emulated.items()),
        ]

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        made = self.report
        return {
            "to": self.to, "folder": str(self.folder), "name": made.name,
            "files": [path.relative_to(self.folder).as_posix() for path in self.files],
            "flash": made.flash, "code": self.code, "arena": made.arena, "ram": made.ram, "module": self.module,
            "board": None if self.board is None else self.board._asdict(), "ops": dict(made.ops),
            "inputs": [vars(p) for p in made.inputs], "outputs": [vars(p) for p in made.outputs],
            "difference": self.difference, "emulated": self.emulated, "notes": self.notes,
        }  # fmt: skip


def compile_model(
    model: str | Path,
    out: str | Path,
    *,
    to: str = "c",
    shapes: Mapping[str, Sequence[int]] | None = None,
    name: str = "",
    apart: bool = False,
    fast: bool = False,
    sample: Any = None,
    cpu: str = "",
) -> Compiled:
    """Write the program of a bundle (or of a run's model.pdl, or of a model of the hub) as C99 into a folder.

    to       "c": sources; "wasm": WebAssembly with a module of JavaScript and a page, by ziglang; "arduino": a library
             for microcontrollers
    shapes   of inputs by name, whole, as (1, 32, 32, 3); by default one sample of the size that it was traced at
    name     of the files and functions; by default the bundle's
    apart    weights in a file beside the source, which the assembler includes: for those of many megabytes
    fast     3x3 convolutions by Winograd's filters, whose weights take four times the bytes
    sample   what the folder's test is made of: an input that the model's steps take, such as the path of a picture; by
             default the example of a run folder, else made-up numbers
    cpu      of "c": the test is run on it, too, emulated by QEMU: aarch64, arm or riscv64 (`pdl.export.c.running.CPUS`)

    The folder's test is run where this machine has what it needs: a C compiler, Node.js, or a compiler for Cortex-M and
    QEMU. CheckError where it differs from the runtime by more than 1e-5 of the outputs, or, on bytes, at all;
    PackageError where ziglang is not installed that is needed.
    """
    if to not in TARGETS:
        raise UsageError(f"--to {to}: choose {', '.join(TARGETS[:-1])} or {TARGETS[-1]}")
    if to == "arduino" and apart:
        raise UsageError("--apart: Arduino's tools assemble no weights; leave it out")
    if cpu and to != "c":
        raise UsageError(f"--cpu {cpu}: {to} is for a machine of its own; leave it out")
    require_cpu(cpu)
    bundle = read(_bundle_of(model))
    program, takes, gives = _program(bundle)
    label = identifier(name or Path(bundle.source).stem or bundle.meta["name"])
    steps = Steps(label, bundle.pipeline, bundle.labels)
    about = _about(bundle, label)
    made = to_c(
        program, label, shapes=shapes, inputs=takes, outputs=gives, about=about, extra=steps,
        apart=apart or to == "wasm", fast=fast,
    )  # fmt: skip
    session = of_bundle(bundle, threads=1)
    given = _sample(session, made, _example_of(model) if sample is None else sample, asked=sample is not None)
    expected = session.run(given)
    exact = any(op.startswith("Q") for op in made.ops) and all(p.dtype == "uint8" for p in made.outputs)
    unordered = session.pipeline is not None and session.pipeline.unordered
    folder, title = Path(out), bundle.meta["name"]
    if to == "wasm":
        files = web_folder(
            folder, made, steps, given, expected, exact=exact, unordered=unordered, title=title, version=__version__
        )
        size = (folder / "model.wasm").stat().st_size
        notes = [] if folder / "index.html" in files else ["no index.html: the model does not name pictures"]
        return Compiled(to, folder, files, made, _checked_in_node(folder), module=size, notes=notes)
    if to == "arduino":
        files, board = arduino_folder(
            folder, made, steps, given, expected, exact=exact, unordered=unordered, title=title, version=__version__
        )
        found = None if board is None else board.difference
        return Compiled(to, folder, files, made, found, board=board, notes=steps.notes)
    files = write_project(folder, made, given, expected, exact=exact, unordered=unordered, version=__version__)
    difference, code = _checked(folder, made)
    emulated = {cpu: _difference(folder, made, cpu, "-O2")} if cpu else {}
    return Compiled(to, folder, files, made, difference, code, emulated, notes=steps.notes)


def _bundle_of(model: str | Path) -> Path:
    """The bundle of a word of the command line."""
    path = located(str(model))
    if path.is_dir():
        path = path / BUNDLE
        if not path.is_file():
            raise UsageError(f"{model} has no {BUNDLE}; write it first: pdl export {model}")
    return path


def _program(bundle: Bundle) -> tuple[Program, list[str], list[str]]:
    """The program of a bundle, with the names of its inputs and outputs. UsageError for kinds that are no one
    program."""
    stored = bundle.program
    if stored["kind"] == "program":
        return bundle.build(), stored["inputs"], stored["outputs"]
    kinds = {
        "system": "several models",
        "decoder": "a model that writes token by token",
        "onnx": "a graph whose form depends on its input",
    }
    raise UsageError(f"{bundle.source} is {kinds[stored['kind']]}; what becomes C is one program of fixed sizes")


def _about(bundle: Bundle, name: str) -> str:
    licence = f"Licence of the weights: {bundle.meta['licence']}" if bundle.meta["licence"] else ""
    lines = [
        f"{bundle.meta['name']} as C, written by pdl {__version__}.",
        licence,
        f"See README.txt; {name}_run is the net.",
    ]
    return "\n".join(line.replace("*/", "* /") for line in lines if line)


def _example_of(model: str | Path) -> Path | None:
    """The example of a run folder."""
    return next(iter(sorted(Path(model).glob(EXAMPLE))), None) if Path(model).is_dir() else None


def _sample(session: Session, made: Report, example: Any, *, asked: bool) -> dict[str, Array]:
    """An input that the model takes: an example as its steps prepare it, else made-up numbers. UsageError where an
    example that was `asked` for does not fit."""
    rng, found = np.random.default_rng(0), dict[str, Array]()
    prepared = session.pipeline.prepare(example) if session.pipeline is not None and example is not None else {}
    for port in made.inputs:
        given = prepared.get(port.name)
        if asked and (given is None or given[None].shape != port.shape):
            raise UsageError(f"--sample {example}: its steps make no {port.name} {list(port.shape)} of it")
        given = given[None] if given is not None and given[None].shape == port.shape else None
        if given is None and session.pipeline is not None:
            given = session.pipeline.random(port.name, port.shape, rng, {})
        if given is None or given.shape != port.shape:
            whole = np.dtype(port.dtype).kind in "iub"
            given = rng.integers(0, 2, port.shape) if whole else rng.standard_normal(port.shape)
        found[port.name] = np.asarray(given).astype(port.dtype)
    return found


def _checked(folder: Path, made: Report) -> tuple[float | None, int | None]:
    """The difference that main.c finds, and the bytes of code; None where there is no compiler. CheckError where the
    sources do not compile, or differ from the runtime."""
    command = compiler()
    if command is None:
        return None, None
    with TemporaryDirectory() as place:
        object_file = Path(place) / "model.o"
        flags = FLAGS.replace("-O3", "-Os").split()
        said(folder, [*command, *flags, "-c", "-o", str(object_file), f"{made.name}.c"])
        code = _code_bytes(object_file)
    return _difference(folder, made, "", "-O1"), code


def _difference(folder: Path, made: Report, cpu: str, *flags: str) -> float:
    """What main.c finds on this machine, or on an emulated CPU."""
    with TemporaryDirectory() as place:
        return float(said(folder, built(folder, made, "main.c", Path(place) / "test", *flags, cpu=cpu)).split()[-1])


def _checked_in_node(folder: Path) -> float | None:
    """The difference that test.mjs finds; None where there is no Node.js. CheckError where it differs."""
    node = shutil.which("node")
    return None if node is None else float(said(folder, [node, "test.mjs"]).split()[-1])


def _code_bytes(object_file: Path) -> int | None:
    """Bytes of the sections of instructions of an object file, as binutils' size tells them."""
    tool = shutil.which("size")
    if tool is None:
        return None
    lines = said(object_file.parent, [tool, "-A", str(object_file)]).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(".text"))
