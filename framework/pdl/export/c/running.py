"""Programs in C as processes of their own: on this machine, or on another CPU that QEMU emulates."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np

from pdl.dtype import Array
from pdl.errors import CheckError, PackageError, UsageError
from pdl.export.c.model import Report
from pdl.export.c.project import COUNTERPART, FLAGS
from pdl.export.c.source import TYPES

#: seconds that a compiler, or a test, may take
PATIENCE = 600


class Cpu(NamedTuple):
    """Words that begin the command of GCC for a CPU, and of Zig's compiler; and the emulator."""

    gcc: str
    zig: str
    emulator: str


#: CPUs that programs are tested on by emulation; that of `arm` is a Cortex-A7
CPUS = {
    "aarch64": Cpu("aarch64-linux-gnu-gcc", "-target aarch64-linux-musl", "qemu-aarch64"),
    "arm": Cpu(
        "arm-linux-gnueabihf-gcc -mcpu=cortex-a7 -mfpu=neon-vfpv4", "-target arm-linux-musleabihf -mcpu=cortex_a7",
        "qemu-arm",
    ),
    "riscv64": Cpu("riscv64-linux-gnu-gcc", "-target riscv64-linux-musl", "qemu-riscv64"),
}  # fmt: skip
_PIPE = """\
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>

#include "{name}.h"

{buffers}

int main(void) {{
  while ({reads}) {{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    {name}_run({arguments});
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double taken = (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) * 1e-6;
    if (!({writes} && fwrite(&taken, sizeof taken, 1, stdout) == 1 && fflush(stdout) == 0)) return 1;
  }}
  return 0;
}}
"""


def compiler(cpu: str = "") -> list[str] | None:
    """The words that begin a command of a C compiler, for this machine or for a CPU of `CPUS`: of GCC or, without it,
    ziglang's; None where there is none."""
    if cpu:
        first, *more = CPUS[cpu].gcc.split()
        if shutil.which(first) is not None:
            return [first, *more, "-static"]
        zig = [sys.executable, "-m", "ziglang", "cc", *CPUS[cpu].zig.split(), "-static"]
        return zig if find_spec("ziglang") is not None else None
    found = next((found for word in ("cc", "gcc", "clang") if (found := shutil.which(word))), None)
    return None if found is None else [found]


def require_cpu(cpu: str) -> None:
    """UsageError for a CPU that is not known or cannot be emulated here, PackageError where its compiler is missing."""
    if not cpu:
        return
    if cpu not in CPUS:
        raise UsageError(f"--cpu {cpu}: choose {', '.join([*CPUS][:-1])} or {[*CPUS][-1]}")
    gcc = CPUS[cpu].gcc.split()[0]
    if compiler(cpu) is None:
        package = f"gcc-{gcc.removesuffix('-gcc')}"
        raise PackageError(f"--cpu {cpu} needs {gcc} (apt-get install {package}), or pip install 'pdl-core[wasm]'")
    if shutil.which(CPUS[cpu].emulator) is None:
        raise UsageError(f"--cpu {cpu}: {CPUS[cpu].emulator} is not installed (apt-get install qemu-user)")


def built(folder: Path, made: Report, main: str, program: Path, *flags: str, cpu: str = "") -> list[str]:
    """Compile main and the sources of a folder into a program; the command that runs it. CheckError where they do not
    compile."""
    command = compiler(cpu)
    if command is None:
        raise UsageError("there is no C compiler on this machine; install one (gcc, clang)")
    sources = [main, f"{made.name}.c", *([f"{made.name}_weights.S"] if made.weights else [])]
    said(folder, [*command, *FLAGS.split(), *flags, "-I.", "-o", str(program), *sources, "-lm"])
    return [CPUS[cpu].emulator, str(program)] if cpu else [str(program)]


