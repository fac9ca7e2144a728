"""PyTorch files made without PyTorch: the pickles by the standard library, with classes that only look like torch's."""

from __future__ import annotations

import io
import math
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.hub.torch_file import MAGIC, PROTOCOL
from pdl.hub.torch_pickle import STORAGES

NAMES = {dtype: name.rpartition(".")[2] for name, dtype in STORAGES.items()}


@dataclass(eq=False)
class Stored:
    """A storage: an array of one axis; `whole` is the storage that it is a part of, from `begin`."""

    array: np.ndarray
    key: str
    whole: Stored | None = None
    begin: int = 0


@dataclass
class FakeTensor:
    """A tensor over a storage; pickles as torch's do."""

    storage: Stored
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    parameter: bool = False

    def __reduce__(self) -> Any:
        utils = sys.modules["torch._utils"]
        made = utils._rebuild_tensor_v2, (self.storage, self.offset, self.shape, self.strides, False, OrderedDict())
        if not self.parameter:
            return made
        return utils._rebuild_parameter, (FakeTensor(self.storage, self.shape, self.strides), True, OrderedDict())


def tensor(array: np.ndarray, key: str = "0", **options: Any) -> FakeTensor:
    """A tensor with a storage of its own, in C order."""
    strides = tuple(math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim))
    return FakeTensor(Stored(array.reshape(-1), key), array.shape, strides, **options)


@contextmanager
def torch_modules() -> Iterator[None]:
    """Modules of torch's names, for the standard library's pickler to look at."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in NAMES.values():
        setattr(torch, name, type(name, (), {"__module__": "torch"}))
    for name in ("_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_tensor"):
        function = types.FunctionType((lambda *_: None).__code__, {}, name)
        function.__module__, function.__qualname__ = "torch._utils", name
        setattr(utils, name, function)
    torch._utils = utils  # type: ignore[attr-defined]
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class Pickler(pickle.Pickler):
    """Writes storages as references and remembers them."""

    def __init__(self, file: io.BytesIO, *, protocol: int, legacy: bool) -> None:
        super().__init__(file, protocol)
        self.legacy, self.seen = legacy, {}  # type: ignore[var-annotated]

    def persistent_id(self, obj: Any) -> Any:
        """torch.serialization's tuples."""
        if not isinstance(obj, Stored):
            return None
        root = obj.whole or obj
        self.seen[root.key] = root
        kind = getattr(sys.modules["torch"], NAMES[root.array.dtype])
        view = (f"{obj.key}-view", obj.begin, obj.array.size) if obj.whole is not None else None
        return ("storage", kind, root.key, "cpu", root.array.size, *((view,) if self.legacy else ()))


def dumped(content: Any, *, protocol: int = 2, legacy: bool = False) -> tuple[bytes, dict[str, Stored]]:
    """The pickle of a content, and its storages by key."""
    file = io.BytesIO()
    with torch_modules():
        pickler = Pickler(file, protocol=protocol, legacy=legacy)
        pickler.dump(content)
    return file.getvalue(), pickler.seen


def state_dict(entries: Mapping[str, Any]) -> OrderedDict[str, Any]:
    """As `Module.state_dict` gives it: with versions of modules as an attribute."""
    made: OrderedDict[str, Any] = OrderedDict(entries)
    made._metadata = OrderedDict([("", {"version": 1})])  # type: ignore[attr-defined]
    return made


def zipped(content: Any, *, order: str | None = "little", root: str = "archive", **options: Any) -> bytes:
    """torch.save since 1.6."""
    text, seen = dumped(content, **options)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{root}/data.pkl", text)
        if order is not None:
            archive.writestr(f"{root}/byteorder", order)
        for key, storage in seen.items():
            raw = storage.array if order != "big" else storage.array.view(f"u{storage.array.itemsize}").byteswap()
            archive.writestr(f"{root}/data/{key}", raw.tobytes())
        archive.writestr(f"{root}/version", "3\n")
    return file.getvalue()


def legacy(content: Any, **options: Any) -> bytes:
    """torch.save before 1.6."""
    text, seen = dumped(content, legacy=True, **options)
    facts = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [pickle.dumps(each, 2) for each in (MAGIC, PROTOCOL, facts)]
    parts += [text, pickle.dumps(sorted(seen), 2)]
    for key in sorted(seen):
        array = seen[key].array
        parts += [array.size.to_bytes(8, "little"), array.tobytes()]
    return b"".join(parts)


WRITERS = {"zip": zipped, "legacy": legacy}
