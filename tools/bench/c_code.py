"""A model as C beside the runtime's session, on one thread: time of a run, in turns, by the CPU clock of the thread.

    python tools/bench/c_code.py cv/cifar10_resnet20 --runs 300
    python tools/bench/c_code.py cv/cifar10_resnet20 --peer peers/bin/emx-onnx-cgen --size h=32 --size w=32

The C is compiled for this machine (-march=native) with direct sums and with Winograd's filters (pdl compile --fast),
and with direct sums for any machine of its kind and, on x86, for those with AVX2. With --peer also what another
generator makes of the model's ONNX file, for this machine: emx-onnx-cgen (pip install emx-onnx-cgen), plain C as onnx2c
writes it.
"""

from __future__ import annotations

import argparse
import ctypes
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pdl.cli import main as pdl
from pdl.dtype import Array
from pdl.export.c import to_c
from pdl.export.c.project import FLAGS, write_project
from pdl.runtime.bundle import read
from pdl.runtime.session import of_bundle
from pdl.version import __version__
from pdl.workflow.locating import located

BUILDS = {"direct": ("-march=native", False), "winograd": ("-march=native", True), "plain": ("", False)}
if platform.machine() in ("x86_64", "AMD64"):
    BUILDS["avx2"] = ("-march=x86-64-v3", False)


def compiled(folder: Path, sources: Sequence[str], machine: str) -> ctypes.CDLL:
    """A library of sources."""
    command = [shutil.which("cc") or "gcc", *FLAGS.split(), *machine.split(), "-fPIC", "-shared", "-o", "lib.so"]
    subprocess.run([*command, *sources, "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "lib.so"))


def peer(
    given: argparse.Namespace, work: Path, sample: Mapping[str, Array], wanted: Mapping[str, Array]
) -> Callable[[], Any]:
    """A run of what another generator makes of an ONNX file of the model, of one input of images and one output."""
    folder = work / "peer"
    folder.mkdir()
    pdl(["export", given.model, "--to", "onnx", "-o", str(folder / "net.onnx")])
    sizes = [word for size in ("n=1", *given.size) for word in ("--input-dim", size)]
    command = [
        given.peer.resolve(),
        "compile",
        "net.onnx",
        "net.c",
        "--model-name",
        "net",
        "--large-weight-threshold",
        str(1 << 40),
        *sizes,
    ]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (image,), (answer,) = sample.values(), wanted.values()
    planes, out = np.ascontiguousarray(image.transpose(0, 3, 1, 2)), np.empty(answer.shape, answer.dtype)
    library = compiled(folder, ["net.c"], "-march=native")
    library.net.argtypes = [ctypes.c_void_p] * 2

    def run(arrays: tuple[Array, Array] = (planes, out)) -> None:
        library.net(*(a.ctypes.data for a in arrays))

    run()
    print(f"peer: difference {np.abs(out - answer).max():.1e}")
    return run


def main() -> None:
    """Compile, compare, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--peer", type=Path, help="the command emx-onnx-cgen")
    parser.add_argument("--size", action="append", default=[], help="of an axis of the ONNX file: h=32")
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
            write_project(folder, made, sample, wanted, exact=False, unordered=False, version=__version__)
            run = compiled(folder, [f"{build}.c", f"{build}_weights.S"], machine)[f"{build}_run"]
            outs = [np.empty(p.shape, p.dtype) for p in made.outputs]
            arrays = [*sample.values(), *outs]
            run.argtypes = [ctypes.c_void_p] * len(arrays)
            places = [a.ctypes.data for a in arrays]
            kept.append(arrays)
            calls[build] = partial(run, *places)
            calls[build]()
            apart = max(float(np.abs(a - b).max()) for a, b in zip(outs, wanted.values(), strict=True))
            print(f"{build}: {made.flash:,} bytes of constants, {made.ram:,} of RAM; difference {apart:.1e}")
        if given.peer is not None:
            calls["peer"] = peer(given, Path(work), sample, wanted)
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
