"""Streaming recognition: Conformer S chunk by chunk, with ONNX Runtime on the same program; memory over an hour.

    pip install onnx onnxruntime
    python tools/bench/streaming.py                        # 60 s at 16 kHz in chunks of 240 and of 640 ms, one thread
    python tools/bench/streaming.py --chunk 6 --length 5 --layers 1 --minutes 0

Both sides run the step that a bundle holds: samples of a chunk and states in, logits and states out, from waveform to
logits, of random weights. pdl reads pieces by `Stream.push`; ONNX Runtime is given windows that are cut, and its
states stay OrtValues. "difference" is the largest one of logits from pdl's, over the largest of pdl's. The real-time
factor is computing time over the length of the sound. The sides are processes that take short turns (turns.py); the
ratio is the median of those of turns beside each other. `--clock cpu` counts the time that a side computes.

latency   of the first output: the sound that it needs, and what computing it takes
memory    of the process, resident, at minute 5 and at the end, where a smaller net and greedy decoding read noise with
          pauses by `Session.stream`, in the first of the chunks; of the first minute, whether the letters are those
          of the whole recording
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import turns
from infer import cpu
from train import table

RATE = 16000
Call = Callable[[], Any]


def traced(args: argparse.Namespace) -> Any:
    """The step of Conformer S with random weights."""
    import pdl
    from pdl.export.stream import trace_stream
    from pdl_speech.features import LogMel
    from pdl_speech.models.conformer import Conformer
    from pdl_speech.models.speech_net import Chunks

    pdl.seed(0)
    net = Conformer(features=LogMel(pad_mode="constant"), layers=args.layers, chunk=args.chunk, left=args.left)
    return trace_stream(Chunks(net.eval()))


def ours(args: argparse.Namespace, wave: Any, folder: Path) -> tuple[Call, dict[str, Any]]:
    """`pdl.runtime.streams.Stream`."""
    from pdl.runtime.streams import Stream

    made = traced(args)
    streams, framing = made.streams(), made.framing
    size = framing.chunk * framing.shift

    def call() -> Any:
        stream = Stream(streams)
        found = [step for at in range(0, len(wave), size) for step in stream.push(wave[at : at + size])]
        return np.concatenate(found + stream.finish())

    call()
    stream = Stream(streams)
    needed = framing.window - framing.before
    stream.push(wave[: needed - 1])
    begin = time.perf_counter()
    first = stream.push(wave[needed - 1 : needed])
    facts = {"latency": [needed / RATE, time.perf_counter() - begin], "steps": len(first[0])}
    return call, facts


def onnxruntime(args: argparse.Namespace, wave: Any, folder: Path) -> tuple[Call, dict[str, Any]]:
    """ONNX Runtime on the exported step."""
    import onnxruntime as peer

    from pdl.export.onnx import to_onnx

    made = traced(args)
    framing, count = made.framing, len(made.kinds)
    names, news = [f"state.{i}" for i in range(count)], [f"new.{i}" for i in range(count)]
    file = folder / "step.onnx"
    to_onnx(made.step, file, inputs=["x", "counts", *names], outputs=["y", *news])
    options = peer.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = args.threads
    session = peer.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    value = peer.OrtValue.ortvalue_from_numpy
    types = {"tensor(bool)": np.bool_, "tensor(float)": np.float32}
    first = {each.name: value(np.zeros(each.shape, types[each.type])) for each in session.get_inputs()[2:]}
    frames = framing.frames(len(wave))
    padded = np.concatenate([np.zeros(framing.before, np.float32), wave, np.zeros(framing.window, np.float32)])
    windows = [
        (padded[None, at * framing.shift :][:, : framing.window], np.array([min(framing.chunk, frames - at)]))
        for at in range(0, frames, framing.chunk)
    ]

    def call() -> Any:
        states, found = first, []
        for window, counts in windows:
            given = {"x": value(np.ascontiguousarray(window)), "counts": value(counts), **states}
            y, *new = session.run_with_ort_values(["y", *news], given)
            states = dict(zip(names, new, strict=True))
            found.append(y.numpy()[0, : framing.steps(int(counts[0]))])
        return np.concatenate(found)

    return call, {"version": peer.__version__}


MAKERS = {"pdl": ours, "onnxruntime": onnxruntime}


def memory(args: argparse.Namespace) -> None:
    """Print MB of this process at minute 5 and at the end of a stream of `args.minutes`, how often it was real time,
    and whether the letters of the first one are those of the whole."""
    import pdl
    from pdl import runtime
    from pdl.dims import Dim
    from pdl.export.bundle import write
    from pdl.export.deployment import Deployment
    from pdl.ops.base import Spec
    from pdl.runtime.streams import run_whole
    from pdl_speech.features import LogMel
    from pdl_speech.models.conformer import Conformer
    from pdl_speech.models.speech_net import Chunks
    from pdl_speech.recognition.deploy import Alone

    pdl.seed(0)
    features = LogMel(pad_mode="constant", n_mels=40)
    net = Conformer(features=features, dim=32, layers=2, kernel=15, chunk=args.chunk, left=args.left, num_classes=28)
    net.eval()
    post = {"logits": [{"step": "softmax"}, {"step": "ctc", "seconds": net.seconds}]}
    rng = np.random.default_rng(0)
    samples = [rng.standard_normal(RATE, np.float32)]
    inputs = {"audio": Spec((Dim.symbol("n", 2), Dim.symbol("t", RATE)), pdl.float32)}
    pre = {"audio": [{"step": "waveform", "rate": RATE}]}
    labels = list(" abcdefghijklmnopqrstuvwxyz")
    with tempfile.TemporaryDirectory() as folder:
        write(
            f"{folder}/net.pdl",
            Deployment(Alone(net), inputs, ("logits",), pre, post, samples, labels=labels, stream=Chunks(net)),
        )
        session = runtime.load(f"{folder}/net.pdl")
    second = 0.1 * rng.standard_normal(RATE, np.float32)
    minute = np.concatenate([second * (at % 10 < 8) for at in range(60)])
    events = run_whole(session.stream(), minute, (RATE,))
    said = "".join(event["text"] for event in events if event["final"]).replace(" ", "")  # utterances end at 30 s
    same = "the same letters as" if said == session(minute)["text"].replace(" ", "") else "OTHER LETTERS THAN"
    stream, minutes = session.stream(), args.minutes
    begin, count, early = time.perf_counter(), 0, resident()
    for at in range(round(60 * minutes)):
        count += len(stream.push(second * (at % 10 < 8)))
        if at == min(300, round(30 * minutes)):
            early = resident()
    count += len(stream.finish())
    speed = 60 * minutes / (time.perf_counter() - begin)
    print(f"memory {early:.1f} MB at minute {min(5, minutes / 2):g}, {resident():.1f} MB at minute {minutes:g}; "
          f"{count} events, {speed:.0f} times real time; {same} the whole, {len(said)} a minute")  # fmt: skip


def resident() -> float:
    """MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def race(args: argparse.Namespace) -> None:
    """Print the table of one size of chunks."""
    sizes = ["--chunk", str(args.chunk), "--left", str(args.left)]
    print(f"{args.length:g} s at {RATE} Hz, chunks of {args.chunk * 40} ms behind {args.left} before, "
          f"{args.threads} thread(s), {cpu()}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        commands = {side: [sys.executable, *sys.argv, *sizes, "--worker", side, folder] for side in MAKERS}
        rows = turns.race(commands, seconds=args.seconds, turns=args.turns)
        print(file=sys.stderr)
        own, found = np.load(Path(folder) / "pdl.npy"), []
        for side, row in rows.items():
            if "median" not in row:
                found.append([side, str(row["error"])])
                continue
            gap = np.abs(np.load(Path(folder) / f"{side}.npy") - own).max() / np.abs(own).max()
            speed = turns.ratio(rows, "pdl", [side])
            factors = [f"{each / args.length:.4f}" for each in (row["median"], min(row["turns"]))]
            found.append([side, *factors, f"{speed[1]:.2f}" if speed and side != "pdl" else "", f"{gap:.1e}"])
    print(table(["side", "real-time factor", "best", "pdl is x times as fast", "difference"], iter(found)))
    sound, computing = rows["pdl"].get("latency", (0.0, 0.0))
    print(f"latency of the first {rows['pdl'].get('steps')} steps: {1e3 * sound:.0f} ms of sound, "
          f"{1e3 * computing:.1f} ms of computing")  # fmt: skip


def main() -> None:
    """Race, and print tables; or, as a worker, serve one side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=float, default=60.0, help="seconds of the sound")
    parser.add_argument("--chunk", type=int, nargs="+", default=[6, 16], help="steps of 40 ms; a table for each")
    parser.add_argument("--left", type=int, help="chunks before that a step looks at; by default about 2.5 s")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=60.0, help="of the stream whose memory is measured; 0: none")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--clock", choices=turns.CLOCKS, default="wall")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("PDL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    sizes = [
        argparse.Namespace(**{**vars(args), "chunk": each, "left": args.left or max(1, round(64 / each))})
        for each in args.chunk
    ]
    if args.memory:
        return memory(sizes[0])
    if args.worker:
        side, folder = args.worker
        noise = np.random.default_rng(0).standard_normal(round(args.length * RATE), np.float32)
        call, facts = MAKERS[side](sizes[0], 0.1 * noise, Path(folder))
        np.save(Path(folder) / f"{side}.npy", call())
        return turns.serve(call, facts, args.clock)
    for each in sizes:
        race(each)
    if args.minutes:
        subprocess.run([sys.executable, *sys.argv, "--memory"], check=True)


if __name__ == "__main__":
    main()
