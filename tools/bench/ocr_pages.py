"""Whole pages read by PP-OCRv4: pages a second and memory of pdl and of RapidOCR, which has the same weights.

    python tools/bench/ocr_pages.py PAGES... --peer PYTHON --rounds 5 --json pages.json
    python tools/bench/ocr_pages.py PAGES... --peer PYTHON --count 2000 --vary 160,640 --rounds 1

PAGES are image files, or folders of them; PYTHON has `rapidocr-onnxruntime` (1.4.4 and later have PP-OCRv4). Each side
is a process of its own, and they take turns of a few pages, so that what else the machine does meets all of them.
Images are decoded before the clock starts. The first turn warms up and does not count; pages whose sizes a side has not
met yet count in every other one.

pdl        `ocr/ppocr_v4`
same       RapidOCR with pdl's settings, which are PaddleOCR's: the detector sees at most 960 pixels a side, its means,
           thresholds and ratio. The same work
installed  RapidOCR as it comes: the detector sees at least 736 pixels a side

--vary     pages are cut out of the given ones and resized, with a longer side from LEAST to MOST pixels (as many from
           100 to 200 as from 200 to 400), each anew: a server's mix of sizes. By default they are read as they are
--clock    "cpu" counts the time that all threads of a side compute, for machines that are busy with other work (sides
           that wait actively count that, too: give them one thread)
ratio      the median, over the turns, of a side's time through pdl's for the same pages right before or after it
best       the same of the shortest time that each page took in all rounds: what the machine does while nothing else
           disturbs it
peak       most memory in use until the end (VmHWM), in MiB; "flat" is the median of the resident set over the last
           fifth of the turns through that over the second fifth
agreement  of the lines that pdl and the other side both find (rectangles around them overlap by 0.5 and more), the
           share with the same text, spaces ignored; and how many lines each finds
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import cv2
import numpy as np
from turns import CLOCKS

Lines: TypeAlias = "list[tuple[list[float], str]]"  # left, top, right, bottom, and the text
SIDES = ("pdl", "same", "installed")
SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp")


# -- pages -------------------------------------------------------------------------------------------------------------
def files(given: Sequence[Path]) -> list[Path]:
    """The images that were given, those in folders among them."""
    found = [p for each in given for p in (sorted(each.rglob("*")) if each.is_dir() else [each])]
    return [p for p in found if p.suffix.lower() in SUFFIXES]


def page(paths: Sequence[Path], number: int, vary: tuple[int, int] | None) -> np.ndarray:
    """A page, BGR: one of the files in turn, or with `vary` a part of it, resized; the same on all sides."""
    x = cv2.imread(str(paths[number % len(paths)]), cv2.IMREAD_COLOR)
    if vary is None:
        return x
    rng = np.random.default_rng(number)
    h, w = (max(64, round(float(rng.uniform(0.4, 1)) * n)) for n in x.shape[:2])
    top, left = (int(rng.integers(0, max(0, n - part) + 1)) for n, part in zip(x.shape[:2], (h, w), strict=True))
    x = x[top : top + h, left : left + w]
    factor = float(np.exp(rng.uniform(*np.log(vary)))) / max(x.shape[:2])
    size = tuple(max(16, round(n * factor)) for n in x.shape[1::-1])
    return cv2.resize(x, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR)


# -- sides -------------------------------------------------------------------------------------------------------------
def reader_of_pdl(threads: int) -> Callable[[np.ndarray], Lines]:
    """pdl's answer for a page in BGR."""
    from pdl.export.from_hub import open_system
    from pdl.hub import systems

    found = systems.system("ocr/ppocr_v4")
    assert found is not None
    session = open_system(found, threads=threads)

    def read(x: np.ndarray) -> Lines:
        return [(around(line["polygon"]), line["text"]) for line in session(x[:, :, ::-1])["lines"]]

    return read


