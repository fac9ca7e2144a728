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

{comparing}

int main(void) {{
{buffers}
  double worst = 0;
  {call}
{compares}
  printf("{name}: {alone}largest difference %.3g{more}\\n", {lost}worst{taken});
  return !(worst <= {tolerance:g}{allowed});
}}
"""
_NUMBERS = """\
/* The largest difference of an output, over the larger of 1 and the largest number expected. */
#define COMPARE(found, wanted, n) {{ \\
  double apart = 0, most = 1; \\
  for (long i = 0; i < (n); i++) {{ \\
    const double own = fabs((double)(found)[i] - (double)(wanted)[i]), size = fabs((double)(wanted)[i]); \\
    if (!(own <= apart)) apart = own; \\
    if (size > most) most = size; \\
  }} \\
  if (!(apart / most <= worst)) worst = apart / most; \\
}}"""
_ROWS = """\
/* Rows of the outputs side by side, whose order nearly equal scores decide: each is compared with the nearest of the
   same image. Nearly equal scores, and overlaps near the limit, also decide which of two boxes stays: one row in ten
   may have no counterpart. Numbers are over the larger of 1 and the largest expected of their output. */
static int alone;
static double found[{rows}][{width}], wanted[{rows}][{width}];

#define COMPARE(output, expected, first, n) {{ \\
  double most = 1; \\
  for (long i = 0; i < {rows} * (n); i++) most = fmax(most, fabs((double)(expected)[i])); \\
  for (long i = 0; i < {rows} * (n); i++) {{ \\
    found[i / (n)][(first) + i % (n)] = (double)(output)[i] / most; \\
    wanted[i / (n)][(first) + i % (n)] = (double)(expected)[i] / most; \\
  }} \\
}}

static double farthest(double (*some)[{width}], double (*others)[{width}]) {{
  double worst = 0;
  for (int i = 0; i < {rows}; i++) {{
    double nearest = HUGE_VAL;
    for (int j = i / {each} * {each}; j < i / {each} * {each} + {each}; j++) {{
      double apart = 0;
      for (int k = 0; k < {width}; k++) {{
        const double own = fabs(some[i][k] - others[j][k]);
        if (!(own <= apart)) apart = own;
      }}
      if (apart < nearest) nearest = apart;
    }}
    if (!(nearest <= {counterpart:g})) alone++;
    else if (nearest > worst) worst = nearest;
  }}
  return worst;
}}"""
#: how far a row is from its counterpart, at most
COUNTERPART = 1e-3
_FARTHEST = "  worst = fmax(farthest(found, wanted), farthest(wanted, found));"
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
    folder: Path, made: Report, sample: Mapping[str, Array], expected: Mapping[str, Array], *, exact: bool,
    unordered: bool, version: str,
) -> list[Path]:  # fmt: skip
    """Write NAME.c, NAME.h, main.c, Makefile and README.txt (and NAME.bin with NAME_weights.S where weights lie apart);
    the files. `exact`: main.c allows no difference; `unordered`: it compares rows in any order."""
    name, files = made.name, dict[str, str | bytes]()
    files[f"{name}.c"], files[f"{name}.h"] = made.source, made.header
    files["main.c"] = main_text(made, sample, expected, 0.0 if exact else 1e-5, unordered=unordered)
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
    made: Report, sample: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float, *, unordered: bool,
    board: bool = False,
) -> str:  # fmt: skip
    """The test main.c; for a `board`, what a run takes is printed, too. `unordered`: outputs [N, K, ...] are compared
    row by row, in any order."""
    samples, buffers, compares, first = sample_text(made, sample), [], [], 0
    images, each = made.outputs[0].shape[:2] if unordered else (1, 1)
    for port in made.outputs:
        array = expected[port.name].astype(port.dtype)
        samples.append(_constant(f"wanted_{port.word}", array))
        buffers.append(f"  static {type_of(array.dtype)} out_{port.word}[{max(1, port.size)}];")
        own = port.size // (images * each)
        more = f"{first}, {own}" if unordered else str(own)
        compares.append(f"  COMPARE(out_{port.word}, wanted_{port.word}, {more})")
        first += own
    sizes = {"rows": images * each, "each": each, "width": first, "counterpart": COUNTERPART}
    comparing = (_ROWS if unordered else _NUMBERS).format(**sizes)
    compares += [_FARTHEST] if unordered else []
    arguments = ", ".join([f"in_{p.word}" for p in made.inputs] + [f"out_{p.word}" for p in made.outputs])
    call = f"{made.name}_run({arguments});"
    if board:
        call = f"board_begin();\n  {call}\n  const Taken taken = board_end();"
    return _MAIN.format(
        name=made.name, samples="\n".join(samples), buffers="\n".join(buffers), compares="\n".join(compares),
        call=call, tolerance=tolerance, comparing=comparing, lost="alone, " if unordered else "",
        alone="%d rows without counterpart, " if unordered else "",
        allowed=f" && alone <= 2 * ({images * each} / 10)" if unordered else "",
        board='#include "board.h"\n' if board else "",
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
