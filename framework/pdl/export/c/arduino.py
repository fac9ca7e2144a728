"""The folder of a program for microcontrollers: a library for Arduino's tools, and a test for a board of QEMU."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pdl.dtype import Array
from pdl.errors import CheckError
from pdl.export.c.model import Report
from pdl.export.c.project import main_text, sample_text
from pdl.export.c.source import TYPES
from pdl.export.c.steps import Steps
from pdl.files import write_atomic

CORE = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
LINK = "-I../../src -nostartfiles -Wl,--gc-sections -T board.ld --specs=rdimon.specs"
FLAGS = f"{CORE} -std=gnu11 -Os -fno-strict-aliasing -ffunction-sections -fdata-sections"
#: the compiler, and the emulator with its board
COMPILER = "arm-none-eabi-gcc"
BOARD = "qemu-system-arm -M mps2-an386 -nographic -semihosting-config enable=on,target=native -icount shift=0"
#: instructions in a tick of the board's clock, 25 MHz, where an instruction takes a nanosecond
PER_TICK = 40
#: seconds that the compiler, or the board, may take
PATIENCE = 300
#: Arduino's tools ask for -Os, where loops over a tile stay loops: floats take more than twice the time
_FASTER = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif
"""
_PROPERTIES = """\
name={name}
version=1.0.0
author=pdl {version}
maintainer=pdl {version}
sentence={title} as C, compiled by pdl.
paragraph={flash} bytes of constants, {ram} bytes of RAM; no library, no heap.
category=Data Processing
url=
architectures=*
includes={name}.h
"""
_SKETCH = """\
// {name} on a sample, once a second: its answer, and the time that it takes.
#include <{name}.h>

#include "sample.h"

{buffers}

void setup() {{
  Serial.begin(115200);
  while (!Serial && millis() < 5000) {{
  }}
}}

void loop() {{
  const unsigned long begin = micros();
  {name}_run({arguments});
  const unsigned long spent = micros() - begin;
{answer}
  Serial.print(spent);
  Serial.println(" us");
  delay(1000);
}}
"""
_BEST = """\
  float score;
  const int best = {name}_best({ranked}, &score);
  Serial.print({name}_names[best]);
  Serial.print(' ');
  Serial.print(score, 4);
  Serial.print(", ");"""
_NUMBERS = """\
  for (int i = 0; i < {count}; i++) {{
    Serial.print({form}{first}[i]);
    Serial.print(' ');
  }}"""
_MAKE = """\
# The test on QEMU's board mps2-an386 (Cortex-M4): make
NAME = {name}
CC = {compiler}
FLAGS = {flags}

test: $(NAME).elf
\t{board} -kernel $(NAME).elf

$(NAME).elf: main.c board.c board.h board.ld ../../src/$(NAME).c ../../src/$(NAME).h
\t$(CC) $(FLAGS) {link} -o $@ main.c board.c ../../src/$(NAME).c -lm

.PHONY: test
"""
_BOARD = """\
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* What a run took: bytes of the stack, ticks of the clock. */
typedef struct {
  unsigned long stack;
  uint64_t ticks;
} Taken;

void board_begin(void);
Taken board_end(void);

#endif
"""
_READ = """\
{name}: a model as a library for Arduino, written by pdl {version}

  library.properties, src/   the library: {name}.h, and {name}.c with the weights, which stay in flash
  examples/                  a sketch: a sample, the answer and the time
  extras/test/               a test on an emulated Cortex-M4 (make; needs {compiler} and qemu-system-arm)

Put the folder into the libraries folder of your sketchbook, or its ZIP in by Sketch, Include Library, Add .ZIP Library;
then File, Examples, {name}. Other builds take src/ as it is. Boards need ints of 32 bits: ARM, ESP32, RISC-V; not AVR.

Constants take {flash:,} bytes of flash, a run {arena:,} bytes of static RAM{room}; inputs and outputs are yours.
"""


