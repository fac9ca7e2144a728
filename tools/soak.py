"""Thousands of predictions of varied sizes: does memory stay flat?    python tools/soak.py [--json FILE]

Takes a bundle, or makes one of a small net with open sizes, and runs it on batches, heights and widths that keep
changing, so that plans come and go, and with them up to --memory of the resident set. Warm-up is the first fifth; the
median of the resident set over the last fifth must be within 5 % of that over the second.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import pdl
from pdl import nn
from pdl.dims import Dim
from pdl.export.bundle import content_of
from pdl.export.symbolic import trace_symbolic
from pdl.ops.base import Spec
from pdl.runtime import bundle
from pdl.runtime.session import Session

ALLOWED = 0.05


def small_net() -> bytes:
    """A convolution net of open sizes, as a bundle with a pipeline that keeps the picture's size."""
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    sizes = (Dim.symbol("n", 3), Dim.symbol("h", 64), Dim.symbol("w", 80), 3)
    program, notes = trace_symbolic(net, {"image": Spec(sizes, pdl.float32)})
    assert not notes, notes
    content, arrays = content_of(program, ["image"], ["logits"])
    steps = [{"step": "image", "mode": "rgb"}, {"step": "normalize", "mean": [0.5], "std": [0.25]}]
    post = [{"step": "softmax"}, {"step": "top", "k": 3}]
    return bundle.pack(content, arrays, pipeline={"pre": {"image": steps}, "post": {"logits": post}})


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(session: Session, predictions: int, *, low: int = 24, high: int = 320, seed: int = 0) -> dict[str, Any]:
    """Run so many predictions, batches of 1 to 4 pictures of low to high pixels a side; the facts as plain values."""
    rng = np.random.default_rng(seed)
    canvas = rng.integers(0, 256, (high, high, 3), dtype=np.uint8)
    marks: list[tuple[int, int]] = []
    shapes: set[tuple[int, ...]] = set()
    done, begin = 0, time.perf_counter()
    every = max(1, predictions // 50)
    gc.freeze()  # what was there before is not looked through again at every mark
    while done < predictions:
        h, w = (int(n) for n in rng.integers(low, high + 1, 2))
        count = int(rng.integers(1, 5))
        shapes.add((count, h, w))
        session.batch([canvas[:h, :w]] * count)
        if done // every != (done + count) // every:
            gc.collect()
            marks.append((done + count, resident()))
        done += count
    gc.unfreeze()
    early = float(np.median([size for at, size in marks if 0.2 * predictions <= at <= 0.4 * predictions]))
    late = float(np.median([size for at, size in marks if at >= 0.8 * predictions]))
    return {
        "predictions": done,
        "shapes": len(shapes),
        "seconds": round(time.perf_counter() - begin, 1),
        "warm_mib": early / 2**20,
        "last_mib": late / 2**20,
        "largest_mib": max(size for _, size in marks) / 2**20,
        "growth": late / early - 1,
        "marks": [[at, round(size / 2**20, 1)] for at, size in marks],
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", nargs="?", type=Path)
    parser.add_argument("--predictions", type=int, default=10_000)
    parser.add_argument("--memory", type=int, default=64, help="MiB that plans may keep")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    session = pdl.runtime.load(args.bundle or small_net(), memory=args.memory << 20)
    found = soak(session, args.predictions)
    for at, size in found["marks"]:
        print(f"{at:>8} predictions  {size:>8.1f} MiB")
    print(f"{found['predictions']} predictions of {found['shapes']} shapes in {found['seconds']} s: "
          f"{found['warm_mib']:.1f} MiB warm, {found['last_mib']:.1f} at the end ({found['growth']:+.1%}), "
          f"{found['largest_mib']:.1f} at most")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(found) + "\n")
    sys.exit(found["growth"] > ALLOWED)


if __name__ == "__main__":
    main()
