"""Training speed of detectors, pdl against PyTorch: whole steps (forward, loss, gradients, update) of 8 images 320x320.

    python tools/bench/detection_train.py --torch-python PYTHON            # 2 threads
    python tools/bench/detection_train.py --torch-python PYTHON --threads 1 --only picodet_s --json X

SSDlite and Faster R-CNN are torchvision's own, losses included; YOLOX and PicoDet are written in PyTorch
(detection_torch.py). pdl runs compiled steps, as its trainer does; PyTorch runs eagerly, in NCHW and in channels last.
Both begin with the weights that PyTorch draws, and learn from the same batch, so that their first losses must agree
within 0.5 %: those of YOLOX and PicoDet do to six digits; in SSDlite several default boxes of one shape may hold a
whole object, so that they overlap it equally, and rounding decides which of them is to find it.
Faster R-CNN draws samples, so its losses are only near each other.

The sides are processes that take short turns (turns.py); the ratio is to the faster layout of PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import turns

#: variant -> its module in pdl_cv.models, and arguments that make it torchvision's in training
NETS: dict[str, tuple[str, dict[str, Any]]] = {
    "ssdlite320_mobilenet_v3_large": ("ssd", {}),
    "fasterrcnn_mobilenet_v3_large_320_fpn": ("faster_rcnn", {"training_proposals": 2000}),
    "yolox_tiny": ("yolox", {}),
    "picodet_s": ("picodet", {}),
}
SAMPLED = {"fasterrcnn_mobilenet_v3_large_320_fpn"}
SIDES = ("pdl compiled", "torch nchw", "torch nhwc")
TOLERANCE, SAMPLED_TOLERANCE = 5e-3, 0.1


def pdl_side(name: str, folder: Path, threads: int) -> tuple[Callable[[], float], int]:
    """A training step, which gives its loss, and the number of parameters."""
    import detection_scenes as scenes
    import numpy as np

    import pdl
    from pdl import threads as pdl_threads
    from pdl.program import CompiledStep
    from pdl_cv.models.detector import Targets

    pdl_threads.set_num_threads(threads)
    pdl.seed(0)
    module, arguments = NETS[name]
    net: Any = pdl.create_model(name, **arguments).train()
    with np.load(folder / f"{name}.npz") as state:
        net.load_state_dict(importlib.import_module(f"pdl_cv.models.{module}").remap(net, dict(state)))
    optimizer = pdl.optim.SGD(net.parameters(), **scenes.SGD)

    def loss_of(images: pdl.Tensor, boxes: pdl.Tensor, labels: pdl.Tensor) -> Any:
        return sum(net.loss(images, Targets(boxes, labels)).values())

    def notify(line: str) -> None:
        raise RuntimeError(line)

    program = CompiledStep(loss_of, net, notify=notify)
    batch = [pdl.Tensor(each) for each in scenes.batch()]

    def step() -> float:
        loss = float(program(*batch).data)
        optimizer.step()
        return loss

    return step, sum(p.size for p in net.parameters())


def worker(side: str, name: str, args: argparse.Namespace) -> None:
    """One side, in this process."""
    framework, mode = side.split()
    if framework == "pdl":
        step, parameters = pdl_side(name, args.folder, args.threads)
    else:
        step, parameters = importlib.import_module("detection_torch").side(name, mode, args.folder, args.threads)
    turns.serve(step, {"loss": step(), "parameters": parameters}, args.clock)


def run(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """All sides of a net, in turns."""
    weights = [args.torch_python, str(Path(__file__).with_name("detection_torch.py")), name, str(args.folder)]
    subprocess.run(weights, check=True)
    commands = {}
    for side in SIDES:
        python = sys.executable if side.startswith("pdl") else args.torch_python
        commands[side] = [python, __file__, "--folder", str(args.folder), "--threads", str(args.threads), "--clock",
                          args.clock, "--worker", side, name]  # fmt: skip
    rows = turns.race(commands, seconds=args.seconds, turns=args.turns)
    if not any("error" in row for row in rows.values()):
        check(name, rows)
    best = turns.ratio(rows, SIDES[0], SIDES[1:])
    return {"rows": rows, "peer": best and best[0], "ratio": best and best[1]}


def check(name: str, rows: dict[str, Any]) -> None:
    """Both have as many parameters and, nearly, the same loss."""
    own, peer = rows[SIDES[0]], rows[SIDES[1]]
    allowed = SAMPLED_TOLERANCE if name in SAMPLED else TOLERANCE
    if own["parameters"] != peer["parameters"] or abs(own["loss"] - peer["loss"]) > allowed * abs(peer["loss"]):
        facts = [{key: row[key] for key in ("parameters", "loss")} for row in (own, peer)]
        raise SystemExit(f"{name}: pdl and PyTorch do not train the same: {facts[0]}, {facts[1]}")


def cells(name: str, result: dict[str, Any]) -> list[str]:
    """A line of the table."""
    rows = result["rows"]
    wrong = next((f"{side}: {row['error']}" for side, row in rows.items() if "error" in row), None)
    if wrong is not None:
        return [name, wrong[:160]]
    times = [f"{rows[side]['median'] * 1e3:,.0f}" for side in SIDES]
    losses = f"{rows[SIDES[0]]['loss']:.4f} / {rows[SIDES[1]]['loss']:.4f}"
    return [name, *times, f"{result['ratio']:.2f}", losses]


def main() -> None:
    """Run a race, or (as a worker) one side."""
    titles = ["net", *[f"{side} ms" for side in SIDES], "ratio", "first loss, pdl / PyTorch"]
    turns.main(__doc__, list(NETS), worker, run, cells, titles, seconds=1.0, turns=7, torch=True)


if __name__ == "__main__":
    main()
