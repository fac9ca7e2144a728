"""PyTorch's files: every dtype and layout is read, code is refused by name, damage is one DataError."""

from __future__ import annotations

import collections
import contextlib
import datetime
import io
import os
import pickle
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.dtype import bfloat16
from pdl.errors import DataError
from pdl.hub.torch_file import read_torch
from pdl.hub.torch_pickle import REFUSED, STEPS, STORAGES
from tests.cv.models.test_torch import torch_python
from tests.framework.hub.torch_made import WRITERS, FakeTensor, Stored, dumped, legacy, state_dict, tensor, zipped

RNG = np.random.default_rng(0)
both = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def values(dtype: Any, *shape: int) -> np.ndarray:
    drawn = RNG.integers(0, 2 if dtype == np.bool_ else 100, shape)
    return drawn.astype(dtype)


@pytest.fixture
def read(tmp_path: Path) -> Callable[[bytes], dict[str, np.ndarray]]:
    def reader(data: bytes) -> dict[str, np.ndarray]:
        (tmp_path / "weights.pth").write_bytes(data)
        return read_torch(tmp_path / "weights.pth")

    return reader


Read = Callable[[bytes], dict[str, np.ndarray]]


@both
@pytest.mark.parametrize("dtype", STORAGES.values(), ids=str)
def test_every_dtype(write: Any, dtype: Any, read: Read) -> None:
    array = values(dtype, 3, 5)
    found = read(write(state_dict({"a": tensor(array)})))["a"]
    assert found.dtype == dtype
    assert not found.flags.writeable
    np.testing.assert_array_equal(found, array)


@both
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(write: Any, protocol: int, read: Read) -> None:
    entries = {f"layer{i}.weight": tensor(values(np.float32, 2, 3), str(i)) for i in range(300)}
    found = read(write(state_dict(entries), protocol=protocol))
    assert list(found) == list(entries)
    for name, each in entries.items():
        np.testing.assert_array_equal(found[name].reshape(-1), each.storage.array)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, bfloat16, np.int64, np.bool_], ids=str)
def test_big_endian(dtype: Any, read: Read) -> None:
    array = values(dtype, 7)
    np.testing.assert_array_equal(read(zipped({"a": tensor(array)}, order="big"))["a"], array)


def test_files_before_byteorder_was_written_are_little_endian(read: Read) -> None:
    array = values(np.float32, 7)
    np.testing.assert_array_equal(read(zipped({"a": tensor(array)}, order=None))["a"], array)
    with pytest.raises(DataError, match="byteorder is b'middle'"):
        read(zipped({"a": tensor(array)}, order="middle"))


@both
def test_strides_shared_storages_scalars_and_nothing(write: Any, read: Read) -> None:
    array = np.arange(24, dtype=np.float32)
    shared = Stored(array, "0")
    entries = {
        "turned": FakeTensor(shared, (6, 4), (1, 6)),
        "part": FakeTensor(shared, (2, 3), (12, 2), offset=5),
        "repeated": FakeTensor(shared, (5, 4), (0, 1)),
        "scalar": FakeTensor(shared, (), (), offset=23),
        "empty": FakeTensor(Stored(array[:0], "1"), (0, 4), (4, 1)),
        "learned": FakeTensor(shared, (4, 6), (6, 1), parameter=True),
        "one": FakeTensor(shared, (1, 24), (2**61, 1)),
    }
    found = read(write(entries))
    np.testing.assert_array_equal(found["turned"], array.reshape(4, 6).T)
    np.testing.assert_array_equal(found["part"], [[5, 7, 9], [17, 19, 21]])
    np.testing.assert_array_equal(found["repeated"], np.tile(array[:4], (5, 1)))
    assert found["scalar"].shape == ()
    assert found["scalar"] == 23
    assert found["empty"].shape == (0, 4)
    np.testing.assert_array_equal(found["learned"], array.reshape(4, 6))
    np.testing.assert_array_equal(found["one"], array[None])


