"""Speed of pdl's matrix kernels in GFLOP/s: convolution (forward, gradients of the input and the weights) and matmul,
in float32 and bfloat16.

    python tools/bench/kernels.py                                  # pdl alone
    python tools/bench/kernels.py --peer-python /path/to/python    # beside the PyTorch of that interpreter
    python tools/bench/kernels.py --threads 1 --only resnet20 --dtype bf16

A figure is the best of the repetitions. With one thread the CPU time of the thread is measured, which other processes
disturb least; with more the wall clock. The peak is that of independent multiply-adds in registers (of the CPU's
products of bfloat16 where it has them): a loop compiled for this CPU by the C++ compiler that builds pdl, times the
threads. Winograd's convolutions save multiplications and may pass it.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

KINDS = ("forward", "dx", "dw")
PEAK = r"""
#include <cstdio>
#include <ctime>
#if defined(__AVX512F__)
enum { kBytes = 64 };
#elif defined(__AVX__)
enum { kBytes = 32 };
#else
enum { kBytes = 16 };
#endif
typedef float V __attribute__((vector_size(kBytes)));
#if defined(PDL_BF16) && defined(__AVX512BF16__)
#include <immintrin.h>
enum { kPairs = 2 };
#define STEP(v) v = (V)_mm512_dpbf16_ps((__m512)v, (__m512bh)x, (__m512bh)y); asm volatile("" : "+" PDL_REGISTER(v));
#else
enum { kPairs = 1 };
#define STEP(v) v += x * y; asm volatile("" : "+" PDL_REGISTER(v));
#endif
int main() {
  V a{}, b{}, c{}, d{}, e{}, f{}, g{}, h{}, i{}, j{}, x = V{} + 1.5f, y = V{} + 0.5f;
  double best = 0;
  for (int round = 0; round < 40; round++) {
    const std::clock_t start = std::clock();
    for (int k = 0; k < 4000000; k++) {
      STEP(a) STEP(b) STEP(c) STEP(d) STEP(e) STEP(f) STEP(g) STEP(h) STEP(i) STEP(j)
    }
    const double rate = 10. * 2 * kPairs * (kBytes / 4) * 4e6 / ((std::clock() - start) / double(CLOCKS_PER_SEC)) / 1e9;
    if (rate > best) best = rate;
  }
  std::printf("%g", best);
}
"""


class Shape(NamedTuple):
    """A square convolution: [n, size, size, c] with a window of `kernel` -> o channels."""

    net: str
    n: int
    size: int
    c: int
    o: int
    kernel: int
    stride: int
    pad: int
    groups: int = 1

    @property
    def out(self) -> int:
        """Height and width of the output."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1

    @property
    def flops(self) -> int:
        """Two for each multiply-add."""
        return 2 * self.n * self.out**2 * self.o * self.kernel**2 * self.c // self.groups


