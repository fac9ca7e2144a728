"""Click logs that are read while a model trains: `pdl_rec.data.ClickStream` with one reader and with several.

    python tools/bench/rec_stream.py                                # 500,000 rows of Criteo's form, 1 and 2 readers
    python tools/bench/rec_stream.py --data day_0 --readers 1 2 4   # a log of your own, in that form

rows/s, MB/s   of whole passes: read, cut into columns, 13 counts and the hashed numbers of 26 names (100,000 each), in
               batches of --batch that are shuffled within 131,072 rows, as a training gets them
cores          CPU time of the process by the time on the clock: what readers side by side make use of
The fastest of --rounds; where other processes take cores, `rows/s of CPU` (rows by CPU time) is what to compare.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from pdl_rec.click_through.fields import Encoding, LabelSpec, Learned, expanded, learn
from pdl_rec.click_through.loader import StreamLoader
from pdl_rec.data import ClickStream


def write(path: Path, rows: int) -> None:
    """Rows of Criteo's form: a label, 13 counts with long tails of which some are missing, 26 names by Zipf's law."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for begin in range(0, rows, 10_000):
            n = min(10_000, rows - begin)
            counts = np.floor(rng.exponential(1.5, (n, 13)) ** 3).astype(int).astype(str)
            counts[rng.random((n, 13)) < 0.2] = ""
            names = (1e6 ** rng.random((n, 26))).astype(np.int64) * 2654435761 % 2**32
            labels = (rng.random(n) < 0.25).astype(int)
            for label, numbers, row in zip(labels, counts, names, strict=True):
                file.write("\t".join([str(label), *numbers, *(f"{name:08x}" for name in row)]) + "\n")


def measure(path: Path, readers: int, batch: int) -> dict[str, Any]:
    """One pass."""
    stream = ClickStream(path, form="criteo", readers=readers)
    specs = expanded({"I*": {"kind": "number", "scale": "log"}, "C*": {"hash": 100_000}}, stream.columns)
    stream.bind(Encoding(specs, {"label": LabelSpec()}, learn(specs, stream.blocks, Learned()), None))
    loader = StreamLoader(stream, batch_size=batch, shuffle=True, seed=0)
    begin, cpu, rows = time.perf_counter(), time.process_time(), 0
    for each in loader:
        rows += len(each["label"])
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return {
        "readers": readers, "rows/s": rows / wall, "MB/s": path.stat().st_size / 1e6 / wall, "cores": cpu / wall,
        "rows/s of CPU": rows / cpu,
    }  # fmt: skip


def main() -> None:
    """Print the fastest pass of each number of readers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a file of Criteo's form; by default drawn rows")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--readers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = args.data
        if path is None:
            write(path := Path(folder) / "day", args.rows)
        for readers in args.readers:
            passes = [measure(path, readers, args.batch) for _ in range(args.rounds)]
            print(json.dumps({k: round(v, 2) for k, v in max(passes, key=lambda each: each["rows/s"]).items()}))


if __name__ == "__main__":
    main()
