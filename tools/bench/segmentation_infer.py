"""Whole answers of segmentation nets: from the bytes of a JPEG of 480 x 360 to the class of each of its pixels, pdl
against ONNX Runtime with OpenCV.

    pip install onnx==1.23.2 onnxruntime==1.32.0 opencv-python-headless
    python tools/bench/segmentation_infer.py                               # every family, batch 1, 2 threads
    python tools/bench/segmentation_infer.py --only unet --threads 1 --clock cpu --json X

Each net has random weights (batch norms: the statistics of a few images) and 11 classes. It is written as a bundle,
which pdl loads and calls with the bytes, and as two ONNX files for the peer, of a fixed shape: "inside" enlarges the
scores and decides (Resize, ArgMax), "outside" gives the scores, which OpenCV enlarges and NumPy decides. Around both
OpenCV decodes, fills up to a size that the net takes, and makes the input by cv2.dnn.blobFromImageWithParams. The ratio
is to the faster one; "same": the share of pixels of which pdl and the peer say the same.

The sides are processes that take short turns (turns.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import turns
from detection_infer import MEAN, STD, blob, decoded

#: variant -> height and width of its input
NETS = {
    "unet": (368, 480), "icnet_resnet50": (384, 480), "icnet_mobilenet_v2": (384, 480), "pp_liteseg_t": (384, 480),
    "deeplab_v3_plus_mobilenet_v2": (368, 480),
}  # fmt: skip
HEIGHT, WIDTH, CLASSES = 360, 480, 11
SIDES = ("pdl", "inside", "outside")
Answer = Callable[[], Any]


# -- files -------------------------------------------------------------------------------------------------------------
def prepare(name: str, folder: Path) -> None:
    """NAME.pdl, NAME-inside.onnx, NAME-outside.onnx and NAME.jpg."""
    import cv2
    from detection_data import Photos

    import pdl
    from pdl import nn
    from pdl.data import transforms as T
    from pdl.data.pipeline import deployed_steps
    from pdl.dims import Dim
    from pdl.export import bundle
    from pdl.export.deployment import Deployment
    from pdl.export.onnx import to_onnx
    from pdl.ops.base import Spec
    from pdl.program import trace

    class Decided(nn.Module):
        """The class of each pixel of the input."""

        def __init__(self, net: nn.Module) -> None:
            self.net = net

        def forward(self, x: pdl.Tensor) -> pdl.Tensor:
            return pdl.argmax(pdl.resize(self.net(x), x.shape[1:3], mode="bilinear"), axis=-1)

    pdl.seed(0)
    size, files = NETS[name], [decoded(file) for file in Photos(4).files]
    photos = [cv2.resize(image, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA) for image in files]
    net: Any = pdl.create_model(name, num_classes=CLASSES)
    settle(net, np.concatenate([blob(photo, size)[0] for photo in photos]).transpose(0, 2, 3, 1))
    pre = [{"step": "image", "mode": "rgb"}, *deployed_steps([T.Letterbox(size), T.Normalize(MEAN, STD)])]
    made = Deployment(
        net, {"image": Spec((Dim.symbol("n", 3), *size, 3), np.dtype(np.float32))}, ("scores",), {"image": pre},
        {"scores": [{"step": "segmentation"}]}, [], labels=[f"class {i}" for i in range(CLASSES)],
    )  # fmt: skip
    program, _ = bundle.trace_symbolic(made.module, made.inputs)
    (folder / f"{name}.pdl").write_bytes(bundle.to_bytes(program, made, name=name))
    one = Spec((1, *size, 3), np.dtype(np.float32))
    for form, module in (("inside", Decided(net)), ("outside", net)):
        to_onnx(trace(module.eval(), one), folder / f"{name}-{form}.onnx", inputs=["image"], outputs=["found"])
    (folder / f"{name}.jpg").write_bytes(cv2.imencode(".jpg", photos[0])[1].tobytes())


def settle(net: Any, x: Any) -> None:
    """Give batch norms the statistics of images."""
    import pdl
    from pdl import nn

    norms = [m for _, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)]
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.momentum = 1.0
    with pdl.no_grad():
        net.train()(pdl.Tensor(np.ascontiguousarray(x)))
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
    net.eval()


# -- the sides ---------------------------------------------------------------------------------------------------------
def pdl_side(name: str, folder: Path, threads: int) -> Answer:
    """The bundle, called with the bytes."""
    from pdl.runtime import load

    session, photo = load(folder / f"{name}.pdl", threads=threads), (folder / f"{name}.jpg").read_bytes()
    return lambda: session(photo)["mask"]


def peer_side(name: str, form: str, folder: Path, threads: int) -> Answer:
    """ONNX Runtime, with OpenCV around it."""
    import cv2
    import onnxruntime

    cv2.setNumThreads(threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(folder / f"{name}-{form}.onnx", options, providers=["CPUExecutionProvider"])
    photo, size = (folder / f"{name}.jpg").read_bytes(), NETS[name]

    def answer() -> Any:
        image = decoded(photo)
        x, _, left, top = blob(image, size)
        found = session.run(None, {"image": x})[0][0]
        if form == "outside":
            large = [cv2.resize(plane, size[::-1], interpolation=cv2.INTER_LINEAR) for plane in found]
            found = np.argmax(np.stack(large), axis=0)
        height, width = image.shape[:2]  # as large as the part of the input that it fills
        return found[top : top + height, left : left + width].astype(np.uint8)

    return answer


def worker(side: str, name: str, args: argparse.Namespace) -> None:
    """One side, in this process."""
    made = pdl_side if side == "pdl" else lambda *rest: peer_side(rest[0], side, *rest[1:])
    answer = made(name, args.folder, args.threads)
    mask = answer()
    np.save(args.folder / f"{name}-{side}.npy", mask)
    turns.serve(answer, {"classes": len(np.unique(mask))}, args.clock)


# -- the race ----------------------------------------------------------------------------------------------------------
def run(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """All sides of a net, in turns."""
    if not (args.folder / f"{name}.jpg").exists():
        prepare(name, args.folder)
    base = [sys.executable, __file__, "--folder", str(args.folder), "--threads", str(args.threads), "--clock",
            args.clock, "--worker"]  # fmt: skip
    rows = turns.race({side: [*base, side, name] for side in SIDES}, seconds=args.seconds, turns=args.turns)
    best = turns.ratio(rows, "pdl", SIDES[1:])
    masks = [np.load(args.folder / f"{name}-{side}.npy") for side in ("pdl", best[0])] if best else []
    return {"rows": rows, "peer": best and best[0], "ratio": best and best[1],
            "same": float(np.mean(masks[0] == masks[1])) if best else None}  # fmt: skip


def cells(name: str, result: dict[str, Any]) -> list[str]:
    """A line of the table."""
    rows, shown = result["rows"], f"{name} {NETS[name][1]}x{NETS[name][0]}"
    wrong = next((f"{side}: {row['error']}" for side, row in rows.items() if "error" in row), None)
    if wrong is not None:
        return [shown, wrong[:120]]
    times = [f"{rows[side]['median'] * 1e3:.2f}" for side in SIDES]
    return [shown, *times, f"{result['ratio']:.2f}", f"{result['same']:.4f}"]


def main() -> None:
    """Run a race, or (as a worker) one side."""
    titles = ["net", "pdl ms", "inside ms", "outside ms", "ratio", "same"]
    turns.main(__doc__, list(NETS), worker, run, cells, titles, seconds=0.3, turns=9)


if __name__ == "__main__":
    main()
