"""A model as C beside the runtime's session, on one thread: time of a run, in turns, by the CPU clock of the thread.

    python tools/bench/c_code.py cv/cifar10_resnet20 --runs 300

The C is compiled three times: for this machine (-march=native) with direct sums and with Winograd's filters
(pdl compile --fast), and for any machine of its kind with direct sums.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pdl.export.c import to_c
from pdl.export.c.project import FLAGS, write_project
from pdl.runtime.bundle import read
from pdl.runtime.session import of_bundle
from pdl.version import __version__
from pdl.workflow.locating import located

BUILDS = {"direct": ("-march=native", False), "winograd": ("-march=native", True), "plain": ("", False)}


def main() -> None:
    """Compile, compare, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=300)
    given = parser.parse_args()
    bundle = read(located(given.model))
    session = of_bundle(bundle, threads=1)
    ports = {"inputs": bundle.program["inputs"], "outputs": bundle.program["outputs"]}
    rng = np.random.default_rng(0)
    calls: dict[str, Callable[[], Any]] = {}
    kept: list[Any] = []
    with tempfile.TemporaryDirectory() as work:
        for build, (machine, fast) in BUILDS.items():
            made = to_c(bundle.build(), build, apart=True, fast=fast, **ports)
            sample = {p.name: rng.standard_normal(p.shape).astype(p.dtype) for p in made.inputs}
            wanted = session.run(sample)
            folder = Path(work) / build
            write_project(folder, made, sample, wanted, exact=False, version=__version__)
            sources = [f"{build}.c", f"{build}_weights.S"]
            command = [
                shutil.which("cc") or "gcc",
                *FLAGS.split(),
                *machine.split(),
                "-fPIC",
                "-shared",
                "-o",
                "lib.so",
            ]
            subprocess.run([*command, *sources, "-lm"], cwd=folder, check=True)
            run = ctypes.CDLL(str(folder / "lib.so"))[f"{build}_run"]
            outs = [np.empty(p.shape, p.dtype) for p in made.outputs]
            arrays = [*sample.values(), *outs]
            run.argtypes = [ctypes.c_void_p] * len(arrays)
            places = [a.ctypes.data for a in arrays]
            kept.append(arrays)
            calls[build] = partial(run, *places)
            calls[build]()
            apart = max(float(np.abs(a - b).max()) for a, b in zip(outs, wanted.values(), strict=True))
            print(f"{build}: {made.flash:,} bytes of constants, {made.ram:,} of RAM; difference {apart:.1e}")
        calls["runtime"] = lambda: session.run(sample)
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(given.runs):
            for name, call in calls.items():
                begin = time.thread_time()
                call()
                best[name] = min(best[name], time.thread_time() - begin)
    for name, seconds in best.items():
        print(f"{name:9} {seconds * 1e3:8.4f} ms  {best['runtime'] / seconds:5.2f} x the runtime's speed")


if __name__ == "__main__":
    main()