def test_legacy_files_may_hold_parts_of_storages(read: Read) -> None:
    whole = Stored(np.arange(10, dtype=np.float32), "7")
    part = Stored(whole.array[4:9], "8", whole, 4)
    found = read(legacy({"all": FakeTensor(whole, (10,), (1,)), "part": FakeTensor(part, (2, 2), (2, 1), offset=1)}))
    np.testing.assert_array_equal(found["part"], [[5, 6], [7, 8]])


@both
@pytest.mark.parametrize("key", ["state_dict", "model", "model_state_dict", "model_state"])
def test_checkpoints_with_more_in_them(write: Any, key: str, read: Read) -> None:
    array = values(np.float32, 4)
    more = {"epoch": 3, "best": 0.5, "arch": "resnet18", "history": [1, 2.5, None, True, (1,), -70000, 2**40, -1]}
    found = read(write({**more, key: state_dict({"module.a": tensor(array)}), "lr": (0.1, 1e-3, 5, 300, ())}))
    assert list(found) == ["a"]
    np.testing.assert_array_equal(found["a"], array)


def test_old_pickles_of_python_2(read: Read) -> None:
    """Texts as BINSTRING, and `_rebuild_tensor`, which came before `_rebuild_tensor_v2`; written out by hand."""
    floats = b"ctorch\nFloatStorage\n"
    reference = b"(U\x07storage" + floats + b"U\x010U\x03cpuK\x03NtQ"
    text = b"\x80\x02}U\x01actorch._utils\n_rebuild_tensor\n(" + reference + b"K\x00K\x03\x85K\x01\x85tRs."
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a/data.pkl", text)
        archive.writestr("a/data/0", np.arange(3, dtype=np.float32).tobytes())
    np.testing.assert_array_equal(read(data.getvalue())["a"], [0, 1, 2])


