"""What a training with table servers costs on many machines, from what a message and a row cost on this one.

    python tools/simulate_tables.py                           # 100 billion parameters, 400 machines; calibrates first
    python tools/simulate_tables.py --nodes 64 --parameters 5e9 --network 1.25e9 --measured costs.json

Calibration pulls and pushes batches of two sizes through two Ray servers (`SparseTable`) over their sockets, and fits
CPU time a call and a row, for both ends: c = call + rows * row. The model, for T trainers and S servers (nodes = T +
S), a batch of b samples with f ids a trainer and step, of which u are distinct, rows of C numbers with one of state:

    rows a step, of a trainer   u f b, in S messages each way: 8 bytes of key out, 4 C in; 8 + 4 C out for pushes
    of a server                 T u f b / S rows, T pulls and T pushes
    time of a trainer           dense + 2 (S call + u f b row)
    time of a server            2 T (call' + u f b / S row')
    network of a node           bytes / bandwidth + latency of two rounds
    dense gradients             2 D 4 (T - 1) / T bytes of a ring over the trainers
    step                        async: the slowest of the three, as rows of the next step travel meanwhile;
                                sync: their sum

Rows are spread evenly by hash, so no server is ahead of another by more than sqrt(rows); hot rows are summed by each
trainer before they are pushed. Messages are held to cost the same between machines as within one, plus bytes and
latency.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np


def cpu(process: int) -> float:
    """Seconds, of user and system."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def calibrate(columns: int, rounds: int) -> dict[str, float]:
    """CPU seconds of a call and of a row, of the client and of a server."""
    import ray

    from pdl.distributed.tables.table import SparseTable

    table = SparseTable(columns, servers=2, mode="async", optimizer="Adagrad", options={"lr": 0.01, "rowwise": True})
    servers = ray.get([line.server.handle.process.remote() for line in table.client.lines])
    for line in table.client.lines:
        line.server.close()
        line.server.blocks.proof = bytes(32)  # memory that they do not find: rows travel, as between machines
    sizes, found = (200, 40_000), []
    for size in sizes:
        keys = np.unique(np.random.default_rng(0).integers(0, 10 * size, size))
        gradients = np.ones((len(keys), columns), np.float32)
        for _ in range(3):  # rows are made
            table.pull(keys)
            table.push(keys, gradients)
        table.settle()
        begin = time.process_time(), *(cpu(each) for each in servers)
        for _ in range(rounds):
            table.pull(keys)
            table.push(keys, gradients)
        table.settle()
        end = time.process_time(), *(cpu(each) for each in servers)
        spent = [(b - a) / rounds for a, b in zip(begin, end, strict=True)]
        found.append((len(keys), spent[0], sum(spent[1:])))
    table.close()
    (n, client, server), (m, client_m, server_m) = found
    row, row_server = (client_m - client) / (2 * (m - n)), (server_m - server) / (2 * (m - n))
    calls = 4  # a pull and a push of two servers
    return {
        "call": max(client - 2 * n * row, 0) / calls,
        "row": row,
        "call_server": max(server - 2 * n * row_server, 0) / calls,
        "row_server": row_server,
    }


def simulate(args: argparse.Namespace, cost: dict[str, float]) -> dict[str, Any]:
    """One split of the nodes into trainers and servers."""
    servers, trainers, columns = args.servers, args.nodes - args.servers, args.columns
    rows = args.batch * args.fields * args.distinct
    each = 8 + 4 * columns
    per_server = trainers * rows / servers
    key_bytes, row_bytes = rows * 8, rows * each
    sent, received = key_bytes + row_bytes, rows * 4 * columns
    ring = 2 * 4 * args.dense * (trainers - 1) / max(trainers, 1)
    moved = {"trainer": sent + received + 2 * ring, "server": (sent + received) * trainers / servers}
    times = {
        "trainer": args.compute + 2 * (servers * cost["call"] + rows * cost["row"]) / args.cores,
        "server": 2 * (trainers * cost["call_server"] + per_server * cost["row_server"]) / args.cores,
        "network": max(moved.values()) / args.network + 4 * args.latency,
    }
    step = sum(times.values()) if args.mode == "sync" else max(times.values())
    share = args.parameters / servers
    return {
        "trainers, servers": [trainers, servers],
        "rows of all tables": args.parameters / columns,
        "GB a server, all rows touched": share * 4 * (1 + 1 / columns) / 1e9 + share / columns * 40 / 1e9,
        "MB a step of a trainer, a server": [moved["trainer"] / 1e6, moved["server"] / 1e6],
        "ms a step": {name: 1e3 * value for name, value in times.items()} | {"step": 1e3 * step},
        "bottleneck": max(times, key=lambda name: times[name]),
        "samples/s": trainers * args.batch / step,
    }


def main() -> None:
    """Calibrate, and print the best split of the nodes and those beside it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--parameters", type=float, default=100e9, help="of the tables")
    parser.add_argument("--columns", type=int, default=16)
    parser.add_argument("--fields", type=int, default=100, help="ids of a sample")
    parser.add_argument("--distinct", type=float, default=0.4, help="share of a batch's ids that are distinct")
    parser.add_argument("--batch", type=int, default=2048, help="samples of a trainer")
    parser.add_argument("--dense", type=float, default=2e6, help="parameters of the dense part")
    parser.add_argument("--compute", type=float, default=0.1, help="seconds of the dense part, of a trainer")
    parser.add_argument("--cores", type=int, default=1, help="that share the calls and rows of a node")
    parser.add_argument("--network", type=float, default=1.25e9, help="bytes a second of a node")
    parser.add_argument("--latency", type=float, default=1e-4, help="seconds")
    parser.add_argument("--mode", choices=["sync", "async"], default="async")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--measured", type=Path, help="costs of an earlier calibration; written if there is none")
    args = parser.parse_args()
    if args.measured is not None and args.measured.is_file():
        cost = json.loads(args.measured.read_text())
    else:
        cost = calibrate(args.columns, args.rounds)
        if args.measured is not None:
            args.measured.write_text(json.dumps(cost))
    print("microseconds of CPU:", {name: round(1e6 * value, 3) for name, value in cost.items()})
    found = []
    for servers in sorted({max(1, round(args.nodes * share)) for share in np.arange(0.05, 0.96, 0.05)}):
        args.servers = servers
        found.append(simulate(args, cost))
    found.sort(key=lambda each: -each["samples/s"])
    for each in found[:3]:
        print(json.dumps(each, indent=1, default=float))


if __name__ == "__main__":
    main()