class Board(NamedTuple):
    """What the test on an emulated Cortex-M4 found: bytes of flash that code and constants take, of the stack, the
    difference from the runtime, and instructions of a run."""

    flash: int
    stack: int
    difference: float
    instructions: int


def arduino_folder(
    folder: Path, made: Report, steps: Steps, sample: Mapping[str, Array], expected: Mapping[str, Array], *,
    exact: bool, unordered: bool, title: str, version: str,
) -> tuple[list[Path], Board | None]:  # fmt: skip
    """Write a library; its files, and what its test says where this machine has a compiler and QEMU. CheckError where
    that differs from the runtime, or does not compile."""
    name = made.name
    example = f"examples/{name}_example"
    files = {
        "library.properties": _PROPERTIES.format(
            name=name, version=version, title=title, flash=made.flash, ram=made.arena
        ),
        f"src/{name}.h": made.header,
        f"src/{name}.c": _FASTER + made.source,
        f"{example}/{name}_example.ino": _sketch(made, steps),
        f"{example}/sample.h": "\n\n".join(sample_text(made, sample)) + "\n",
        "extras/test/main.c": main_text(
            made, sample, expected, 0.0 if exact else 1e-5, unordered=unordered, board=True
        ),
        "extras/test/board.h": _BOARD,
        "extras/test/Makefile": _MAKE.format(name=name, compiler=COMPILER, flags=FLAGS, link=LINK, board=BOARD),
    }
    for word in ("board.c", "board.ld"):
        text = resources.files(__package__).joinpath("templates", "arduino", word).read_text(encoding="utf-8")
        files[f"extras/test/{word}"] = text
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / file, content)
    found = _tested(folder, name)
    room = "" if found is None else f", {found.stack:,} of the stack"
    files["README.txt"] = _READ.format(
        name=name, version=version, compiler=COMPILER, flash=made.flash, arena=made.arena, room=room
    )
    write_atomic(folder / "README.txt", files["README.txt"])
    return [folder / file for file in files], found


def _sketch(made: Report, steps: Steps) -> str:
    buffers = "\n".join(f"static {TYPES[p.dtype]} {p.word}[{p.size}];" for p in made.outputs)
    if steps.score is not None:
        answer = _BEST.format(name=made.name, ranked=steps.ranked)
    else:
        first = made.outputs[0]
        form = "(double)" if first.dtype.startswith("float") else "(long)"
        answer = _NUMBERS.format(count=min(first.size, 10), form=form, first=first.word)
    arguments = ", ".join([*(f"in_{p.word}" for p in made.inputs), *(p.word for p in made.outputs)])
    return _SKETCH.format(name=made.name, buffers=buffers, arguments=arguments, answer=answer)


def _tested(folder: Path, name: str) -> Board | None:
    """The test, compiled and run; None without compiler, newlib or emulator."""
    emulator, *options = BOARD.split()
    if shutil.which(COMPILER) is None or shutil.which(emulator) is None:
        return None
    with TemporaryDirectory() as place:
        program, part = f"{place}/test.elf", f"{place}/model.o"
        sources = ["main.c", "board.c", f"../../src/{name}.c"]
        test = folder / "extras" / "test"
        _run([COMPILER, *FLAGS.split(), *LINK.split(), "-o", program, *sources, "-lm"], test)
        _run([COMPILER, *FLAGS.split(), "-c", "-o", part, f"../../src/{name}.c"], test)
        sizes = _run([COMPILER.replace("gcc", "size"), part], test).splitlines()[1].split()
        said = _run([emulator, *options, "-kernel", program], test)
    match = re.search(r"difference (\S+), stack (\d+) bytes, (\d+) ticks", said)
    if match is None:
        raise CheckError(f"{test}: {emulator} says {said[:500]!r}")
    return Board(int(sizes[0]) + int(sizes[1]), int(match[2]), float(match[1]), int(match[3]) * PER_TICK)


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise CheckError(f"{folder}: {command[0]}: {(done.stderr or done.stdout).strip()[:2000]}")
    return done.stdout
