"""Damaged bundles by the number: `python -m tests.framework.runtime.damage FIRST COUNT [--memory GIB]`.

Each number is one bundle made from a good one by one kind of damage. It must be refused with a pdl error, or run. The
process is the unit of the test: it must not crash, hang, or want more memory than it is given.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pdl
from pdl.errors import PdlError
from pdl.onnx import graph
from pdl.runtime import archive, weights
from tests.framework.runtime import made
from tests.framework.runtime.test_bundle import contents, rehashed

IMAGE = np.random.default_rng(0).integers(0, 256, (11, 13, 3), dtype=np.uint8)
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 255, 1000, 65536, 2**31 - 1, 2**31, 2**32, -(2**31), 2**48, 2**53,
    2**63 - 1, 0.0, -0.5, 1e-30, 1e30, "", "x", "n", "n*n", "n//0", "2*n", "-n", "n % 3", "float32", "int64", "bool",
    "inf", [], [0], [1, 1], [[1, 1], [1, 1]], {}, {"dim": "n"}, {"dim": "n - 3"}, {"dtype": "int8"}, {"float": "nan"},
]  # fmt: skip
Damage = Callable[[np.random.Generator, bytes], bytes]


def flip_bits(rng: np.random.Generator, data: bytes) -> bytes:
    changed = bytearray(data)
    for at in rng.integers(0, len(data), rng.integers(1, 9)):
        changed[at] ^= 1 << rng.integers(8)
    return bytes(changed)


def cut(rng: np.random.Generator, data: bytes) -> bytes:
    at = int(rng.integers(0, len(data)))
    return data[:at] if rng.random() < 0.7 else data[at:] if rng.random() < 0.5 else data + data[:at]


def move_block(rng: np.random.Generator, data: bytes) -> bytes:
    a, b, size = (int(n) for n in rng.integers(0, len(data), 3))
    size = min(size, 1 + len(data) // 4)
    changed = bytearray(data)
    changed[a : a + size] = data[b : b + size]
    return bytes(changed)


def edit_directory(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes of the zip's directory and end record."""
    changed = bytearray(data)
    for at in rng.integers(max(0, len(data) - 600), len(data), rng.integers(1, 4)):
        changed[at] = int(rng.choice([0, 1, 8, 255, rng.integers(256)]))
    return bytes(changed)


def edit_header(rng: np.random.Generator, data: bytes) -> bytes:
    """A value in the header of the weights, hashed anew."""
    members = contents(data)
    old = members["weights.safetensors"]
    length = int.from_bytes(old[:8], "little")
    header = json.loads(old[8 : 8 + length])
    mutate(rng, header)
    text = json.dumps(header).encode()
    members["weights.safetensors"] = len(text).to_bytes(8, "little") + text + old[8 + length :]
    return rehashed(members)


def edit_weights(rng: np.random.Generator, data: bytes) -> bytes:
    """Numbers of the weights, hashed anew: NaN, infinities and indices among them."""
    members = contents(data)
    arrays = {k: v.copy() for k, v in weights.from_bytes(memoryview(members["weights.safetensors"]), "x", "w").items()}
    name = str(rng.choice(sorted(arrays)))
    flat = arrays[name].reshape(-1).view(np.uint8) if arrays[name].dtype.kind != "b" else arrays[name].reshape(-1)[:0]
    for at in rng.integers(0, max(1, flat.size), 8):
        flat[at : at + 1] = rng.integers(256)
    members["weights.safetensors"] = weights.to_bytes(arrays)
    return rehashed(members)


def edit_json(part: str) -> Damage:
    def edit(rng: np.random.Generator, data: bytes) -> bytes:
        members = contents(data)
        tree = json.loads(members[part])
        for _ in range(rng.integers(1, 4)):
            mutate(rng, tree)
        members[part] = json.dumps(tree).encode()
        return archive.pack(members) if part == "meta.json" else rehashed(members)

    return edit


def edit_attribute(rng: np.random.Generator, data: bytes) -> bytes:
    """One attribute of one op, by a value of its own kind: what checks of types let pass."""
    members = contents(data)
    tree = json.loads(members["program.json"])
    nodes = tree["program" if "program" in tree else "graph"]["nodes"]
    node = nodes[rng.integers(len(nodes))]
    places = [p for p in leaves(node) if p[0] is not node or p[1] not in ("op",)]
    parent, key = places[rng.integers(len(places))]
    same = [v for v in VALUES if type(v) is type(parent[key])] or VALUES
    parent[key] = same[rng.integers(len(same))]
    members["program.json"] = json.dumps(tree).encode()
    return rehashed(members)


