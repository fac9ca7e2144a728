"""Bundles: what is written is read; what is not as pdl writes it is refused with one clear error."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.dtype import bfloat16
from pdl.errors import DataError, UsageError
from pdl.program import Executable, specialise
from pdl.runtime import archive, bundle, load, weights
from tests.framework.runtime import made


def contents(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def rehashed(members: dict[str, bytes]) -> bytes:
    """The archive of edited members, with sizes and hashes that agree with them."""
    meta = json.loads(members["meta.json"])
    for name in meta["members"].keys() & members.keys():
        data = members[name]
        meta["members"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return archive.pack({**members, "meta.json": json.dumps(meta).encode()})


def edited(part: str, change: Callable[[Any], Any]) -> bytes:
    """The good bundle with one JSON member changed and hashed anew."""
    members = contents(made.good())
    value = json.loads(members[part])
    members[part] = json.dumps(change(value) or value).encode()
    return rehashed(members) if part != "meta.json" else archive.pack(members)


@pytest.mark.parametrize("half", [bfloat16, np.float16])
def test_halves_are_widened_where_the_program_says_float32(half: Any) -> None:
    program, arrays = made.parts_of("conv")
    stored = {name: array.astype(half) if array.ndim > 1 else array for name, array in arrays.items()}
    read = bundle.read(bundle.pack(program, stored))
    for value in read.build().captures:
        assert value.tensor is not None
        assert value.tensor.dtype == np.float32
        assert not value.tensor._data.flags.writeable
        np.testing.assert_array_equal(value.tensor._data, stored[str(value.name)].astype(np.float32))


def test_only_floats_stand_for_floats() -> None:
    program, arrays = made.parts_of("conv")
    name = next(name for name, array in arrays.items() if array.ndim > 1)
    for other in (np.float64, np.int8):
        with pytest.raises(DataError, match=r"program.json"):
            bundle.read(bundle.pack(program, {**arrays, name: arrays[name].astype(other)})).build()
    declared = next(each for each in program["program"]["captures"] if each["name"] == name)
    declared["dtype"] = "bfloat16"
    with pytest.raises(DataError, match=r"program.json"):
        bundle.read(bundle.pack(program, {**arrays, name: arrays[name].astype(np.float16)})).build()


@pytest.mark.parametrize("name", made.NETS)
@pytest.mark.parametrize("mapped", [True, False])
def test_what_is_written_is_read(name: str, mapped: bool, tmp_path: Path) -> None:
    (tmp_path / "model.pdl").write_bytes(made.good(name))
    read = bundle.read(tmp_path / "model.pdl" if mapped else made.good(name))
    program = made.program_of(name)
    assert read.build().to_dict() == {**program.to_dict(), "inputs": read.build().to_dict()["inputs"]}
    assert [v.name for v in read.build().inputs] == ["image"]
    assert read.labels == ["ant", "bee", "cow", "dog", "elk"]
    assert (read.card, read.config, read.size) == ("# Test\n", "a: 1\n", len(made.good(name)))
    assert read.meta["metrics"] == {"test/accuracy": 0.5}
    for value in program.captures:
        array = read.weights[value.name]
        assert value.tensor is not None
        assert np.array_equal(array, value.tensor._data)
        assert not array.flags.writeable
        assert array.ctypes.data % array.itemsize == 0
        if mapped and array.nbytes % 64 == 0:
            assert array.ctypes.data % 64 == 0
    x = np.linspace(-1, 1, 2 * 192, dtype=np.float32).reshape(2, *made.SHAPE)
    runs = [Executable(specialise(p, {"n": 2}))(x)[0] for p in (program, read.build())]
    assert np.array_equal(*runs)


def test_zip_tools_and_safetensors_can_read_it() -> None:
    from safetensors.numpy import load

    members = contents(made.good())
    assert list(members) == list(bundle.MEMBERS)
    read = bundle.read(made.good())
    theirs = load(members["weights.safetensors"])
    assert theirs.keys() == read.weights.keys()
    assert all(np.array_equal(theirs[name], read.weights[name]) for name in theirs)


def test_a_repacked_archive_still_reads() -> None:
    """Alignment is a matter of speed only."""
    members = contents(made.good())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    ours, theirs = bundle.read(made.good()), bundle.read(packed.getvalue())
    assert all(np.array_equal(ours.weights[name], theirs.weights[name]) for name in ours.weights)


@pytest.mark.parametrize("dtype", [*weights.DTYPES.values()], ids=str)
def test_every_dtype_is_stored(dtype: Any) -> None:
    arrays = {
        "a": np.arange(6).reshape(2, 3).astype(dtype),
        "empty": np.zeros((0, 4), dtype),
        "one": np.ones((), dtype),
    }
    back = weights.from_bytes(memoryview(weights.to_bytes(arrays)), "x", "w")
    for name, array in arrays.items():
        assert back[name].dtype == dtype
        assert np.array_equal(back[name].astype(np.float64), array.astype(np.float64))
        assert back[name].shape == array.shape
    assert bfloat16 in weights.DTYPES.values()


def test_the_same_content_gives_the_same_archive() -> None:
    members = contents(made.good())
    assert archive.pack(members) == archive.pack(members) == made.good()


# -- refusals ----------------------------------------------------------------------------------------------------------
def zipped(names: list[str], method: int = zipfile.ZIP_STORED) -> bytes:
    members = contents(made.good())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as opened:
        for name in names:
            with warnings.catch_warnings(action="ignore"):  # of names given twice
                opened.writestr(name, members.get(name, b"x"))
    return packed.getvalue()


def poked(at: int, form: str, value: int, data: bytes | None = None) -> bytes:
    changed = bytearray(data or made.good())
    struct.pack_into(form, changed, at % len(changed), value)
    return bytes(changed)


NAMES = list(bundle.MEMBERS)


def entry() -> int:
    """Where the first line of the directory stands."""
    (at,) = struct.unpack_from("<L", made.good(), len(made.good()) - 6)
    return int(at)


ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", r"bytes: archive: not a zip archive \(0 bytes\)"),
    "text": (lambda: b"hello" * 100, r"not a zip archive"),
    "cut off": (lambda: made.good()[:-1], r"end record is not at the end"),
    "halved": (lambda: made.good()[: len(made.good()) // 2], r"end record is not at the end.*copy it again"),
    "longer": (lambda: made.good() + b"\0", r"end record"),
    "unknown name": (lambda: zipped([*NAMES, "run.py"]), r"'run.py': no member of a bundle"),
    "absolute name": (lambda: zipped([*NAMES, "/etc/passwd"]), r"'/etc/passwd': no member"),
    "parent name": (lambda: zipped([*NAMES, "../card.md"]), r"'../card.md': no member"),
    "twice": (lambda: zipped([*NAMES, "card.md"]), r"card.md: stands twice"),
    "missing": (lambda: zipped(NAMES[:-1]), r"lacks weights.safetensors"),
    "compressed": (lambda: zipped(NAMES, zipfile.ZIP_DEFLATED), r"compressed \(zip method 8\)"),
    "encrypted": (lambda: poked(entry() + 8, "<H", 1), r"encrypted or streamed"),
    "huge": (lambda: poked(entry() + 24, "<L", 2**31, poked(entry() + 20, "<L", 2**31)), r"more than the limit"),
    "offset": (lambda: poked(entry() + 42, "<L", 2**32 - 1), r"offset 4294967295 is outside"),
    "header": (lambda: poked(entry() + 42, "<L", 1), r"reach beyond|contradicts"),
    "overlap": (lambda: overlapping(), r"overlaps|contradicts"),
    "directory": (lambda: poked(-6, "<L", 7), r"do not fit the file"),
    "many": (lambda: poked(-14, "<L", 0x10001 * 9), r"cut off|damaged"),
}


def overlapping() -> bytes:
    """Two members whose contents share bytes: the length of the first one's header grows over the second."""
    data = bytearray(made.good())
    (extra,) = struct.unpack_from("<H", data, 28)
    (size,) = struct.unpack_from("<L", data, 18)
    struct.pack_into("<H", data, 28, extra + min(size, 200))
    return bytes(data)


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives(name: str) -> None:
    make, message = ARCHIVES[name]
    with pytest.raises(DataError, match=message):
        bundle.read(make())


