"""What tiny numbers cost: the time of a training step with gradients around 1e-38, over that of the same step as it is.

    python tools/bench/denormals.py                 # step 1000 against step 10, the loss scaled by 1e-38
    python tools/bench/denormals.py --steps 100 --threads 1

Gradients of such a loss, their squares and the optimisers' averages are denormal numbers, on which arithmetic may be a
hundred times slower. A ratio near 1 says that none is left. The scaled steps and the ordinary ones take turns in one
process; a figure is the median of its window of steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import pdl
import pdl_cv
from pdl import nn, threads

WINDOW = 10
Step = Callable[[], float]


class Wordy(nn.Module):
    """A net of ops with NumPy bodies and of recurrent kernels beside the dense ones: embedding, GRU, exp, softplus."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru, self.out = nn.Embedding(500, 32), nn.GRU(32, 64), nn.Linear(64, 10)

    def forward(self, ids: pdl.Tensor) -> pdl.Tensor:
        """Logits [N, 10] of ids [N, T]."""
        y = self.gru(self.embedding(ids))[0]
        return self.out(pdl.sqrt(pdl.square(y) + 1e-3).mean(axis=1) * pdl.sin(y.sum(axis=1)))


def workloads() -> dict[str, tuple[nn.Module, np.ndarray, str]]:
    """{name: (net, input, optimiser)}."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((32, 28, 28, 1), dtype=np.float32)
    small = rng.standard_normal((16, 32, 32, 3), dtype=np.float32)
    return {
        "lenet, adam": (pdl_cv.LeNet(in_channels=1, num_classes=10), images, "Adam"),
        "resnet20, sgd": (pdl_cv.CifarResNet(in_channels=3, num_classes=10), small, "SGD"),
        "gru, adam": (Wordy(), rng.integers(0, 500, (32, 12)), "Adam"),
    }


def step_of(net: nn.Module, x: np.ndarray, optimizer: str, scale: float) -> Step:
    """One training step as a function that returns its seconds; the loss is multiplied by `scale`."""
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    update = getattr(pdl.optim, optimizer)(net.parameters(), lr=1e-3, **options)
    average = pdl.optim.EMA(net, 0.99)
    labels = pdl.Tensor(np.random.default_rng(1).integers(0, 10, len(x)))
    inputs = pdl.Tensor(x)

    def step() -> float:
        start = time.perf_counter()
        update.zero_grad()
        (pdl.cross_entropy(net(inputs), labels) * scale).backward()
        pdl.optim.clip_grad_norm_(net.parameters(), 1e-40 if scale < 1 else 1e-3)
        update.step()
        average.update()
        return time.perf_counter() - start

    return step


def main() -> None:
    """Parse the command line, measure, print one line a net."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--scale", type=float, default=1e-38, help="of the loss")
    parser.add_argument("--threads", type=int, help="default: as many as there are cores")
    parser.add_argument("--only", help="part of a net's name")
    args = parser.parse_args()
    if args.threads:
        threads.set_num_threads(args.threads)
    print(f"{'median step, ms':16}{'step 10':>12}{'last step':>12}{'ratio':>8}{'unscaled':>12}{'ratio':>8}")
    for name, (net, x, optimizer) in workloads().items():
        if args.only and args.only not in name:
            continue
        pdl.seed(0)
        tiny, plain = step_of(net, x, optimizer, args.scale), step_of(net, x, optimizer, 1.0)
        early = [tiny() for _ in range(2 * WINDOW)][WINDOW // 2 : -WINDOW // 2]
        for _ in range(args.steps - 4 * WINDOW):
            tiny()
        late, usual = zip(*[(tiny(), plain()) for _ in range(2 * WINDOW)], strict=True)
        first, last, other = (statistics.median(t) * 1e3 for t in (early, late, usual))
        print(f"{name:16}{first:12.3f}{last:12.3f}{last / first:8.2f}{other:12.3f}{last / other:8.2f}")


if __name__ == "__main__":
    main()