def reader_of_rapidocr(threads: int, *, same: bool) -> Callable[[np.ndarray], Lines]:
    """RapidOCR's answer for a page in BGR."""
    from rapidocr_onnxruntime import RapidOCR
    from rapidocr_onnxruntime.ch_ppocr_det.utils import DetPreProcess

    settings: dict[str, Any] = {"intra_op_num_threads": threads}
    if same:
        settings |= {"det_box_thresh": 0.6, "det_unclip_ratio": 1.5, "det_use_dilation": False}
    engine = RapidOCR(**settings)
    if same:  # of its options, none shrinks large pages only
        prepare = DetPreProcess(960, "max", [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        engine.text_det.get_preprocess = lambda longest: prepare
        after = engine.text_det.postprocess_op
        assert (after.box_thresh, after.unclip_ratio, after.dilation_kernel) == (0.6, 1.5, None)

    def read(x: np.ndarray) -> Lines:
        found = engine(x)[0] or []
        return [(around(polygon), text) for polygon, text, _ in found]

    return read


def around(polygon: Any) -> list[float]:
    """The rectangle around a polygon."""
    corners = np.asarray(polygon, np.float64)
    return [*corners.min(0).tolist(), *corners.max(0).tolist()]


def memory(name: str) -> int:
    """A figure of this process's memory in bytes: "VmRSS" or "VmHWM". Not ru_maxrss, which begins with that of the
    process that started this one."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    raise LookupError(name)


def serve(side: str, paths: Sequence[Path], threads: int, vary: tuple[int, int] | None, clock: str) -> None:
    """Read the pages whose numbers come as lines [first, count], and say seconds, lines and memory."""
    cv2.setNumThreads(threads)
    now = CLOCKS[clock]
    read = reader_of_pdl(threads) if side == "pdl" else reader_of_rapidocr(threads, same=side == "same")
    print(json.dumps({"resident": memory("VmRSS")}), flush=True)
    for line in sys.stdin:
        first, count = json.loads(line)
        seconds, answers = [], []
        for number in range(first, first + count):
            x = page(paths, number, vary)
            begin = now()
            answers.append(read(x))
            seconds.append(now() - begin)
        said = {"seconds": seconds, "answers": answers, "resident": memory("VmRSS"), "peak": memory("VmHWM")}
        print(json.dumps(said), flush=True)


class Side:
    """A process that serves."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self._log: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment
        )
        self.turns: list[dict[str, Any]] = []
        self.start = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise SystemExit(f"a side failed:\n{self._log.read()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def turn(self, first: int, count: int) -> None:
        """Read so many pages from this number on."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps([first, count])}\n")
        self._process.stdin.flush()
        self.turns.append(self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._log.close()


# -- the race ----------------------------------------------------------------------------------------------------------
def race(sides: dict[str, Side], total: int, turn: int, rounds: int) -> None:
    """All pages on all sides, so many times; who begins changes from turn to turn."""
    names = list(sides)
    for number in range(rounds):
        for i, first in enumerate(range(0, total, turn)):
            at = (i + number) % len(names)
            for name in names[at:] + names[:at]:
                sides[name].turn(first, min(turn, total - first))


def facts(side: Side, pdl: Side, total: int, turn: int, rounds: int) -> dict[str, Any]:
    """What the turns of a side say."""
    ours, theirs = pdl.turns[1:], side.turns[1:]
    fifth = max(1, len(side.turns) // 5)
    resident = [each["resident"] for each in side.turns]
    last, second = statistics.median(resident[-fifth:]), statistics.median(resident[fifth : 2 * fifth] or resident)
    times = [s for each in theirs for s in each["seconds"]]
    shares = [sum(b["seconds"]) / sum(a["seconds"]) for a, b in zip(ours, theirs, strict=True)]
    quickest = [sum(best_of_rounds(each, total, rounds)) for each in (pdl, side)]
    return {
        "pages_a_second": len(times) / sum(times),
        "ratio": statistics.median(shares),
        "ratio_quartiles": np.percentile(shares, [25, 75]).tolist(),
        "best_pages_a_second": total / quickest[1],
        "best_ratio": quickest[1] / quickest[0],
        "first_turn_ms_a_page": 1e3 * statistics.mean(side.turns[0]["seconds"]),
        "start_mib": side.start["resident"] / 2**20,
        "peak_mib": side.turns[-1]["peak"] / 2**20,
        "end_mib": last / 2**20,
        "flat": last / second,
        **agreement(pdl, side),
    }


def best_of_rounds(side: Side, total: int, rounds: int) -> list[float]:
    """The shortest time that each page took."""
    times = np.reshape([s for turn in side.turns for s in turn["seconds"]], (rounds, total))
    return [float(each) for each in times.min(axis=0)]


def agreement(pdl: Side, side: Side) -> dict[str, Any]:
    """How many lines both find in all pages, and how many of those read the same."""
    ours, theirs = ([page for turn in each.turns for page in turn["answers"]] for each in (pdl, side))
    both = same = 0
    for a, b in zip(ours, theirs, strict=True):
        for rectangle, text in a:
            best = max(b, key=lambda line: overlap(rectangle, line[0]), default=None)
            if best is not None and overlap(rectangle, best[0]) >= 0.5:
                both += 1
                same += "".join(text.split()) == "".join(best[1].split())
    count = sum(map(len, ours)), sum(map(len, theirs))
    return {"lines": count[1], "found_by_both": both / max(1, *count), "same_text": same / max(1, both)}


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two rectangles."""
    both = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = sum((r[2] - r[0]) * (r[3] - r[1]) for r in (a, b))
    return both / max(areas - both, 1e-9)


def model_of_cpu() -> str:
    """What the system calls its CPU."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> int:
    """Race, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--peer", help="a Python with rapidocr-onnxruntime; without one, pdl runs alone")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--count", type=int, help="how many pages; by default every file once")
    parser.add_argument("--vary", help="LEAST,MOST pixels of the longer side of parts that are cut out and resized")
    parser.add_argument("--turn", type=int, default=10, help="pages in a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    vary = None if args.vary is None else tuple(map(int, args.vary.split(",")))
    paths = files(args.pages)
    if args.side:
        serve(args.side, paths, args.threads, vary, args.clock)
        return 0
    total = args.count or len(paths)
    environment = {**os.environ, "PDL_NUM_THREADS": str(args.threads), "OMP_NUM_THREADS": str(args.threads)}
    environment["PYTHONFAULTHANDLER"] = "1"
    plain = {name: value for name, value in environment.items() if name != "PYTHONPATH"}  # the peer has its own
    sides = {}
    for name in args.sides:
        if name == "pdl" or args.peer:
            python = sys.executable if name == "pdl" else args.peer
            sides[name] = Side([python, *sys.argv, "--side", name], environment if name == "pdl" else plain)
    race(sides, total, args.turn, args.rounds)
    rows = {name: facts(side, sides["pdl"], total, args.turn, args.rounds) for name, side in sides.items()}
    for side in sides.values():
        side.close()
    print(f"{model_of_cpu()}, {args.threads} threads, {args.clock} time, {total} pages, {args.rounds} rounds")
    print(f"{'':10} {'pages/s':>8} {'pdl is':>8} {'best':>7} {'pdl is':>8} {'peak MiB':>9} {'flat':>6} {'lines':>6} "
          f"{'both':>6} {'same text':>9}")  # fmt: skip
    for name, row in rows.items():
        print(f"{name:10} {row['pages_a_second']:8.2f} {row['ratio']:6.2f} x {row['best_pages_a_second']:7.2f} "
              f"{row['best_ratio']:6.2f} x {row['peak_mib']:9.0f} {row['flat']:6.3f} {row['lines']:6d} "
              f"{row['found_by_both']:6.1%} {row['same_text']:9.1%}")  # fmt: skip
    if args.json:
        how = {"threads": args.threads, "clock": args.clock, "pages": total, "rounds": args.rounds, "vary": vary}
        shown = {"cpu": model_of_cpu(), **how, "sides": rows}
        args.json.write_text(json.dumps(shown, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
