"""How the thread pool scales, and how it lives beside another pool in the same process.

    python tools/bench/threads.py                      # ResNet-20 and ResNet-18 (CIFAR), 1 thread against all cores
    python tools/bench/threads.py --neighbour numpy    # while another thread multiplies matrices in NumPy's BLAS
    python tools/bench/threads.py --neighbour torch    # or in PyTorch, where this interpreter has it

A step is a compiled training step (--eager: without a program). Steps with one thread and with all take turns in one
process, so that both see the same machine; figures are medians, `slowest` is the 95th percentile over the median. With
a neighbour the steps run with all threads, while it rests and while it works, and its own speed is shown beside: two
pools that share a machine fairly run at half their speed each, two that fight at a fraction of it.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np

import pdl
import pdl_cv
from pdl import threads
from pdl.program.step import CompiledStep

Step = Callable[[], object]
NETS: dict[str, tuple[Callable[[], pdl.nn.Module], int]] = {
    "resnet20 b128": (lambda: pdl_cv.CifarResNet(in_channels=3, num_classes=10), 128),
    "resnet18 b32": (lambda: pdl_cv.ResNet(18, num_classes=10, small_images=True), 32),
}


def training_step(name: str, eager: bool) -> Step:
    """One SGD step on random images of 32x32."""
    make, batch = NETS[name]
    pdl.seed(0)
    net, rng = make(), np.random.default_rng(0)
    images = pdl.Tensor(rng.standard_normal((batch, 32, 32, 3), dtype=np.float32))
    labels = pdl.Tensor(rng.integers(0, 10, batch))
    optimizer = pdl.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    compiled = CompiledStep(lambda x, y: pdl.cross_entropy(net(x), y), net)
    gradients = compiled.eager if eager else compiled

    def step() -> None:
        gradients(images, labels)
        optimizer.step()

    return step


def timed(step: Step) -> float:
    """Milliseconds of one step."""
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def spread(times: list[float]) -> float:
    """The 95th percentile over the median."""
    return sorted(times)[int(0.95 * (len(times) - 1))] / statistics.median(times)


def scaling(name: str, args: argparse.Namespace) -> None:
    """One line: the step with one thread and with all."""
    step, times = training_step(name, args.eager), {1: [], args.threads: []}  # type: tuple[Step, dict[int, list[float]]]
    until = time.perf_counter() + args.seconds
    while time.perf_counter() < until:
        for count, found in times.items():
            threads.set_num_threads(count)
            step()  # lets the caches settle
            found += [timed(step) for _ in range(3)]
    one, many = (statistics.median(t) for t in times.values())
    print(f"{name:16}{one:11.1f}{many:14.1f}{one / many:10.2f}{spread(times[args.threads]):10.2f}")


class Neighbour:
    """A thread that multiplies matrices with a pool of its own."""

    def __init__(self, kind: str) -> None:
        self.multiply = {"numpy": numpy_product, "torch": torch_product}[kind]()
        self.products, self.working, self.stopped = 0, threading.Event(), False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while self.working.wait() and not self.stopped:
            self.multiply()
            self.products += 1

    def stop(self) -> None:
        """End the thread."""
        self.stopped = True
        self.working.set()
        self.thread.join()

    def rate(self, seconds: float) -> float:
        """Products a second while it works."""
        before, start = self.products, time.perf_counter()
        time.sleep(seconds)
        return (self.products - before) / (time.perf_counter() - start)


def numpy_product() -> Step:
    """512 x 512 in NumPy's BLAS."""
    a, out = np.ones((512, 512), np.float32), np.empty((512, 512), np.float32)
    return lambda: np.matmul(a, a, out)


def torch_product() -> Step:
    """512 x 512 in PyTorch."""
    import torch

    a, out = torch.ones(512, 512), torch.empty(512, 512)
    return lambda: torch.mm(a, a, out=out)


def beside(name: str, args: argparse.Namespace) -> None:
    """One line: the step alone, and while a neighbour works; the neighbour alone, and while the step runs."""
    step, neighbour = training_step(name, args.eager), Neighbour(args.neighbour)
    threads.set_num_threads(args.threads)
    alone: list[float] = []
    shared: list[float] = []
    free: list[float] = []
    busy: list[float] = []
    for _ in range(max(1, int(args.seconds / 3))):
        step()
        alone += repeat(step, 1)
        neighbour.working.set()
        free.append(neighbour.rate(0.5))
        before, start = neighbour.products, time.perf_counter()
        shared += repeat(step, 1.5)
        busy.append((neighbour.products - before) / (time.perf_counter() - start))
        neighbour.working.clear()
    neighbour.stop()
    a, s = statistics.median(alone), statistics.median(shared)
    kept = statistics.median(busy) / statistics.median(free)
    print(f"{name:16}{a:11.1f}{s:14.1f}{a / s:10.2f}{spread(shared):10.2f}{kept:16.2f}{a / s + kept:10.2f}")


def repeat(step: Step, seconds: float) -> list[float]:
    """Times of steps, at least three."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds * 1e3:
        times.append(timed(step))
    return times


def main() -> None:
    """Parse the command line, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=threads.available_cores())
    parser.add_argument("--only", nargs="+", help="parts of the names of nets")
    parser.add_argument("--seconds", type=float, default=8, help="of measuring, per net")
    parser.add_argument("--eager", action="store_true", help="without compiling the step")
    parser.add_argument("--neighbour", choices=["numpy", "torch"])
    args = parser.parse_args()
    if args.neighbour:
        print(
            f"{'ms a step':16}{'alone':>11}{'beside':>14}{'speed':>10}{'slowest':>10}{'its own speed':>16}{'sum':>10}"
        )
    else:
        print(f"{'ms a step':16}{'1 thread':>11}{f'{args.threads} threads':>14}{'speed-up':>10}{'slowest':>10}")
    for name in NETS:
        if not args.only or any(part in name for part in args.only):
            (beside if args.neighbour else scaling)(name, args)


if __name__ == "__main__":
    main()
