"""Where the time of a net goes, node by node, in pdl and in ONNX Runtime: for nets of the inference race.

    python tools/bench/infer_ops.py mobilenetv2 --batch 1 --top 15
    python tools/bench/infer_ops.py resnet50 --precision bf16 --folder nets        # written by infer.py --folder nets

Times are medians over runs with each side's own profiler, which makes small nodes a few microseconds slower.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import infer_nets
from train import table


class Timed(NamedTuple):
    """A node: its kind, what it makes, and its median time in microseconds."""

    kind: str
    made: str
    time: float


def repeat(call: Any, seconds: float) -> None:
    """Call for some seconds, five times at least."""
    end, count = time.perf_counter() + seconds, 0
    while count < 5 or time.perf_counter() < end:
        call()
        count += 1


def in_pdl(folder: Path, name: str, args: argparse.Namespace) -> list[Timed]:
    """The nodes of pdl's plan."""
    from pdl.program.ir import show_op, show_spec
    from pdl.runtime import load

    session = load(folder / f"{name}.pdl", threads=args.threads, precision=args.precision)
    feed = {session.inputs[0].name: infer_nets.arrays_of(name, args.batch, folder)}
    repeat(lambda: session.run(feed), args.seconds / 3)
    nodes: dict[int, Any] = {}
    times: dict[int, list[float]] = defaultdict(list)

    def note(node: Any, begin: float, end: float) -> None:
        nodes[id(node)] = node
        times[id(node)].append(end - begin)

    repeat(lambda: session.run(feed, timer=note), args.seconds)
    return [
        Timed(show_op(n.op), show_spec(n.outputs[0].spec), statistics.median(times[key]) * 1e6)
        for key, n in nodes.items()
    ]


def in_ort(folder: Path, name: str, args: argparse.Namespace) -> list[Timed]:
    """The nodes of ONNX Runtime's graph, as its profile names them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = args.threads, 3
    options.enable_profiling, options.profile_file_prefix = True, str(folder / f"{name}-profile")
    session = onnxruntime.InferenceSession(folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"])
    x = infer_nets.onnx_input(name, args.batch, folder)
    repeat(lambda: session.run(None, {session.get_inputs()[0].name: x}), args.seconds)
    written = Path(session.end_profiling())
    events = json.loads(written.read_text())
    written.unlink()
    return list(_nodes(events))


def _nodes(events: Iterable[dict[str, Any]]) -> Iterable[Timed]:
    times: dict[str, list[float]] = defaultdict(list)
    known: dict[str, tuple[str, str]] = {}
    for event in events:
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            times[name].append(event["dur"])
            shapes = event["args"].get("output_type_shape") or [{}]
            known[name] = event["args"].get("op_name", "?"), " ".join(map(str, next(iter(shapes[0].values()), [])))
    return (Timed(*known[name], statistics.median(found)) for name, found in times.items())


def report(side: str, nodes: list[Timed], top: int) -> str:
    """Totals by kind, then the slowest nodes."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for node in nodes:
        kinds[node.kind.split("{")[0]].append(node.time)
    totals = sorted(kinds.items(), key=lambda item: -sum(item[1]))
    whole = sum(n.time for n in nodes)
    shown = ", ".join(f"{kind} x{len(times)} {sum(times):,.0f}" for kind, times in totals[:8])
    slowest = sorted(nodes, key=lambda n: -n.time)[:top]
    rows = ([n.made, n.kind[:110], f"{n.time:,.1f}"] for n in slowest)
    return "\n".join([f"{side}: {whole:,.0f} us in {len(nodes)} nodes: {shown}", table(["makes", "op", "us"], rows)])


def main() -> None:
    """Profile one net on both sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("net", help=f"one of {', '.join(infer_nets.NETS)}, or a net in the folder")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--seconds", type=float, default=1.0, help="of profiling, per side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--top", type=int, default=12, help="how many nodes to show")
    parser.add_argument("--folder", type=Path, help="where the net is, or is written")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or Path(made)
        if not (folder / f"{args.net}.json").exists():
            infer_nets.prepare(args.net, folder)
        print(report("pdl", in_pdl(folder, args.net, args), args.top))
        print()
        print(report("ONNX Runtime", in_ort(folder, args.net, args), args.top))


if __name__ == "__main__":
    main()
