"""ONNX models that others wrote, run by pdl and by ONNX Runtime: differences and latency, at several sizes.

    pip download --no-deps -d wheels rapidocr-onnxruntime silero-vad magika
    python tools/onnx_models.py wheels/rapidocr*.whl --only '*rec*' --images words.zip --sizes h=48,w=320
    python tools/onnx_models.py wheels/silero*.whl --sounds digits.zip --values sr=16000 --sizes n=1,input_1=576
    python tools/onnx_models.py net.onnx --json out.json

Takes .onnx files, and wheels or other zip archives that hold some; downloads nothing. Each model is imported into a
bundle as `pdl import` does, loaded from its bytes, and run on the same inputs as ONNX Runtime: real pictures for
inputs [n, 1 or 3, h, w], real sound for floating inputs [n, samples], random numbers for the rest. Sizes that a model
does not take are left out; without --sizes, some are found that it takes. The exit code is 1 where a difference is over
1e-4 of the spread of an output, or a model is refused.
"""

from __future__ import annotations

import argparse
import fnmatch
import io
import json
import sys
import time
import wave
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pdl.errors import PdlError
from pdl.export import imported
from pdl.onnx import load_model
from pdl.onnx.importer import fixed
from pdl.runtime import bundle
from pdl.runtime.session import of_bundle

Row = dict[str, Any]


