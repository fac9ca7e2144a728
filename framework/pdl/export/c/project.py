"""The folder of a compiled program: source, header, a test that is an example, how to compile it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pdl.dtype import Array
from pdl.export.c.model import Report
from pdl.export.c.source import literals, type_of
from pdl.files import write_atomic

FLAGS = "-std=c99 -O3 -fno-strict-aliasing"
_MAIN = """\
/* An example and a test: {name}_run on a sample, against what the runtime answered. */
#include <math.h>
#include <stdio.h>

#include "{name}.h"
{board}
{samples}

/* The largest difference, over the larger of 1 and the largest number expected. */
#define COMPARE(found, wanted, n) \\
  for (long i = 0; i < (n); i++) {{ \\
    const double apart = fabs((double)(found)[i] - (double)(wanted)[i]), size = fabs((double)(wanted)[i]); \\
    if (!(apart <= worst)) worst = apart; \\
    if (size > most) most = size; \\
  }}

int main(void) {{
{buffers}
  double worst = 0, most = 1;
  {call}
{compares}
  printf("{name}: largest difference %.3g{more}\\n", worst / most{taken});
  return !(worst / most <= {tolerance:g});
}}
"""
_MAKE = """\
CC ?= cc
CFLAGS ?= {flags} -march=native
NAME = {name}

$(NAME)_test: main.c $(NAME).c $(NAME).h
\t$(CC) $(CFLAGS) -o $@ main.c $(NAME).c {more}-lm

test: $(NAME)_test
\t./$(NAME)_test

clean:
\trm -f $(NAME)_test

.PHONY: test clean
"""
_READ = """\
{name}: a model as C99, written by pdl {version}

  {name}.h, {name}.c   {signature}
  main.c{pad}a test and an example: one sample, and the runtime's answer to it
{extra}
Compile and test, on this machine (leave out -march=native for others of its kind):

  cc {flags} -march=native -o {name}_test main.c {name}.c {more}-lm && ./{name}_test

It needs libm and no other library, takes no memory from the heap, and works in a static block of {arena} bytes, so
one run at a time. Inner loops use AVX2 (with -mavx2 -mfma, or -march=native), SSE2, NEON, WebAssembly's SIMD or the DSP
instructions of Cortex-M where the compiler has them, and plain C elsewhere. Cross compilers take the same line:
aarch64-linux-gnu-gcc, arm-linux-gnueabihf-gcc (with -mfpu=neon), riscv64-linux-gnu-gcc; of arm-none-eabi-gcc,
{name}.c alone (-mcpu=cortex-m4 -mthumb -Os -c).
"""


def write_project(
    folder: Path, made: Report, sample: Mapping[str, Array], expected: Mapping[str, Array], *, exact: bool, version: str
) -> list[Path]:
    """Write NAME.c, NAME.h, main.c, Makefile and README.txt (and NAME.bin with NAME_weights.S where weights lie apart);
    the files. `exact`: main.c allows no difference."""
    name, files = made.name, dict[str, str | bytes]()
    files[f"{name}.c"], files[f"{name}.h"] = made.source, made.header
    files["main.c"] = main_text(made, sample, expected, 0.0 if exact else 1e-5)
    extra, more = "", ""
    if made.weights:
        files[f"{name}.bin"] = made.weights
        files[f"{name}_weights.S"] = assembly(name, len(made.weights))
        extra, more = f"  {name}.bin, {name}_weights.S   weights, which the assembler includes\n", f"{name}_weights.S "
    parameters = ", ".join(p.word for p in (*made.inputs, *made.outputs))
    said = {"name": name, "flags": FLAGS, "more": more, "version": version, "arena": made.arena}
    files["Makefile"] = _MAKE.format(**said)
    pad = " " * max(1, 2 * len(name) + 1)
    files["README.txt"] = _READ.format(**said, signature=f"{name}_run({parameters})", extra=extra, pad=pad)
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        write_atomic(folder / file, content)
    return [folder / file for file in files]


def main_text(
    made: Report, sample: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float, *, board: bool = False
) -> str:
    """The test main.c; for a `board`, what a run takes is printed, too."""
    samples, buffers, compares = sample_text(made, sample), [], []
    for port in made.outputs:
        array = expected[port.name].astype(port.dtype)
        samples.append(_constant(f"wanted_{port.word}", array))
        buffers.append(f"  static {type_of(array.dtype)} out_{port.word}[{max(1, port.size)}];")
        compares.append(f"  COMPARE(out_{port.word}, wanted_{port.word}, {port.size})")
    arguments = ", ".join([f"in_{p.word}" for p in made.inputs] + [f"out_{p.word}" for p in made.outputs])
    call = f"{made.name}_run({arguments});"
    if board:
        call = f"board_begin();\n  {call}\n  const Taken taken = board_end();"
    return _MAIN.format(
        name=made.name, samples="\n".join(samples), buffers="\n".join(buffers), compares="\n".join(compares),
        call=call, tolerance=tolerance, board='#include "board.h"\n' if board else "",
        more=", stack %lu bytes, %lu ticks" if board else "",
        taken=", taken.stack, (unsigned long)taken.ticks" if board else "",
    )  # fmt: skip


def sample_text(made: Report, sample: Mapping[str, Array]) -> list[str]:
    """Constant arrays in_NAME of the inputs of a sample."""
    return [_constant(f"in_{port.word}", sample[port.name].astype(port.dtype)) for port in made.inputs]


def _constant(name: str, array: Array) -> str:
    body = "\n".join(literals(array)) or "0,"
    return f"static const {type_of(array.dtype)} {name}[{max(1, array.size)}] = {{\n{body}\n}};"


def assembly(name: str, size: int) -> str:
    """Weights of `size` bytes in the read-only data of a program, by GNU's or LLVM's assembler."""
    return f"""\
#if defined(__APPLE__)
#define SYMBOL _{name}_weights
  .const_data
#elif defined(__wasm__)
#define SYMBOL {name}_weights
  .section .rodata.weights,"",@
#else
#define SYMBOL {name}_weights
  .section .rodata
#endif
  .globl SYMBOL
  .balign 64
SYMBOL:
  .incbin "{name}.bin"
#if defined(__wasm__)
  .size SYMBOL, {size}
#elif defined(__linux__) && defined(__ELF__)
  .section .note.GNU-stack,"",%progbits
#endif
"""
