"""`to_c`: a program of fixed sizes as C source and header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from pdl.errors import ShapeError, UsageError
from pdl.export.c.registry import EMITTERS, Refused, listed, place_of
from pdl.export.c.source import TYPES, Source, sections
from pdl.program.ir import Program
from pdl.program.memory import plan_memory
from pdl.program.passes import INFERENCE_ONCE, run_passes
from pdl.program.passes.cleanup import drop_indices, remove_dead
from pdl.program.passes.fold import fold_constants
from pdl.program.specialise import bind, specialise
from pdl.runtime.plan import frozen

for _name in ("boxes", "bytes", "dense", "layers", "pointwise", "shape", "spectral"):
    import_module(f"pdl.export.c.emit_{_name}")

#: what every folder has, beside the source and the header
FILES = ("main.c", "Makefile", "README.txt")
#: words that C has for itself, and names of the templates that a parameter may not hide
_TAKEN = frozenset(
    {
        "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
        "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
        "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "main",
        "arena", "x", "y", "a", "b", "d", "s", "load", "store", "every", "plus", "fused", "between", "scaled",
        "zeros", "dot", "place", "conv", "memcpy",
    }
)  # fmt: skip
_HEAD = """\
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "{name}.h"

#if INT_MAX < 0x7fffffff
#error "ints have 16 bits here; {name} needs 32"
#endif
/* Numbers are rounded where the runtime rounds them. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
#if defined(__GNUC__)
#define ALIGNED __attribute__((aligned(64)))
#else
#define ALIGNED
#endif
"""


@dataclass(frozen=True)
class Port:
    """A parameter of the run function: an input or output of the program."""

    name: str
    word: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """How many elements it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return self.size * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Report:
    """A program in C.

    source, header   the texts of NAME.c and NAME.h
    weights          what the source includes from NAME.bin, where weights lie apart; else empty
    flash            bytes of constants
    arena            bytes of the block that a run works in, static in the source
    ops              op -> how many of them there are
    inputs, outputs  the parameters of NAME_run
    """

    name: str
    source: str
    header: str
    weights: bytes
    flash: int
    arena: int
    ops: Mapping[str, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def ram(self) -> int:
        """Bytes of the arena, and of inputs and outputs, which belong to the caller."""
        return self.arena + sum(p.nbytes for p in (*self.inputs, *self.outputs))


def identifier(text: str) -> str:
    """A name that C takes."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII) or "model"
    return f"m_{word}" if word[0].isdigit() or word in _TAKEN else word


def to_c(
    program: Program,
    name: str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    about: str = "",
    extra: Any = None,
    apart: bool = False,
    fast: bool = False,
) -> Report:
    """A program, traced in evaluation mode, as C99 for fixed sizes.

    name     of the function NAME_run and of the files
    shapes   of inputs by name; of the others an axis of any size has 1 where it is the first one, else its example
    about    lines for the comment at the top of the header
    extra    called as extra(source, ports of inputs, ports of outputs) -> (lines of the header, lines of the source):
             what is around the program, such as steps of a pipeline
    apart    weights go into NAME.bin, which NAME_weights.S includes
    fast     3x3 convolutions by Winograd's filters, whose weights take four times the bytes

    Raises UsageError naming each op, and the line of code it comes from, that has no C form; ShapeError for sizes that
    the program does not take.
    """
    if program.effects:
        raise UsageError(
            f"{program.name} changes its buffers when it runs; trace the model in evaluation mode (.eval())"
        )
    name = identifier(name)
    takes = list(inputs or (v.name or f"input{i}" for i, v in enumerate(program.inputs)))
    fixed = fixed_program(program, takes, shapes or {})
    gives = list(outputs or (f"output{i}" for i in range(len(fixed.outputs))))
    words = _words([*takes, *gives])
    values = [v for v in fixed.outputs if v is not None]
    if len(values) != len(fixed.outputs):
        raise UsageError(f"{program.name} has an output that is not computed")
    plan = plan_memory(fixed, held=dict.fromkeys(fixed.inputs, False), dense=True)
    names = dict(zip(fixed.inputs, words, strict=False))
    source = Source(plan, names, apart=apart, fast=fast)
    faults: list[tuple[str, str]] = []
    for number, node in enumerate(fixed.nodes):
        source.line(f"/* {number}: {node.op.op_name} */")
        emitter = EMITTERS.get(type(node.op))
        try:
            if emitter is None:
                raise Refused("it has no C kernel")
            if not all(v.nbytes for v in (*node.inputs, *node.outputs) if v is not None):
                raise Refused("it is of arrays without elements")
            emitter(source, node)
        except Refused as error:
            faults.append((f"{node.op.op_name}: {error}", place_of(node)))
    if faults:
        raise UsageError(f"{program.name} holds ops that have no C form:\n{listed(dict.fromkeys(faults))}")
    ports = [
        Port(label, word, tuple(map(int, v.spec.shape)), v.spec.dtype.name)
        for label, word, v in zip((*takes, *gives), words, (*fixed.inputs, *values), strict=True)
    ]
    for port in ports:
        if port.dtype not in TYPES:
            raise UsageError(f"{port.name} is {port.dtype}, which has no C type here")
    ins, outs = tuple(ports[: len(takes)]), tuple(ports[len(takes) :])
    for value, port in zip(values, outs, strict=True):
        source.line(f"memcpy({port.word}, {source.at(value)}, {port.nbytes});")
    beside = extra(source, ins, outs) if extra is not None else ((), ())
    counts: dict[str, int] = {}
    for node in fixed.nodes:
        counts[node.op.op_name] = counts.get(node.op.op_name, 0) + 1
    arena = -(-max(1, plan.arena_bytes + source.room) // 64) * 64
    return Report(
        name, _source(name, source, ins, outs, arena, beside[1]), _header(name, ins, outs, arena, about, beside[0]),
        bytes(source.blob), source.constant_bytes, arena, counts, ins, outs,
    )  # fmt: skip


def fixed_program(program: Program, names: Sequence[str], shapes: Mapping[str, Sequence[int]]) -> Program:
    """The program rewritten for inference and with numbers for all sizes."""
    if unknown := sorted(set(shapes) - set(names)):
        raise UsageError(f"--shape {unknown[0]}: the model has the inputs {', '.join(names)}")
    wanted = []
    for name, value in zip(names, program.inputs, strict=True):
        given = shapes.get(name)
        if given is not None and len(given) != len(value.spec.shape):
            raise ShapeError(
                f"--shape {name}: {len(given)} sizes, but {name} is [{', '.join(map(str, value.spec.shape))}]"
            )
        symbolic = [not isinstance(n, int) or type(n) is not int for n in value.spec.shape]
        usual = [
            1 if not axis and free else int(n)
            for axis, (n, free) in enumerate(zip(value.spec.shape, symbolic, strict=True))
        ]
        wanted.append(tuple(map(int, given or usual)))
    traced = frozen(program)
    made = run_passes(traced.copy(), INFERENCE_ONCE)
    sizes = bind(made, tuple(wanted))
    try:
        made = specialise(made, sizes, exact=True)
    except ShapeError:  # what was made of it for most sizes does not hold at these
        made = run_passes(specialise(traced, sizes), INFERENCE_ONCE)
    return run_passes(made, (fold_constants, remove_dead, drop_indices))


def _words(names: Sequence[str]) -> list[str]:
    """A parameter for each name, all different."""
    found: list[str] = []
    for name in names:
        word = identifier(name)
        while word in found:
            word += "_"
        found.append(word)
    return found


def _signature(name: str, ins: Sequence[Port], outs: Sequence[Port]) -> str:
    parameters = [f"const {TYPES[p.dtype]} *{p.word}" for p in ins] + [f"{TYPES[p.dtype]} *{p.word}" for p in outs]
    return f"void {name}_run({', '.join(parameters)})"


def _header(name: str, ins: Sequence[Port], outs: Sequence[Port], arena: int, about: str, beside: Sequence[str]) -> str:
    big = name.upper()
    lines = ["/*", *(f"   {line}".rstrip() for line in about.splitlines()), "*/"] if about else []
    lines += [f"#ifndef {big}_H", f"#define {big}_H", "", "#include <stddef.h>", "#include <stdint.h>", ""]
    lines += [f"#define {big}_ARENA {arena} /* bytes that a run works in, static in {name}.c */"]
    for port in (*ins, *outs):
        lines.append(f"#define {big}_{port.word.upper()}_SIZE {port.size} /* [{', '.join(map(str, port.shape))}] */")
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += ["/* One run at a time: they share the arena. Arrays are row-major; images are [N, H, W, C]. */"]
    lines += [f"{_signature(name, ins, outs)};", *beside, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif"]
    return "\n".join(lines) + "\n"


def _source(
    name: str, source: Source, ins: Sequence[Port], outs: Sequence[Port], arena: int, beside: Sequence[str]
) -> str:
    parts = [_HEAD.format(name=name)]
    for kernel in source.kernels:
        if kernel == "zeros":
            parts.append(f"static const float zeros[{max(1, source.most_inputs)}] = {{0}};\n")
        else:
            parts.append(sections()[kernel].text + "\n")
    if source.apart:
        parts.append(f"extern const unsigned char {name}_weights[];\n#define WEIGHTS {name}_weights\n")
    parts.append("\n".join(source.constants) + "\n")
    if any("arena" in line for line in source.body):
        parts.append(f"static unsigned char arena[{arena}] ALIGNED;\n")
    parts.append("\n".join([f"{_signature(name, ins, outs)} {{", *source.body, "}", *beside]) + "\n")
    return "\n".join(parts)