# -- files -------------------------------------------------------------------------------------------------------------
def files(paths: list[Path], patterns: tuple[str, ...], most: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files that fit, in archives too; `most` of each archive, evenly spread."""
    for path in paths:
        if path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(path) as archive:
                names = sorted(n for n in archive.namelist() if any(fnmatch.fnmatch(n.lower(), p) for p in patterns))
                for name in names[:: max(1, len(names) // most)][:most]:
                    yield Path(name).name, archive.read(name)
        else:
            yield path.name, path.read_bytes()


def pictures(paths: list[Path]) -> list[np.ndarray]:
    """Pictures as uint8 [h, w, 3]."""
    import cv2

    found = [cv2.imdecode(np.frombuffer(d, np.uint8), 1) for _, d in files(paths, ("*.png", "*.jpg", "*.jpeg"), 16)]
    return [x for x in found if x is not None]


def sounds(paths: list[Path]) -> list[np.ndarray]:
    """Sounds as float32 in [-1, 1]."""
    found = []
    for _, data in files(paths, ("*.wav",), 16):
        with wave.open(io.BytesIO(data)) as file:
            if file.getsampwidth() == 2:
                samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")[:: file.getnchannels()]
                found.append(samples.astype(np.float32) / 2**15)
    return found


# -- inputs ------------------------------------------------------------------------------------------------------------
def feeds(model: Any, sizes: dict[str, int], below: int, args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """The inputs of a model at these sizes, and what they are made of; random ids are below a number."""
    made = imported.random_inputs(model, fixed(model.shapes, sizes), below)
    kind = "random"
    for name, x in made.items():
        if name in args.values:
            made[name] = np.asarray(args.values[name], x.dtype).reshape(x.shape)
        elif x.ndim == 4 and x.shape[1] in (1, 3) and args.pictures:
            made[name], kind = batch_of_pictures(x.shape, args.pictures), "pictures"
        elif x.ndim == 2 and x.dtype == np.float32 and args.waves:
            made[name], kind = batch_of_sounds(x.shape, args.waves), "sound"
    return made, kind


def batch_of_pictures(shape: tuple[int, ...], images: list[np.ndarray]) -> np.ndarray:
    """Pictures resized to fit, in [-1, 1], channels first."""
    import cv2

    n, channels, h, w = shape
    rows = []
    for i in range(n):
        x = cv2.resize(images[i % len(images)], (w, h)).astype(np.float32) / 127.5 - 1
        rows.append(x.mean(-1)[None] if channels == 1 else x.transpose(2, 0, 1))
    return np.ascontiguousarray(np.stack(rows), np.float32)


def batch_of_sounds(shape: tuple[int, ...], waves: list[np.ndarray]) -> np.ndarray:
    """Pieces from the middle of sounds, repeated where these are short."""
    rows = [
        np.resize(np.roll(waves[i % len(waves)], -len(waves[i % len(waves)]) // 3), shape[1:]) for i in range(shape[0])
    ]
    return np.ascontiguousarray(np.stack(rows), np.float32)


# -- a model -----------------------------------------------------------------------------------------------------------
def results(name: str, data: bytes, args: argparse.Namespace) -> Iterator[Row]:
    """A row for each of some sizes; one with the reason where pdl refuses the model."""
    import onnxruntime

    begin = time.perf_counter()
    try:
        model = load_model(data)
        session = of_bundle(bundle.read(imported.packed(model, name, {}, [])), threads=args.threads)
    except PdlError as error:
        yield {"model": name, "refused": str(error)}
        return
    seconds = time.perf_counter() - begin
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = args.threads, 4
    other = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [p.name for p in model.graph.outputs]
    kind = "graph" if model.program is None else "program"
    found = 0
    for sizes in chosen(model, args):
        for below in imported.IDS:
            inputs, made_of = feeds(model, sizes, below, args)
            try:
                wanted = other.run(names, inputs)
                break
            except Exception:  # sizes or ids that the model does not take
                wanted = None
        if wanted is None:
            continue
        try:
            got = session.run(inputs)
        except PdlError as error:
            yield {"model": name, "sizes": sizes, "refused": str(error)}
            continue
        apart = [imported.difference(y, z) for y, z in zip(got.values(), wanted, strict=True)]
        mine, theirs = latency([lambda i=inputs: session.run(i), lambda i=inputs: other.run(names, i)], args.seconds)
        yield {
            "model": name, "kind": kind, "import": seconds, "sizes": sizes, "inputs": made_of,
            "pdl": mine, "ort": theirs,
            "difference": max(d for d, _ in apart), "relative": max(r for _, r in apart),
        }  # fmt: skip
        found += 1
        if found == args.count and not args.sizes:
            return
    if not found:
        yield {"model": name, "refused": "ONNX Runtime takes none of the sizes; give some with --sizes"}


def chosen(model: Any, args: argparse.Namespace) -> Iterator[dict[str, int]]:
    """The sizes given, with 1 for names that they leave out, or some to try."""
    names = {n for shape in model.shapes.values() for n in shape or () if isinstance(n, str)}
    if not names or not args.sizes:
        yield from imported.sizes_to_try(model)
        return
    for given in args.sizes:
        yield {name: given.get(name, 1) for name in sorted(names)}


def latency(calls: list[Callable[[], Any]], seconds: float) -> list[float]:
    """Median milliseconds of each call; they take turns."""
    found: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while len(found[0]) < 3 or time.perf_counter() < end:
        for times, call in zip(found, calls, strict=True):
            begin = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - begin))
    return [float(np.median(times)) for times in found]


# -- the command -------------------------------------------------------------------------------------------------------
def numbers(text: str) -> dict[str, int]:
    """h=48,w=320 as a dict."""
    return {name: int(value) for name, value in (part.split("=") for part in text.split(","))}


def table(titles: list[str], rows: list[list[str]]) -> str:
    """Aligned columns."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in (titles, *rows)]
    return "\n".join(lines)


def cells(row: Row) -> list[str]:
    """The line of a row."""
    if "refused" in row:
        return [row["model"], "refused", row["refused"].split("\n")[0][:60], *[""] * 5]
    sizes = ", ".join(f"{name}={n}" for name, n in row["sizes"].items()) or "fixed"
    return [
        row["model"], row["kind"], sizes, row["inputs"], f"{row['difference']:.1e}", f"{row['relative']:.1e}",
        f"{row['pdl']:.2f}", f"{row['ort']:.2f}",
    ]  # fmt: skip


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help=".onnx files, and wheels or archives that hold some")
    parser.add_argument("--only", default="*", help="a pattern for the names of the files")
    parser.add_argument("--images", nargs="*", type=Path, default=[], help="pictures, or archives of some")
    parser.add_argument("--sounds", nargs="*", type=Path, default=[], help="16-bit WAV files, or archives of some")
    parser.add_argument("--sizes", action="append", type=numbers, default=[], help="sizes by name; again for more")
    parser.add_argument("--values", type=numbers, default={}, help="values of integer inputs: sr=16000")
    parser.add_argument("--count", type=int, default=2, help="how many sizes, where none are given")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="for the latency of each row; the sides take turns")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    args.pictures, args.waves = pictures(args.images), sounds(args.sounds)
    rows = []
    for name, data in files(args.models, ("*.onnx",), 1000):
        if fnmatch.fnmatch(name, args.only):
            rows += results(name, data, args)
    print(
        table(
            ["model", "as", "sizes", "inputs", "differs by", "of spread", "pdl ms", "ORT ms"],
            [cells(row) for row in rows],
        )
    )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return int(any("refused" in row or row["relative"] > imported.TOLERANCE for row in rows))


if __name__ == "__main__":
    sys.exit(main())