CONVS = [
    Shape("lenet", 128, 28, 1, 6, 5, 1, 2),
    Shape("lenet", 128, 14, 6, 16, 5, 1, 0),
    Shape("resnet20", 128, 32, 3, 16, 3, 1, 1),
    Shape("resnet20", 128, 32, 16, 16, 3, 1, 1),
    Shape("resnet20", 128, 32, 16, 32, 3, 2, 1),
    Shape("resnet20", 128, 16, 32, 32, 3, 1, 1),
    Shape("resnet20", 128, 16, 32, 64, 3, 2, 1),
    Shape("resnet20", 128, 8, 64, 64, 3, 1, 1),
    Shape("resnet18", 32, 32, 64, 64, 3, 1, 1),
    Shape("resnet18", 32, 16, 128, 128, 3, 1, 1),
    Shape("resnet18", 32, 8, 256, 256, 3, 1, 1),
    Shape("resnet18", 32, 8, 256, 512, 3, 2, 1),
    Shape("resnet18", 32, 4, 512, 512, 3, 1, 1),
    Shape("resnet50", 8, 224, 3, 64, 7, 2, 3),
    Shape("resnet50", 8, 56, 64, 64, 3, 1, 1),
    Shape("resnet50", 8, 14, 256, 256, 3, 1, 1),
    Shape("resnet50", 8, 7, 512, 512, 3, 1, 1),
    Shape("resnet50", 8, 56, 64, 256, 1, 1, 0),
    Shape("resnet50", 8, 56, 256, 64, 1, 1, 0),
    Shape("resnet50", 8, 14, 1024, 256, 1, 1, 0),
    Shape("resnet50", 8, 7, 512, 2048, 1, 1, 0),
    Shape("resnet50", 8, 28, 512, 1024, 1, 2, 0),
    Shape("mobilenet", 8, 112, 64, 64, 3, 1, 1, 64),
    Shape("mobilenet", 8, 56, 144, 144, 3, 2, 1, 144),
    Shape("mobilenet", 8, 14, 240, 240, 5, 1, 2, 240),
]
PRODUCTS = [("lenet", 128, 120, 400), ("lenet", 128, 84, 120), ("square", 256, 256, 256), ("square", 512, 512, 512),
            ("square", 1024, 1024, 1024), ("transformer", 2048, 312, 312), ("transformer", 2048, 1200, 312),
            ("transformer", 2048, 312, 1200), ("transformer", 312, 1200, 2048)]  # fmt: skip
FORMS = ("ab", "abT", "aTb")  # which factor lies transposed in memory: the value of a layer, its two gradients
Work = tuple[str, str, int, Callable[[], object]]  # net, label, flops, what to time