def said(folder: Path, command: Sequence[str]) -> str:
    """What a command prints; CheckError with what it says where it fails."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise CheckError(f"{folder}: {command[0]} took more than {PATIENCE} s") from None
    if done.returncode:
        raise CheckError(f"{folder}: {command[0]}: {(done.stderr or done.stdout).strip()[:2000]}")
    return done.stdout


class InC(AbstractContextManager["InC"]):
    """The program of a folder of `pdl compile`, which answers as a session of the bundle does, sample by sample.

    folder  with the sources of `made`
    like    the session of the bundle: its ports, and what else is asked of it
    cpu     it runs on one of `CPUS`, emulated; "": on this machine, compiled for it

    size          bytes of the program, stripped
    milliseconds  of the last run, by the program's own clock
    """

    def __init__(self, folder: Path, made: Report, like: Any, cpu: str = "") -> None:
        self.made, self.inputs, self.outputs = made, like.inputs, like.outputs
        self.bundle, self.pipeline = like.bundle, like.pipeline
        self.milliseconds = 0.0
        self._place = TemporaryDirectory()
        main, program = Path(self._place.name) / "pipe.c", Path(self._place.name) / "program"
        try:
            main.write_text(_pipe(made))
            more = ["-march=native"] if not cpu and platform.machine() in ("x86_64", "AMD64") else []
            command = built(folder, made, str(main), program, "-s", *more, cpu=cpu)
            self.size = program.stat().st_size
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except BaseException:
            self._place.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()
        self._place.cleanup()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name of inputs by name, of any number of samples where the program is for one."""
        most = {port.name: port.shape[0] if port.shape else 1 for port in self.made.inputs}
        count = max(len(inputs[name]) // n for name, n in most.items())
        parts = [self._once({k: inputs[k][i * n : (i + 1) * n] for k, n in most.items()}) for i in range(count)]
        return {port.name: np.concatenate([part[port.name] for part in parts]) for port in self.made.outputs}

    def _once(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        for port in self.made.inputs:
            given = inputs[port.name]
            if given.shape != port.shape:
                raise UsageError(f"{self.made.name} in C takes {port.name} {list(port.shape)}, not {list(given.shape)}")
            process.stdin.write(np.ascontiguousarray(given, port.dtype).tobytes())
        process.stdin.flush()
        found = {port.name: self._read(port.nbytes, port.dtype).reshape(port.shape) for port in self.made.outputs}
        self.milliseconds = float(self._read(8, "float64")[0])
        return found

    def _read(self, nbytes: int, dtype: str) -> Array:
        assert self._process.stdout is not None
        data = self._process.stdout.read(nbytes)
        if len(data) != nbytes:
            raise CheckError(f"{self.made.name} in C ended with code {self._process.wait()} instead of an answer")
        return np.frombuffer(data, dtype)


def _pipe(made: Report) -> str:
    """A main function that answers what it reads."""
    ports = (*made.inputs, *made.outputs)
    buffers = "\n".join(f"static {TYPES[port.dtype]} {port.word}[{max(1, port.size)}];" for port in ports)
    reads, writes = (
        " && ".join(f"{word}({port.word}, sizeof {port.word}, 1, {file}) == 1" for port in some)
        for word, some, file in (("fread", made.inputs, "stdin"), ("fwrite", made.outputs, "stdout"))
    )
    arguments = ", ".join(port.word for port in ports)
    return _PIPE.format(name=made.name, buffers=buffers, reads=reads, writes=writes, arguments=arguments)


class Apart(NamedTuple):
    """How far the answers of a program are from the runtime's: the largest difference of an output, over the larger of
    1 and the largest number expected; and how many rows have no counterpart, of outputs whose rows are in any order."""

    worst: float
    alone: int = 0


def difference(found: Mapping[str, Array], wanted: Mapping[str, Array], *, unordered: bool) -> Apart:
    """Of two answers. `unordered`: outputs [N, K, ...] are compared row by row with the nearest of the same sample, as
    the test of a folder does; CheckError where more than one row in ten has no counterpart."""
    scaled = []
    for name, b in wanted.items():
        sides = [found[name].astype(np.float64), b.astype(np.float64)]
        scaled.append([x / max(1.0, float(np.abs(sides[1]).max(initial=0))) for x in sides])
    if not unordered:
        return Apart(max((float(np.abs(a - b).max(initial=0)) for a, b in scaled), default=0.0))
    worst, alone, rows = 0.0, 0, 0
    for i in range(len(scaled[0][0])):
        each = ([x[i].reshape(len(x[i]), -1) for x in side] for side in zip(*scaled, strict=True))
        ours, theirs = (np.concatenate(side, axis=1) for side in each)
        away = np.abs(ours[:, None] - theirs[None]).max(axis=2)
        nearest = np.concatenate([away.min(axis=0), away.min(axis=1)])
        near = nearest <= COUNTERPART
        worst, alone = max(worst, float(nearest[near].max(initial=0))), alone + int((~near).sum())
        rows += len(ours)
    if alone > 2 * (rows // 10):
        raise CheckError(f"{alone} rows of {rows} in C or of the runtime have no counterpart")
    return Apart(worst, alone)