def put(*path: Any) -> Callable[[Any], Any]:
    """Set the value at the end of a path of keys: put("program", "name", 3)."""
    *keys, last, value = path

    def change(tree: Any) -> None:
        for key in keys:
            tree = tree[key]
        tree[last] = value

    return change


def without(tree: dict[str, Any], key: str) -> None:
    del tree[key]


NODE = ("program", "nodes", 0)
JSON: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "format": ("meta.json", put("format", 2), r"bundle format 2, this pdl reads 1; .*another version"),
    "no format": ("meta.json", lambda t: {"a": 1}, r"bundle format None"),
    "meta key": ("meta.json", put("more", 1), r"has more, lacks nothing"),
    "hash": ("meta.json", put("members", "card.md", "sha256", "0" * 64), r"card.md: its sha256 is not the one"),
    "size": ("meta.json", put("members", "card.md", "size", 1), r"card.md: 7 bytes, meta.json says 1"),
    "metric": ("meta.json", put("metrics", {"a": "b"}), r"a metric that is no number"),
    "program format": ("program.json", put("format", 9), r"program.json: format 9"),
    "kind": ("program.json", put("kind", "code"), r"kind is 'code'"),
    "list": ("program.json", lambda t: [1], r"kind is None"),
    "pipeline": ("pipeline.json", put("pre", 3), r"pre is an integer, expected an object"),
    "unknown op": ("program.json", put(*NODE, "op", "System"), r"node 0: unknown op 'System'.*update pdl"),
    "unknown attribute": ("program.json", put(*NODE, "run", "rm"), r"\(Conv\): has the attribute run, known are"),
    "missing attribute": ("program.json", lambda t: without(t["program"]["nodes"][0], "stride"), r"lacks the att"),
    "attribute type": ("program.json", put(*NODE, "stride", "2"), r"stride is '2', expected a tuple, each a whole"),
    "attribute value": ("program.json", put(*NODE, "groups", 2**60), r"groups is '1152921504606846976', expected a w"),
    "zero stride": ("program.json", put(*NODE, "stride", [0, 0]), r"program.json: "),
    "later value": ("program.json", put(*NODE, "in", [99, 0, 1]), r"value 99"),
    "negative value": ("program.json", put(*NODE, "in", [-1, 0, 1]), r"expected a list of numbers"),
    "shape": ("program.json", put(*NODE, "out", [[["n", 9, 9, 9], "float32"]]), r"infers"),
    "dtype": ("program.json", put(*NODE, "out", [[[1], "object"]]), r"dtype 'object' is not one of"),
    "size text": ("program.json", put(*NODE, "out", [[["__import__('os')", 1], "float32"]]), r"not readable"),
    "unknown size": ("program.json", put("program", "inputs", 0, "shape", ["m", 8, 8, 3]), r"m is not among"),
    "huge value": ("program.json", put("program", "sizes", {"n": 2**24}), r"takes \d+ bytes, limit"),
    "huge example": ("program.json", put("program", "sizes", {"n": 2**60}), r"examples of sizes"),
    "output": ("program.json", put("program", "outputs", [None]), r"an output that is nothing"),
    "names": ("program.json", put("outputs", ["a", "b"]), r"2 names for 1 values"),
    "effects": ("program.json", put("program", "effects", [[1, 2]]), r"changes tensors in place"),
    "capture": ("program.json", put("program", "captures", 0, "name", "w"), r"captures w, which weights.* lacks"),
    "capture spec": ("program.json", put("program", "captures", 0, "shape", [1]), r"program.json: .*captured"),
}  # fmt: skip