def peak_rate(dtype: str) -> float:
    """GFLOP/s of one core."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "peak.cpp", Path(folder) / "peak"
        source.write_text(PEAK.replace("PDL_REGISTER", '"x"' if platform.machine() in ("x86_64", "AMD64") else '"w"'))
        flags = ["-O2", "-march=native", "-ffp-contract=fast", f"-DPDL_{dtype.upper()}"]
        subprocess.run(["c++", *flags, source, "-o", program], check=True)
        return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def best_seconds(run: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    """Least time of a call, over calls that take `seconds` on the wall clock together."""
    run()
    best, until = float("inf"), time.perf_counter() + seconds
    while True:
        start = clock()
        run()
        best = min(best, clock() - start)
        if time.perf_counter() > until:
            return best


def floats(*shape: int) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def pdl_work(threads: int, dtype: str) -> Iterator[Work]:
    """What pdl has to do."""
    from pdl import threads as pdl_threads
    from pdl.dtype import bfloat16
    from pdl.kernels import conv, gemm

    def numbers(*shape: int) -> np.ndarray:
        return floats(*shape).astype(bfloat16 if dtype == "bf16" else np.float32)

    pdl_threads.set_num_threads(threads)
    for s in CONVS:
        if s.groups > 1 and dtype == "bf16":
            continue
        x, y = numbers(s.n, 1, s.size, s.size, s.c), numbers(s.n, 1, s.out, s.out, s.o)
        w = numbers(1, s.kernel, s.kernel, s.c // s.groups, s.o)
        window = ((1, s.stride, s.stride), (0, s.pad, s.pad), (1, 1, 1), s.groups)
        runs = (partial(conv.forward, y, x, w, None, *window), partial(conv.dx, x, y, w, *window),
                partial(conv.dw, w, x, y, *window))  # fmt: skip
        for kind, run in zip(KINDS, runs, strict=True):
            yield s.net, label_of(s, kind), s.flops, run
    for net, m, n, k in PRODUCTS:
        for form in FORMS:
            a = numbers(k, m).T if form == "aTb" else numbers(m, k)
            b = numbers(n, k).T if form == "abT" else numbers(k, n)
            yield net, f"matmul {m}x{n}x{k} {form}", 2 * m * n * k, partial(gemm.matmul, numbers(m, n), a, b)


def torch_work(threads: int, dtype: str, channels_last: bool) -> Iterator[Work]:
    """The same in PyTorch, in one of its two layouts."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    kind_of = torch.bfloat16 if dtype == "bf16" else torch.float32
    for s in CONVS:
        if s.groups > 1 and dtype == "bf16":
            continue
        x = torch.randn(s.n, s.c, s.size, s.size).to(kind_of, memory_format=layout)
        w = torch.randn(s.o, s.c // s.groups, s.kernel, s.kernel).to(kind_of, memory_format=layout)
        window = ([s.stride] * 2, [s.pad] * 2, [1, 1])
        g = torch.conv2d(x, w, None, *window, s.groups)
        gradient = partial(torch.ops.aten.convolution_backward, g, x, w, None, *window, False, [0, 0], s.groups)
        runs = (partial(torch.conv2d, x, w, None, *window, s.groups), partial(gradient, [True, False, False]),
                partial(gradient, [False, True, False]))  # fmt: skip
        for kind, run in zip(KINDS, runs, strict=True):
            yield s.net, label_of(s, kind), s.flops, run
    for net, m, n, k in PRODUCTS:
        for form in FORMS:
            a = torch.randn(k, m).to(kind_of).T if form == "aTb" else torch.randn(m, k).to(kind_of)
            b = torch.randn(n, k).to(kind_of).T if form == "abT" else torch.randn(k, n).to(kind_of)
            run = partial(torch.mm, a, b, out=torch.empty(m, n, dtype=kind_of))
            yield net, f"matmul {m}x{n}x{k} {form}", 2 * m * n * k, run


def label_of(s: Shape, kind: str) -> str:
    """One line of the table."""
    depthwise = " depthwise" if s.groups > 1 else ""
    return f"{s.kernel}x{s.kernel}/{s.stride} {s.c}->{s.o} on {s.n}x{s.size}x{s.size}{depthwise} {kind}"


def measure(work: Iterator[Work], args: argparse.Namespace) -> dict[str, float]:
    """{label: GFLOP/s}, in the order of the work."""
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    rates = {}
    for net, label, flops, run in work:
        if (not args.only or net in args.only) and (not args.kinds or any(kind in label for kind in args.kinds)):
            rates[f"{net:10} {label}"] = flops / best_seconds(run, args.seconds, clock) / 1e9
    return rates


def peer_rates(args: argparse.Namespace) -> dict[str, float]:
    """The better of the peer's two layouts for every line, measured by this file under the peer's interpreter."""
    command = [args.peer_python, __file__, "--worker", "--threads", str(args.threads), "--seconds", str(args.seconds),
               "--dtype", args.dtype]  # fmt: skip
    only = [*(["--only", *args.only] if args.only else []), *(["--kinds", *args.kinds] if args.kinds else [])]
    done = subprocess.run([*command, *only], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the peer failed:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def main() -> None:
    """Parse the command line; print the table, or (as the peer's worker) JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="an interpreter that has PyTorch")
    parser.add_argument("--only", nargs="+", choices=sorted({s.net for s in CONVS} | {p[0] for p in PRODUCTS}))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="of measuring, per line")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--kinds", nargs="+", choices=(*KINDS, "matmul"), help="these lines only")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        layouts = [measure(torch_work(args.threads, args.dtype, last), args) for last in (True, False)]
        print(json.dumps({k: max(layout[k] for layout in layouts) for k in layouts[0]}))
        return
    rates = measure(pdl_work(args.threads, args.dtype), args)
    peer = peer_rates(args) if args.peer_python else {}
    peak = peak_rate(args.dtype) * args.threads
    print(f"{args.dtype}: peak {peak:.0f} GFLOP/s on {args.threads} threads")
    print(f"{'':62}{'GFLOP/s':>8}{'of peak':>9}" + (f"{'peer':>9}{'ratio':>9}" if peer else ""))
    for label, rate in rates.items():
        beside = f"{peer[label]:9.1f}{rate / peer[label]:9.2f}" if label in peer else ""
        print(f"{label:62}{rate:8.1f}{rate / peak:9.2f}{beside}")


if __name__ == "__main__":
    main()
