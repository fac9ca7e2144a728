"""Whole answers of detectors: from the bytes of a JPEG to boxes in its pixels, pdl against ONNX Runtime with OpenCV.

    pip install onnx==1.23.2 onnxruntime==1.32.0 opencv-python-headless
    python tools/bench/detection_infer.py                                  # every family, batch 1, 2 threads
    python tools/bench/detection_infer.py --only picodet_s --threads 1 --json X

Each net has random weights (batch norms: the statistics of a batch) and a score threshold that about 100 of its
predictions pass. It is written as a bundle, which pdl loads and calls with the bytes, and as two ONNX files for the
peer, of a fixed shape: with suppression inside, and "dense", where NumPy leaves out low scores and
cv2.dnn.NMSBoxesBatched suppresses. Around both OpenCV decodes, resizes (areas when shrinking, as pdl does), fills, and
makes the input by cv2.dnn.blobFromImageWithParams; NumPy moves the boxes to the image. The ratio is to the faster one.

The sides are processes that take short turns (turns.py). "found": objects in the answers of pdl and of the peer.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import turns

#: variant -> height and width of its input; the usual one of each family
NETS = {
    "picodet_s": 320, "ssdlite320_mobilenet_v3_large": 320, "ssd300_vgg16": 300, "yolox_tiny": 416, "yolov3_tiny": 416,
    "ppyoloe_plus_s": 640, "rt_detr_r18": 640, "blazeface": 128, "fasterrcnn_mobilenet_v3_large_320_fpn": 320,
    "maskrcnn_resnet50_fpn": 320,
}  # fmt: skip
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FILL, CANDIDATES, MOST = 114, 100, 100
SIDES = ("pdl", "inside", "dense")
Answer = Callable[[], int]


# -- files -------------------------------------------------------------------------------------------------------------
def prepare(name: str, folder: Path) -> None:
    """NAME.pdl, NAME-inside.onnx, NAME-dense.onnx where boxes are shared by the classes, NAME.jpg and NAME.json."""
    from detection_data import Photos

    import pdl
    from pdl.data import transforms as T
    from pdl.data.pipeline import deployed_steps
    from pdl.dims import Dim
    from pdl.export import bundle
    from pdl.export.deployment import Deployment
    from pdl.export.onnx import to_onnx
    from pdl.ops.base import Spec
    from pdl.program import trace
    from pdl_cv.detection.deploy import Dense, Found

    pdl.seed(0)
    net: Any = pdl.create_model(name)
    size, photo = NETS[name], Photos(1).files[0]
    pre = [{"step": "image", "mode": "rgb"}, *deployed_steps([T.Letterbox(size), T.Normalize(MEAN, STD)])]
    x = prepared(photo, size).transpose(0, 2, 3, 1)
    score, dense = settle(net, np.ascontiguousarray(x))
    net.selection = replace(net.selection, score=score, most=MOST)
    masks = {"masks": "masks"} if hasattr(net, "mask_logits") else {}
    outputs = ("boxes", "scores", "labels", *masks)
    count = getattr(net, "num_classes", 90)
    post = {"boxes": [{"step": "detections", "score": 0.0, "k": MOST, **masks}]}
    made = Deployment(
        Found(net), {"image": Spec((Dim.symbol("n", 3), size, size, 3), np.dtype(np.float32))}, outputs,
        {"image": pre}, post, [], labels=[f"class {i}" for i in range(count)],
    )  # fmt: skip
    program, _ = bundle.trace_symbolic(made.module, made.inputs)
    (folder / f"{name}.pdl").write_bytes(bundle.to_bytes(program, made, name=name))
    one = Spec((1, size, size, 3), np.dtype(np.float32))
    forms = {"inside": (Found, outputs), **({"dense": (Dense, ("boxes", "scores"))} if dense else {})}
    for form, (around, names) in forms.items():
        to_onnx(trace(around(net).eval(), one), folder / f"{name}-{form}.onnx", inputs=["image"], outputs=names)
    (folder / f"{name}.jpg").write_bytes(photo)
    chosen = net.selection
    facts = {"score": score, "iou": chosen.iou, "per_class": chosen.per_class, "size": size, "dense": dense}
    (folder / f"{name}.json").write_text(json.dumps(facts))


def settle(net: Any, x: Any) -> tuple[float, bool]:
    """Give batch norms the statistics of a few images; the score that about `CANDIDATES` predictions pass, and whether
    boxes are shared by the classes and suppressed."""
    import pdl
    from pdl import nn

    norms = [m for _, m in net.named_modules() if isinstance(m, nn.BatchNorm2d)]
    momenta, several = [m.momentum for m in norms], np.concatenate([x, x[:, ::-1], x[:, :, ::-1], -x])
    for m in norms:
        m.momentum = 1.0
    with pdl.no_grad():
        net.train()(pdl.Tensor(np.ascontiguousarray(several)))
        for m, momentum in zip(norms, momenta, strict=True):
            m.momentum = momentum
        boxes, scores = net.eval().dense(pdl.Tensor(x))
    best = np.sort(scores.numpy().reshape(-1))
    plain = type(net).detections.__qualname__ == "Detector.detections"
    return float(best[-min(CANDIDATES, len(best))]), plain and boxes.ndim == 3 and net.selection.kind == "hard"


# -- the sides ---------------------------------------------------------------------------------------------------------
def pdl_side(name: str, folder: Path, threads: int) -> Answer:
    """The bundle, called with the bytes."""
    from pdl.runtime import load

    session, photo = load(folder / f"{name}.pdl", threads=threads), (folder / f"{name}.jpg").read_bytes()
    return lambda: len(session(photo)["detections"])


def prepared(photo: bytes, size: int) -> Any:
    """The input [1, 3, size, size] of the bytes of a file, by OpenCV."""
    return blob(decoded(photo), (size, size))[0]


def decoded(photo: bytes) -> Any:
    """The image as OpenCV gives it, BGR."""
    import cv2

    return cv2.imdecode(np.frombuffer(photo, np.uint8), cv2.IMREAD_COLOR)


def blob(image: Any, size: tuple[int, int]) -> tuple[Any, float, int, int]:
    """The input of `size` (height, width), and the scale and the place (left, top) of the image in it."""
    import cv2

    height, width = image.shape[:2]
    scale = min(size[0] / height, size[1] / width)
    h, w = round(height * scale), round(width * scale)
    left, top = (size[1] - w) // 2, (size[0] - h) // 2
    small = cv2.resize(image, (w, h), interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR)
    edges = top, size[0] - h - top, left, size[1] - w - left
    small = cv2.copyMakeBorder(small, *edges, cv2.BORDER_CONSTANT, value=(FILL, FILL, FILL))
    params = cv2.dnn.Image2BlobParams()
    params.scalefactor = tuple(1 / (255 * s) for s in STD)
    params.mean, params.swapRB = tuple(255 * m for m in MEAN), True
    return cv2.dnn.blobFromImageWithParams(small, params), scale, left, top


def peer_side(name: str, form: str, folder: Path, threads: int) -> Answer:
    """ONNX Runtime, with OpenCV around it."""
    import cv2
    import onnxruntime

    cv2.setNumThreads(threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = onnxruntime.InferenceSession(folder / f"{name}-{form}.onnx", options, providers=["CPUExecutionProvider"])
    facts = json.loads((folder / f"{name}.json").read_text())
    photo = (folder / f"{name}.jpg").read_bytes()

    def answer() -> int:
        image = decoded(photo)
        x, scale, left, top = blob(image, (facts["size"], facts["size"]))
        found = [each[0] for each in session.run(None, {"image": x})]
        boxes, scores, labels = chosen(*found, facts) if form == "dense" else found[:3]
        kept = labels >= 0
        height, width = image.shape[:2]
        moved = (boxes[kept] - (left, top, left, top)) / scale
        moved = np.clip(moved, 0, (width, height, width, height))
        objects = [
            {"class": int(label), "score": float(score), "box": box}
            for label, score, box in zip(labels[kept], scores[kept], moved.tolist(), strict=True)
        ]
        if len(found) > 3:
            for each, mask in zip(objects, found[3][kept], strict=True):
                each["mask"] = pasted(mask, each["box"], height, width)
        return len(objects)

    return answer


def chosen(boxes: Any, scores: Any, facts: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Boxes [K, 4], scores and classes, best first, of all boxes [A, 4] and scores [A, C]."""
    import cv2

    at, labels = np.nonzero(scores >= facts["score"])
    boxes, scores = boxes[at], scores[at, labels]
    sides = np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], axis=1)
    if facts["per_class"]:
        kept = cv2.dnn.NMSBoxesBatched(sides, scores, labels.astype(np.int32), facts["score"], facts["iou"])
    else:
        kept = cv2.dnn.NMSBoxes(sides, scores, facts["score"], facts["iou"])
    kept = np.asarray(kept, np.int64)
    kept = kept[np.argsort(-scores[kept], kind="stable")][:MOST]
    return boxes[kept], scores[kept], labels[kept]


