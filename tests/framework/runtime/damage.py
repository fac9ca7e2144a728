"""Bundles by the number, most of them damaged: each must be refused with a pdl error, or run.

    python -m tests.framework.runtime.damage FIRST COUNT [one] [chains | FOLDER]    see tests.fuzzing

damages bundles of the nets in `made`; with `chains` bundles of ops in a row (`tests.framework.runtime.chains`), as they
are or damaged; with a FOLDER those in it, which `tests.framework.runtime.exported` has written.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pdl
from pdl.errors import PdlError
from pdl.onnx import graph
from pdl.runtime import archive, weights
from pdl.runtime.bench import random_inputs
from tests.framework.runtime import exported, made
from tests.framework.runtime.test_bundle import contents, rehashed
from tests.fuzzing import main, say

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
    if not arrays:
        return edit_header(rng, data)
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
    parent[key] = copy.deepcopy(same[rng.integers(len(same))])
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
        parent[key] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])  # which may be changed in its turn
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
    part = next((name for name in sorted(members) if name.startswith("vocabularies/")), "labels.txt")
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


SECONDS = 5.0  # that a session may take for anything; the rest of what a number has is for all else


class Good(NamedTuple):
    """A bundle without fault, what its pipeline takes, and what its program takes where that is not made up."""

    data: bytes
    items: Sequence[Any] = ()
    given: dict[str, np.ndarray] | None = None


def good(name: str) -> Good:
    """A bundle of this name, with a pipeline: of images, of rows, and with the steps of a suite."""
    if name == "sessions":
        session = {"step": "session", "vocabulary": "items", "max_length": 5}
        top = {"step": "top_names", "vocabulary": "items", "k": 3, "exclude": "items"}
        return Good(made.ranking(session, top), ["apple,eggs"])
    return Good(made.rows(), [{"items": "apple,eggs"}]) if name == "rows" else Good(made.whole(name), [IMAGE])


NETS = (*sorted(made.NETS), "graph", "rows", "sessions")


def of_nets(number: int) -> Good:
    """A damaged bundle of the nets in `made`."""
    return _damaged(number, [good(name) for name in NETS])


def of_chains(number: int) -> Good:
    """Ops in a row; every second one is damaged."""
    from tests.framework.runtime.chains import chained

    rng = np.random.default_rng(number)
    data, given = chained(rng)
    edit = [edit_json("program.json"), edit_attribute, edit_header, edit_weights][rng.integers(4)]
    return Good(edit(rng, data) if number % 2 and (given or edit is not edit_weights) else data, (), given)


def of_folder(folder: Path) -> Callable[[int], Good]:
    """Damaged bundles of those in a folder."""
    known = [Good(file.read_bytes(), exported.items_of(file)) for file in sorted(folder.glob("*.pdl"))]
    return lambda number: _damaged(number, known)


def _damaged(number: int, known: Sequence[Good]) -> Good:
    rng = np.random.default_rng(number)
    chosen = known[number % len(known)]
    kind = KINDS[number // len(known) % len(KINDS)]
    return chosen._replace(data=kind(rng, chosen.data))


def attempt(bundle: Good, *, shown: bool = False) -> str:
    """What became of a bundle: "refused", "ran", or "raw ..." for an exception that is not pdl's own."""
    try:
        session = pdl.runtime.load(bundle.data, memory=1 << 26, timeout=SECONDS)
        if session.pipeline is not None and bundle.items:
            session.batch(bundle.items)
        session.run(random_inputs(session, 1, {}) if bundle.given is None else bundle.given)
    except PdlError as error:
        if shown:
            say(repr(error))
        return "refused"
    except Exception as error:
        if shown:
            raise
        return f"raw: {type(error).__name__}: {error}"
    return "ran"


if __name__ == "__main__":
    graph.MOST_STEPS = 20_000  # damaged counts of turns end at the limit of steps; a lower one ends them sooner
    words = [word for word in sys.argv[3:] if word != "one"]
    case = of_nets if not words else of_chains if words == ["chains"] else of_folder(Path(words[0]))
    main(lambda number: attempt(case(number)), lambda number: say(attempt(case(number), shown=True)))