@pytest.mark.parametrize("name", JSON)
def test_edited_members(name: str) -> None:
    part, change, message = JSON[name]
    with pytest.raises(DataError, match=message):
        bundle.read(edited(part, change)).build()


TEXTS = {
    "deep": (b"[" * 5000 + b"]" * 5000, r"nested"),
    "levels": (b"[" * 80 + b"]" * 80, r"more than 64 levels deep"),
    "twice": (b'{"format": 1, "format": 1}', r"the key 'format' stands twice"),
    "nan": (b'{"format": NaN}', r"NaN is no JSON number"),
    "overflow": (b'{"format": 1e999}', r"1e999 is too large"),
    "digits": (b'{"format": ' + b"9" * 30 + b"}", r"more than 64 bits"),
    "many": (b"[" + b"1," * 3_000_000 + b"1]", r"values, more than the limit"),
    "encoding": (b'"\xff"', r"not the JSON"),
    "nothing": (b"", r"not the JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_hostile_json(name: str) -> None:
    text, message = TEXTS[name]
    with pytest.raises(DataError, match=rf"program.json: .*{message}"):
        bundle.read(rehashed({**contents(made.good()), "program.json": text}))


def tensors(change: Callable[[dict[str, Any]], Any] | bytes) -> bytes:
    """The good bundle with another safetensors header, or other bytes."""
    members = contents(made.good())
    old = members["weights.safetensors"]
    length = int.from_bytes(old[:8], "little")
    if isinstance(change, bytes):
        members["weights.safetensors"] = change
    else:
        header = json.loads(old[8 : 8 + length])
        change(header)
        text = json.dumps(header).encode()
        members["weights.safetensors"] = len(text).to_bytes(8, "little") + text + old[8 + length :]
    return rehashed(members)


def first(header: dict[str, Any]) -> dict[str, Any]:
    return header[min(header, key=lambda name: header[name]["data_offsets"])]


WEIGHTS: dict[str, tuple[Any, str]] = {
    "short": (b"abc", r"3 bytes, too short"),
    "length": ((2**63).to_bytes(8, "little") + b"{}", r"a header of 9223372036854775808 bytes in 10"),
    "list": ((2).to_bytes(8, "little") + b"[]", r"its header is no object"),
    "dtype": (lambda h: first(h).update(dtype="PY"), r"dtype 'PY' is not one of"),
    "shape": (lambda h: first(h).update(shape=[-1]), r"must be numbers of 0 and more"),
    "huge shape": (lambda h: first(h).update(shape=[2**40, 2**40]), r"shape \[1099511627776, 1099511627776\]"),
    "size": (lambda h: first(h).update(shape=[1]), r"bytes for float32 \[1\], which takes 4"),
    "range": (lambda h: first(h).update(data_offsets=[0, 2**40]), r"of \d+"),
    "backwards": (lambda h: first(h).update(data_offsets=[8, 4]), r"bytes 8 to 4"),
    "hole": (lambda h: h.pop(next(iter(h))), r"begins at|take \d+ bytes, there are"),
    "key": (lambda h: first(h).update(more=1), r"has more, lacks nothing"),
    "overlap": (lambda h: h.update(again=first(h)), r"tensor .* begins at 0, the one before it ends at"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_hostile_weights(name: str) -> None:
    change, message = WEIGHTS[name]
    with pytest.raises(DataError, match=rf"weights.safetensors: .*{message}"):
        bundle.read(tensors(change))


def test_a_truth_value_is_0_or_1() -> None:
    data = bytearray(weights.to_bytes({"mask": np.array([True, False])}))
    data[-1] = 7
    with pytest.raises(DataError, match=r"neither 0 nor 1"):
        weights.from_bytes(memoryview(data), "x", "w")


def test_weights_that_the_program_does_not_read_are_refused() -> None:
    program, arrays = made.parts_of("conv")
    with pytest.raises(DataError, match=r"weights.safetensors: holds extra, which the program does not read"):
        bundle.read(bundle.pack(program, {**arrays, "extra": np.zeros(3)})).build()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("absent.pdl", "."):
        with pytest.raises(DataError, match=r"cannot be read .*name a bundle"):
            bundle.read(tmp_path / name)
    (tmp_path / "empty.pdl").write_bytes(b"")
    with pytest.raises(DataError, match=r"empty.pdl: cannot be read .the file is empty.; name a bundle"):
        bundle.read(tmp_path / "empty.pdl")


def test_what_cannot_be_written() -> None:
    program, arrays = made.parts_of("conv")
    with pytest.raises(UsageError, match=r"label 'a\\nb' holds a line break"):
        bundle.pack(program, arrays, labels=["a\nb"])


def test_vocabularies_are_hashed_and_checked() -> None:
    members = contents(made.rows())
    part = "vocabularies/items.txt"
    for changed, message in (
        ({**members, part: members[part] + b"kiwi\n"}, rf"{part}: \d+ bytes, meta.json says"),
        ({name: data for name, data in members.items() if name != part}, f"it lacks {part}, of which meta.json tells"),
        ({**members, "vocabularies/../x.txt": b""}, "no member of a bundle"),
        ({**members, "vocabularies/.txt": b""}, "no member of a bundle"),
    ):
        with pytest.raises(DataError, match=message):
            bundle.read(bundle.archive.pack(changed))
    with pytest.raises(DataError, match=f"{part}: the last line is cut off"):
        bundle.read(rehashed({**members, part: members[part][:-1]}))
    for text, message in ((b"a\na\n", "twice"), (b"\\x\n", "backslash"), (b"\xff\n", "not UTF-8")):
        damaged = bundle.read(rehashed({**members, part: text}))
        with pytest.raises(DataError, match=rf"bytes: {part}: .*{message}"):
            damaged.vocabularies["items"]
    program, weights = made.parts_of("conv")
    with pytest.raises(UsageError, match="a vocabulary's name is of letters"):
        bundle.pack(program, weights, vocabularies={"a/b": made.ITEMS})


def test_another_licence_keeps_the_vocabularies() -> None:
    read = bundle.read(bundle.restate(made.rows(), licence="MIT", card="# Rows\n"))
    assert list(read.vocabularies["items"]) == list(made.ITEMS)


# -- large members -----------------------------------------------------------------------------------------------------
def test_a_large_member_is_hashed_beside_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "LARGE", 1)
    good = made.good()
    read = bundle.read(good, waiting=False)
    assert read.hashed
    read.require_whole()
    members = contents(good)
    damaged = bytearray(members["weights.safetensors"])
    damaged[-1] ^= 1
    wrong = archive.pack(members | {"weights.safetensors": bytes(damaged)})
    for call in (bundle.read, load):
        with pytest.raises(DataError, match=r"weights.safetensors: its sha256 is not the one"):
            call(wrong)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="says what is in memory on Linux alone")
def test_pages_that_were_hashed_are_let_go(tmp_path: Path) -> None:
    file = tmp_path / "net.pdl"
    file.write_bytes(made.whole("conv"))
    found = bundle.read(file)
    before = {name: array.copy() for name, array in found.weights.items()}

    def resident() -> int:
        _, _, mapped = Path("/proc/self/smaps").read_text().partition(f" {file}\n")
        return int(mapped.partition("\nRss:")[2].split()[0])

    assert resident() > 0
    found.forget()
    assert resident() == 0
    for name, array in found.weights.items():
        np.testing.assert_array_equal(array, before[name])