# -- code --------------------------------------------------------------------------------------------------------------
class Runs:
    """What a hostile file holds."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


HOSTILE = {
    f"{os.system.__module__}.system": Runs(os.system, "touch /tmp/pdl-was-here"),
    "builtins.eval": Runs(eval, "1 + 1"),
    "builtins.getattr": Runs(getattr, "a", "upper"),
    "shutil.rmtree": Runs(shutil.rmtree, "/tmp/pdl-is-not-here"),
    "collections.Counter": collections.Counter("aab"),
    "datetime.date": datetime.date(2026, 1, 1),
    "builtins.set": {1, 2},
    "builtins.complex": 1j,
}


@both
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("protocol", [2, 4])
def test_every_other_class_is_refused_by_its_name(write: Any, name: str, protocol: int, read: Read) -> None:
    said = name if protocol == 4 else name.replace("builtins", "__builtin__")
    if (name, protocol) == ("builtins.set", 4):
        said = "EMPTY_SET"
    with pytest.raises(DataError, match=said.replace(".", r"\.")) as caught:
        read(write({"a": tensor(values(np.float32, 2)), "b": HOSTILE[name]}, protocol=protocol))
    assert "torch.save(model.state_dict(), FILE)" in str(caught.value)


def test_every_instruction_is_done_or_refused_by_name() -> None:
    import pickletools

    for op in pickletools.opcodes:
        code = ord(op.code)
        assert op.name == "STOP" or (code in STEPS) != (code in REFUSED), op.name
        assert REFUSED.get(code, op.name) == op.name


@pytest.mark.parametrize("code", REFUSED)
def test_refused_instructions(code: int, read: Read) -> None:
    with pytest.raises(DataError, match=rf"byte \d+ of the pickle: it holds the pickle instruction {REFUSED[code]},"):
        read(b"\x80\x02" + bytes([code]) + b"0\n.")


# -- what is no dict of tensors ----------------------------------------------------------------------------------------
CONTENTS = {
    "holds a list": [tensor(values(np.float32, 2))],
    r"'a' \(int\) are no tensors": {"a": 1},
    r"'1' \(StoredTensor\) are no tensors": {1: tensor(values(np.float32, 2))},
    "it holds no tensors": {},
    "holds a StoredTensor": tensor(values(np.float32, 2)),
}


@both
@pytest.mark.parametrize("said", CONTENTS)
def test_what_is_no_dict_of_tensors(write: Any, said: str, read: Read) -> None:
    with pytest.raises(DataError, match=said):
        read(write(CONTENTS[said]))


WRONG = {
    "reaches number 10 of the 10": FakeTensor(Stored(np.zeros(10, np.float32), "0"), (11,), (1,)),
    "reaches number 13": FakeTensor(Stored(np.zeros(10, np.float32), "0"), (2, 5), (5, 2)),
    r"tensor of shape \(-1,\)": FakeTensor(Stored(np.zeros(10, np.float32), "0"), (-1,), (1,)),
    r"tensor of shape \(2,\)": FakeTensor(Stored(np.zeros(10, np.float32), "0"), (2,), (-1,)),
    r"tensor of shape \(2, 2\)": FakeTensor(Stored(np.zeros(10, np.float32), "0"), (2, 2), (1,)),
    "without storage or offset": FakeTensor(Stored(np.zeros(10, np.float32), "0"), (2,), (1,), offset=-1),
    "repeats them too often": FakeTensor(Stored(np.zeros(1, np.float32), "0"), (2**40,), (0,)),
    "repeats them": FakeTensor(Stored(np.zeros(1, np.float32), "0"), (0, 2**60, 2**60), (0, 0, 0)),
}


@both
@pytest.mark.parametrize("said", WRONG)
def test_tensors_beyond_their_storage(write: Any, said: str, read: Read) -> None:
    with pytest.raises(DataError, match=said):
        read(write({"a": WRONG[said]}))


def test_other_files(read: Read, tmp_path: Path) -> None:
    for data, said in [
        (b"", "cannot be read"),
        (b"hello", "no PyTorch file"),
        (b"\0" * 257 + b"ustar" + b"\0" * 20, "a tar archive of PyTorch 0.1"),
        (pickle.dumps([1, 2], 2) * 5, "a pickle, but not one that torch.save wrote"),
        (b"PK\x03\x04" + b"\0" * 30, "a damaged zip archive"),
    ]:
        with pytest.raises(DataError, match=said):
            read(data)
    with pytest.raises(DataError, match="cannot be read"):
        read_torch(tmp_path / "nowhere.pth")
    script = io.BytesIO()
    with zipfile.ZipFile(script, "w") as archive:
        archive.writestr("net/constants.pkl", b"")
    with pytest.raises(DataError, match="a TorchScript program"):
        read(script.getvalue())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("net/data.pkl", b"0" * 100)
    with pytest.raises(DataError, match=r"data.pkl: compressed or encrypted"):
        read(packed.getvalue())


def test_missing_and_short_storages(read: Read) -> None:
    text, _ = dumped({"a": tensor(np.arange(3, dtype=np.float32))})
    for extra, said in [({}, "is not in the file"), ({"a/data/0": b"\0" * 11}, "has 11 bytes")]:
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as archive:
            for name, content in {"a/data.pkl": text, **extra}.items():
                archive.writestr(name, content)
        with pytest.raises(DataError, match=said):
            read(data.getvalue())


# -- bombs -------------------------------------------------------------------------------------------------------------
def in_zip(text: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a/data.pkl", text)
    return data.getvalue()


def overlapping(count: int) -> bytes:
    """Entries of a directory that all stand for one member."""
    whole = in_zip(bytes(100_000))
    begin = whole.index(b"PK\x01\x02")
    entries = b"".join(whole[begin : begin + 46] + b"a/%08d" % number for number in range(count))
    total = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(entries), begin, 0)
    return whole[:begin] + entries + total


def doubled(depth: int, rest: bytes) -> bytes:
    """A tuple of twice a tuple of twice ..., shown in full 2^depth values long."""
    return b"\x80\x02N" + b"q\x00h\x00\x86" * depth + rest


FLOATS = b"ctorch\nFloatStorage\n"
TENSOR = b"ctorch._utils\n_rebuild_tensor\n(X\x07\x00\x00\x00storage" + FLOATS + b"X\x01\x00\x00\x000NK\x03tQK\x00"
#: what would take gigabytes, or hours, to run or to name in a message
BOMBS = {
    "values": (b"\x80\x04" + b"N" * 2_000_000, "more than 600,000 instructions"),
    "values that go": (b"\x80\x04" + b"N0" * 1_000_000, "more than 600,000 instructions"),
    "a memo": (b"\x80\x04}" + b"\x94" * 2_000_000, "keeps more than 300000 values"),
    "marks": (b"\x80\x04" + b"(" * 2_000_000, "more than 600,000 instructions"),
    "depth": (b"\x80\x04)" + b"\x85" * 500_000 + b".", "holds a tuple, not a dict"),
    "a doubled reference": (doubled(100, b"Q."), r"a reference to \(.*, not to a storage"),
    "a doubled storage": (doubled(100, b"\x85Q."), r"a reference to \(.*, not to a storage"),
    "a doubled key": (b"\x80\x02}" + doubled(100, b"Ns.")[2:], "a key"),
    "a doubled shape": (b"\x80\x02" + TENSOR + doubled(100, b"N\x87R.")[2:], "."),
    "many dicts of one list": (
        b"\x80\x02ccollections\nOrderedDict\nq\x00]q\x01(" + b"X\x01\x00\x00\x00aN\x86" * 50_000 + b"e0"
        + b"h\x00h\x01\x85R0" * 1000, "more than 600,000 instructions"),
    "a long text": (b"\x80\x02X\x00\x00\x20\x00" + b"a" * 2**21 + b".", "a text of 2097152 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str, read: Read) -> None:
    text, said = BOMBS[name]
    with pytest.raises(DataError, match=said) as caught:
        read(in_zip(text))
    assert len(str(caught.value)) < 500


def test_members_over_one_another(read: Read) -> None:
    with pytest.raises(DataError, match=r"a/00000001 overlaps a/00000000 in the archive"):
        read(overlapping(20_000))
    with pytest.raises(DataError, match="a directory of more than 4194304 bytes"):
        read(long_directory())


def long_directory() -> bytes:
    whole = in_zip(b"")
    begin, end = whole.index(b"PK\x01\x02"), whole.index(b"PK\x05\x06")
    entry = whole[begin : begin + 28] + struct.pack("<2H", 10, 60_000) + whole[begin + 32 : end] + bytes(60_000)
    entries = entry * 80
    return whole[:begin] + entries + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 80, 80, len(entries), begin, 0)


def test_tensors_that_repeat_the_file_too_often(read: Read) -> None:
    shared = Stored(np.zeros(2**16, np.float32), "0")
    entries = {str(i): FakeTensor(shared, (2**16,), (1,)) for i in range(100)}
    with pytest.raises(DataError, match=r"its tensors take 26214400 bytes, the file has .* repeat it too often"):
        read(zipped(entries))
    assert len(read(zipped({name: entries[name] for name in "0123456789"}))) == 10


def test_a_storage_has_one_dtype(read: Read) -> None:
    floats, whole = Stored(np.zeros(4, np.float32), "0"), Stored(np.zeros(4, np.int32), "0")
    with pytest.raises(DataError, match="would hold both 4 float32 and 4 int32"):
        read(zipped({"a": FakeTensor(floats, (4,), (1,)), "b": FakeTensor(whole, (4,), (1,))}))


# -- damage ------------------------------------------------------------------------------------------------------------
def example(write: Any) -> bytes:
    entries = {"a.weight": tensor(np.arange(6, dtype=np.float32).reshape(2, 3)), "b": tensor(np.arange(3), "1")}
    return bytes(write({"state_dict": state_dict(entries), "epoch": 3, "history": [1.5, None, "text"]}))


@both
@settings(max_examples=300)
@given(data=st.data())
def test_damage_is_a_data_error_or_nothing(write: Any, data: st.DataObject, tmp_path_factory: Any) -> None:
    good = bytearray(example(write))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(good) - 1))
        how = data.draw(st.sampled_from(["byte", "cut", "insert", "drop"]))
        if how == "byte":
            good[at] = data.draw(st.sampled_from([*STEPS, *REFUSED, 0, 1, 255]) | st.integers(0, 255))
        elif how == "cut":
            del good[max(at, 1) :]
        elif how == "insert":
            good[at:at] = data.draw(st.binary(min_size=1, max_size=9))
        else:
            del good[at : at + data.draw(st.integers(1, 20))]
        good = good or bytearray(b"\0")
    path = tmp_path_factory.mktemp("damage") / "a.pth"
    path.write_bytes(good)
    with contextlib.suppress(DataError):
        found = read_torch(path)
        assert all(isinstance(name, str) and np.array(array).shape == array.shape for name, array in found.items())


@settings(max_examples=300)
@given(st.lists(st.sampled_from([*STEPS, *REFUSED]), max_size=40), st.binary(max_size=40))
def test_streams_of_instructions(codes: list[int], rest: bytes) -> None:
    from pdl.hub.torch_pickle import Machine

    with contextlib.suppress(DataError):
        Machine(memoryview(b"\x80\x02" + bytes(codes) + rest + b"."), "stream").run()


@both
def test_every_cut(write: Any, read: Read) -> None:
    good = example(write)
    for length in range(0, len(good) - 1, 3):
        with pytest.raises(DataError):
            read(good[:length])


# -- torch itself ------------------------------------------------------------------------------------------------------
TORCH = """
import sys, torch
from collections import OrderedDict
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 5))
big = torch.arange(24.0)
state = net.state_dict()
state["turned"], state["half"], state["brain"] = big.view(4, 6).t(), big.half()[3:9], big.bfloat16()
state["flags"], state["shared"], state["expanded"] = big > 3, big[5:], torch.ones(1).expand(6)
state["parameter"] = torch.nn.Parameter(big.double())
for legacy in (False, True):
    for wrapped in (False, True):
        path = f"{sys.argv[1]}/{int(legacy)}{int(wrapped)}.pth"
        content = {"state_dict": state, "epoch": 3} if wrapped else state
        torch.save(content, path, _use_new_zipfile_serialization=not legacy)
torch.save(net, f"{sys.argv[1]}/module.pth")
import numpy
arrays = {k: (v.float() if v.dtype == torch.bfloat16 else v).detach().numpy() for k, v in state.items()}
numpy.savez(f"{sys.argv[1]}/truth.npz", **arrays)
"""


@pytest.mark.slow
def test_files_of_torch_itself(tmp_path: Path) -> None:
    python = torch_python()
    if python is None:
        pytest.skip("no Python with torch was found (PDL_TORCH_PYTHON may name one)")
    subprocess.run([python, "-c", TORCH, str(tmp_path)], check=True)
    truth = np.load(tmp_path / "truth.npz")
    for name in ("00", "01", "10", "11"):
        found = read_torch(tmp_path / f"{name}.pth")
        assert set(found) == set(truth.files)
        for key, array in found.items():
            np.testing.assert_array_equal(array.astype(truth[key].dtype), truth[key], err_msg=key)
        assert found["brain"].dtype == bfloat16
        assert found["half"].dtype == np.float16
    with pytest.raises(DataError, match=r"it names torch.nn.modules.container.Sequential"):
        read_torch(tmp_path / "module.pth")