def swap_op(rng: np.random.Generator, data: bytes) -> bytes:
    """Another op in the place of one, with the attributes that it wants."""
    from pdl.ops.attributes import kinds
    from pdl.ops.base import OPS

    members = contents(data)
    tree = json.loads(members["program.json"])
    if "graph" in tree:
        return edit_attribute(rng, data)
    node = tree["program"]["nodes"][rng.integers(len(tree["program"]["nodes"]))]
    name = sorted(OPS)[rng.integers(len(OPS))]
    plain: dict[str, list[Any]] = {
        "a whole number": [0, 1, 2, -1, 9],
        "a number": [0.5, -1.0],
        "True or False": [True, False],
        "text": ["relu", "x"],
    }
    given: dict[str, Any] = {}
    others: list[Any] = [[1, 1], [2, 2], [0, 1], [1], [[1, 1], [1, 1]], None, {"dtype": "float32"}, []]
    for key, kind in kinds(OPS[name]).items():
        options = next((values for text, values in plain.items() if kind.text.startswith(text)), others)
        given[key] = options[rng.integers(len(options))]
    node_in, node_out = node["in"], node["out"]
    node.clear()
    node.update({"op": name, **given, "in": node_in, "out": node_out})
    members["program.json"] = json.dumps(tree).encode()
    return rehashed(members)


def leaves(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a tree."""
    found: list[tuple[Any, Any]] = []
    open_ = [tree]
    while open_:
        here = open_.pop()
        for key in list(here) if isinstance(here, dict) else range(len(here)):
            found.append((here, key))
            if isinstance(here[key], dict | list):
                open_.append(here[key])
    return found


def mutate(rng: np.random.Generator, tree: Any) -> None:
    """Change one value somewhere: another value, gone, twice, or in another's place."""
    places = leaves(tree)
    if not places:
        return
    parent, key = places[rng.integers(len(places))]
    turn = rng.random()
    if turn < 0.6:
        parent[key] = VALUES[rng.integers(len(VALUES))]
    elif turn < 0.75:
        del parent[key]
    elif turn < 0.9 and isinstance(parent, list):
        parent.insert(key, parent[key])
    else:
        other, where = places[rng.integers(len(places))]
        parent[key] = json.loads(json.dumps(other[where]))


def edit_vocabulary(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes of a vocabulary, or of labels, hashed anew."""
    members = contents(data)
    part = "vocabularies/items.txt" if "vocabularies/items.txt" in members else "labels.txt"
    changed = bytearray(members[part]) or bytearray(b"x")
    for at in rng.integers(0, len(changed), rng.integers(1, 4)):
        changed[at] = int(rng.choice([10, 92, 13, 255, rng.integers(256)]))
    members[part] = bytes(changed)
    return rehashed(members)


KINDS: list[Damage] = [
    flip_bits, cut, move_block, edit_directory, edit_header, edit_weights, edit_json("program.json"),
    edit_json("program.json"), edit_json("pipeline.json"), edit_json("meta.json"), edit_attribute, edit_attribute,
    edit_attribute, swap_op, swap_op, edit_vocabulary,
]  # fmt: skip


FUZZED = (*sorted(made.NETS), "graph", "rows", "sessions")


def good(name: str) -> bytes:
    """A bundle of this name, with a pipeline: of images, of rows, and with the steps of a suite."""
    if name == "sessions":
        session = {"step": "session", "vocabulary": "items", "max_length": 5}
        return made.ranking(session, {"step": "top_names", "vocabulary": "items", "k": 3, "exclude": "items"})
    return made.rows() if name == "rows" else made.whole(name)


def damaged(number: int) -> bytes:
    """The bundle of a number."""
    rng = np.random.default_rng(number)
    names = FUZZED
    data = good(names[number % len(names)])
    return KINDS[number // len(names) % len(KINDS)](rng, data)


def attempt(data: bytes) -> str:
    """What became of a bundle: "refused", or "ran"; anything but a pdl error is raised."""
    try:
        session = pdl.runtime.load(data, memory=1 << 26)
        if session.pipeline is not None:
            item: Any = {"image": IMAGE, "row": {"items": "apple,eggs"}}.get(session.pipeline.input.takes, "apple,eggs")
            session(item)
        else:
            shapes = {p.name: (2, *map(int, p.shape[1:])) if p.shape else () for p in session.inputs}
            session.run({p.name: np.ones(shapes[p.name], p.dtype) for p in session.inputs})
    except PdlError:
        return "refused"
    return "ran"


def main() -> None:
    """Try a range of numbers; the last line on standard output is the outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--memory", type=float, default=4.0, help="GiB of address space beyond what importing took")
    args = parser.parse_args()
    faulthandler.enable()
    graph.MOST_STEPS = 20_000  # damaged counts of turns end at the limit of steps; a lower one ends them sooner
    for name in FUZZED:
        assert attempt(good(name)) == "ran"
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = used + int(args.memory * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    outcomes: Counter[str] = Counter()
    slowest = (0.0, 0)
    for number in range(args.first, args.first + args.count):
        sys.stderr.write(f"{number}\n")
        data = damaged(number)
        faulthandler.dump_traceback_later(30, exit=True)  # a hang
        begin = time.perf_counter()
        outcomes[attempt(data)] += 1
        slowest = max(slowest, (time.perf_counter() - begin, number))
        faulthandler.cancel_dump_traceback_later()
    held = Path("/proc/self/status").read_text().split("VmHWM:")[1]  # ru_maxrss would count the parent's memory, too
    peak = int(held.split()[0]) / 1024
    sys.stdout.write(json.dumps({**outcomes, "slowest": slowest, "peak_mib": peak}) + "\n")


if __name__ == "__main__":
    main()