def pasted(mask: Any, box: list[float], height: int, width: int) -> Any:
    """The probabilities [m, m] of an object at the pixels of its box: bool, as large as the image."""
    import cv2

    x1, y1, x2, y2 = (round(v) for v in box)
    found = np.zeros((height, width), bool)
    if x2 > x1 and y2 > y1:
        found[y1:y2, x1:x2] = cv2.resize(mask, (x2 - x1, y2 - y1)) >= 0.5
    return found


def worker(side: str, name: str, args: argparse.Namespace) -> None:
    """One side, in this process."""
    made = pdl_side if side == "pdl" else lambda *rest: peer_side(rest[0], side, *rest[1:])
    answer = made(name, args.folder, args.threads)
    turns.serve(answer, {"found": answer()}, args.clock)


# -- the race ----------------------------------------------------------------------------------------------------------
def run(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """All sides of a net, in turns."""
    if not (args.folder / f"{name}.json").exists():
        prepare(name, args.folder)
    sides = [side for side in SIDES if side != "dense" or (args.folder / f"{name}-dense.onnx").exists()]
    base = [sys.executable, __file__, "--folder", str(args.folder), "--threads", str(args.threads), "--clock",
            args.clock, "--worker"]  # fmt: skip
    rows = turns.race({side: [*base, side, name] for side in sides}, seconds=args.seconds, turns=args.turns)
    best = turns.ratio(rows, "pdl", sides[1:])
    return {"rows": rows, "peer": best and best[0], "ratio": best and best[1]}


def cells(name: str, result: dict[str, Any]) -> list[str]:
    """A line of the table."""
    rows = result["rows"]
    wrong = next((f"{side}: {row['error']}" for side, row in rows.items() if "error" in row), None)
    if wrong is not None:
        return [f"{name} {NETS[name]}", wrong[:120]]
    times = [f"{rows[side]['median'] * 1e3:.2f}" if side in rows else "-" for side in SIDES]
    found = f"{rows['pdl']['found']} / {rows[result['peer']]['found']}"
    return [f"{name} {NETS[name]}", *times, result["peer"], f"{result['ratio']:.2f}", found]


def main() -> None:
    """Run a race, or (as a worker) one side."""
    titles = ["net", "pdl ms", "NMS inside ms", "dense ms", "peer mode", "ratio", "found"]
    turns.main(__doc__, list(NETS), worker, run, cells, titles, seconds=0.3, turns=9)


if __name__ == "__main__":
    main()
