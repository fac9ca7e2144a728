"""State vectors in pdl, Qulacs, PennyLane Lightning and Qiskit Aer, in one run: circuits, gradients, memory, bandwidth.

    python tools/bench/quantum.py                                       # pdl alone
    python tools/bench/quantum.py --peer-python PYTHON                  # in turns with the others that PYTHON has
    python tools/bench/quantum.py --peer-python PYTHON --qubits 16 20 --only run --json out.json

run        random circuits of depth 20: RX, RY, RZ on every qubit, then a brick of CZ; complex128
gradient   value and gradient of 6 layers of RY, RZ and a chain of CNOT on 16 qubits under the sum of Z Z of neighbours
memory     the same circuit on 26 qubits, an expectation and samples of it, in a process of its own: its peak memory
           (VmHWM) beside the 16 x 2^n bytes of the state
triad      bytes a second that a run moves, sweeps x 2 states, beside the machine's triad in the same minute

Every round runs each side in a process of its own, one behind the other. A time is the median of a process, and of the
rounds; before it a side's amplitudes, or value and gradient, are compared with pdl's, and 1e-9 apart is an error.
`quantum_sides.py` says in which form the others run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from quantum_sides import GRADIENTS, RUNS, ansatz_gates, random_gates

PARTS = ("run", "gradient", "memory", "triad")
DEPTH, LAYERS, ANSATZ, LARGE = 20, 6, 16, 26
Rows = list[dict[str, Any]]


# -- in the child ------------------------------------------------------------------------------------------------------
def worker(side: str, part: str, n: int, path: Path, budget: float, threads: int) -> dict[str, Any]:
    """One process: what the side gave, into `path`; milliseconds of its runs, within the budget of seconds."""
    if side == "pdl":
        import pdl.threads

        pdl.threads.set_num_threads(threads)
    if part == "memory":
        return memory_of(n)
    gates, angles = random_gates(n, DEPTH) if part == "run" else ansatz_gates(n, LAYERS)
    timed, given = (RUNS if part == "run" else GRADIENTS)[side](n, gates, angles)
    times = [timed()]  # the first run warms up, and says how many there are time for
    least = 3 if times[0] < 2 else 1
    times = [timed() for _ in range(int(np.clip(budget / times[0], least, 200)))]
    np.save(path, given())
    return {"ms": 1e3 * statistics.median(times), "fastest": 1e3 * min(times), "runs": len(times)}


def memory_of(n: int) -> dict[str, Any]:
    """The peak of this process after a circuit, an expectation and 1000 samples; and what it had before them."""
    from quantum_sides import pdl_circuit

    from pdl_quantum.circuits import PauliSum, sample, states
    from pdl_quantum.circuits.simulate import program_of

    gates, angles = random_gates(n, DEPTH)
    circuit = pdl_circuit(n, gates, len(angles))
    program_of(circuit, 1)
    before = peak()
    state = states(circuit, angles)
    after_run = peak()
    value = float(PauliSum(n, {"ZZ" + "I" * (n - 2): 1.0, "XY" + "I" * (n - 2): 0.5}).expectation(state)[0])
    drawn = sample(state, 1000)
    return {"before": before, "after_run": after_run, "peak": peak(), "state": 16 << n, "value": value,
            "distinct": len(np.unique(drawn))}  # fmt: skip


def peak() -> int:
    """The most memory that this process has held, in bytes. (`ru_maxrss` also knows what its parent held.)"""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


# -- in the parent -----------------------------------------------------------------------------------------------------
def started(side: str, part: str, n: int, path: Path, args: argparse.Namespace) -> dict[str, Any]:
    """`worker` in a process of its own; {"fault": why} where a peer does not run."""
    python = sys.executable if side == "pdl" else args.peer_python
    job = [side, part, str(n), str(path)]
    command = [python, __file__, "--worker", *job, f"--seconds={args.seconds}", f"--threads={args.threads}"]
    env = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "PDL_NUM_THREADS": str(args.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        if side == "pdl":
            raise SystemExit(done.stderr)
        return {"fault": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:150]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(part: str, n: int, args: argparse.Namespace, folder: Path) -> Rows:
    """A row for each side, pdl first."""
    rounds: list[dict[str, dict[str, Any]]] = []
    sides = [s for s in (RUNS if part == "run" else GRADIENTS) if s == "pdl" or (args.peer_python and s in args.peers)]
    rows: Rows = [{"part": part, "qubits": n, "side": side} for side in sides]
    for _ in range(args.rounds):
        failed = {side: found for side, found in (rounds[0].items() if rounds else ()) if "fault" in found}
        rounds.append({s: failed.get(s) or started(s, part, n, folder / f"{s}.npy", args) for s in sides})
    own = np.load(folder / "pdl.npy")
    for row in rows:
        found = [each[row["side"]] for each in rounds]
        if "fault" in found[0]:
            row["fault"] = found[0]["fault"]
            continue
        row["apart"] = float(np.abs(np.load(folder / f"{row['side']}.npy") - own).max())
        if not row["apart"] < 1e-9:
            raise SystemExit(f"{part} at {n} qubits: {row['side']} and pdl are {row['apart']:.2g} apart")
        row["ms"] = statistics.median(f["ms"] for f in found)
        row["fastest"] = min(f["fastest"] for f in found)
        row["pdl_is"] = row["ms"] / rows[0]["ms"]
    return rows


def report(rows: Rows) -> None:
    """Print a comparison."""
    for row in rows:
        head = f"{row['part']:<9}{row['qubits']:>3} qubits  {row['side']:<10}"
        if "fault" in row:
            print(f"{head} does not run: {row['fault']}")
        else:
            print(f"{head}{row['ms']:10.2f} ms (fastest {row['fastest']:.2f})   pdl is {row['pdl_is']:5.2f}x   "
                  f"apart {row['apart']:.0e}", flush=True)  # fmt: skip
    peers = [row for row in rows[1:] if "ms" in row]
    if peers:
        best = min(peers, key=lambda row: float(row["ms"]))
        print(f"{best['part']} at {best['qubits']} qubits: pdl is {best['pdl_is']:.2f}x as fast as {best['side']}")


def share_of_triad(runs: Rows, threads: int) -> Rows:
    """Bytes a second of pdl's runs beside the machine's."""
    from bandwidth import triad_rate
    from quantum_sides import pdl_circuit

    from pdl_quantum.circuits.schedule import local_qubits

    triad, made = triad_rate(threads), []
    for row in runs:
        gates, angles = random_gates(row["qubits"], DEPTH)
        local = local_qubits(row["qubits"], 1, threads)
        sweeps = int(pdl_circuit(row["qubits"], gates, len(angles)).compiled(local=local).stream[0])
        rate = sweeps * 2 * (16 << row["qubits"]) / row["ms"] * 1e3
        made.append({"part": "triad", "qubits": row["qubits"], "sweeps": sweeps, "rate": rate, "triad": triad})
        print(f"triad    {row['qubits']:>3} qubits  {sweeps} sweeps: {rate / 1e9:.1f} GB/s, {rate / triad:.0%} of the "
              f"machine's {triad / 1e9:.1f} GB/s", flush=True)  # fmt: skip
    return made


def main() -> None:
    """Print a row for each part, size and side, or write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", help="a Python with qulacs, pennylane-lightning or qiskit-aer")
    parser.add_argument("--peers", nargs="*", default=list(RUNS)[1:], choices=list(RUNS)[1:])
    parser.add_argument("--only", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--qubits", nargs="*", type=int, default=[16, 20, 24], help="sizes of the random circuits")
    parser.add_argument("--ansatz", type=int, default=ANSATZ, help="qubits of the ansatz")
    parser.add_argument("--large", type=int, default=LARGE, help="qubits of the run whose memory is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="of timed runs, each round and side; at least one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        side, part, n, path = args.worker
        sys.stdout.write(json.dumps(worker(side, part, int(n), Path(path), args.seconds, args.threads)) + "\n")
        return
    rows: Rows = []
    with TemporaryDirectory() as folder:
        for part, sizes in (("run", args.qubits), ("gradient", [args.ansatz])):
            for n in sizes if part in args.only else ():
                found = measured(part, n, args, Path(folder))
                report(found)
                rows += found
    if "triad" in args.only:
        rows += share_of_triad([row for row in rows if row["part"] == "run" and row["side"] == "pdl"], args.threads)
    if "memory" in args.only:
        held = started("pdl", "memory", args.large, Path(), args)
        rows.append({"part": "memory", "qubits": args.large, **held})
        most, state, before = (held[name] / 2**20 for name in ("peak", "state", "before"))
        print(f"memory   {args.large:>3} qubits  peak {most:.0f} MiB, {most / state:.3f} of the state's {state:.0f}; "
              f"{before:.0f} before it")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps({"threads": args.threads, "rows": rows}))


if __name__ == "__main__":
    main()
