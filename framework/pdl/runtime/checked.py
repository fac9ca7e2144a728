"""From program.json to a program that may be run: every op, attribute, reference, shape and size is looked at first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdl.dims import Dim
from pdl.dtype import ALL, Array
from pdl.errors import LimitError, PdlError, listed
from pdl.limits import check_time
from pdl.ops.attributes import from_json, kinds
from pdl.ops.base import OPS, Op, find_op
from pdl.program import Program, verify
from pdl.runtime.strict import check, check_keys, fault, kind
from pdl.runtime.weights import widened
from pdl.tensor import Tensor

MAX_RANK, MAX_NAME = 16, 512
MAX_VALUE = 2**33  # bytes of one array, at the sizes that the file gives as an example
MAX_SIZE = 2**24  # of an axis that is known at run time, in the example
MAX_INTEGER = 2**48  # in a shape
_CONTENTS: dict[str, Any] = {"dtype": ALL, "float": ("inf", "-inf", "nan")}
_PARTS: dict[str, type | tuple[type, ...]] = {
    "name": str, "sizes": dict, "inputs": list, "captures": list, "nodes": list, "outputs": list, "effects": list,
}  # fmt: skip
_VALUE: dict[str, type | tuple[type, ...]] = {"name": (str, type(None)), "shape": list, "dtype": str}
_WHERE = "program.json"


def program_of(data: dict[str, Any], weights: Mapping[str, Array], source: str) -> Program:
    """The verified program; its captured tensors are `weights`, which must be exactly those it names.

    Weights of a float32 program that are stored in bfloat16, in float16 or as shared values become float32 here.
    """
    _check_program(data, source, _WHERE)
    names = [value["name"] for value in data["captures"]]
    check(len(set(names)) == len(names), source, _WHERE, "two captured tensors share a name")
    check(None not in names, source, _WHERE, "a captured tensor without a name")
    unknown, unused = sorted(set(names) - weights.keys()), sorted(weights.keys() - set(names))
    check(not unknown, source, _WHERE, f"captures {listed(unknown, 5)}, which weights.safetensors lacks")
    check(not unused, source, "weights.safetensors", f"holds {listed(unused, 5)}, which the program does not read")
    try:
        tensors = {
            value["name"]: Tensor._wrap(widened(weights[value["name"]], ALL[value["dtype"]], value["shape"]))
            for value in data["captures"]
        }
        program = verify(Program.from_dict(data, tensors.__getitem__), "reading it")
    except LimitError:
        raise
    except PdlError as error:
        raise fault(source, _WHERE, str(error)) from None
    except Exception as error:  # whatever an op's infer meets in attributes that nobody would write
        raise fault(source, _WHERE, f"it does not verify ({type(error).__name__}: {error})") from error
    for value in program._values():
        if value.nbytes > MAX_VALUE:
            raise fault(source, _WHERE, f"{value!r} takes {value.nbytes} bytes, limit {MAX_VALUE}")
    return program


def _check_program(data: dict[str, Any], source: str, where: str) -> None:
    """Structure, and every op and attribute by its annotation; nothing is built."""
    check_keys({k: v for k, v in data.items() if k != "constants"}, _PARTS, source, where)
    sizes = data["sizes"].values()
    good = len(sizes) <= MAX_RANK and all(type(n) is int and 1 <= n <= MAX_SIZE for n in sizes)
    check(good, source, f"{where}: sizes", f"examples of sizes must be from 1 to {MAX_SIZE}")
    check(not data["effects"], source, where, "it changes tensors in place, which only training may")
    for part in ("inputs", "captures"):
        for value in data[part]:
            check_keys(value, _VALUE, source, f"{where}: {part}")
            check(len(value["name"] or "") <= MAX_NAME, source, f"{where}: {part}", "a name that is too long")
            _check_spec([value["shape"], value["dtype"]], source, f"{where}: {part}")
    for number, node in enumerate(data["nodes"]):
        check_time()
        _check_node(node, data["sizes"], source, f"{where}: node {number}")
    _check_refs(data["outputs"], source, f"{where}: outputs")
    check(None not in data["outputs"], source, f"{where}: outputs", "an output that is nothing")


def _check_spec(spec: Any, source: str, where: str) -> None:
    """[shape, dtype name]; sizes are numbers, or expressions of sizes known at run time."""
    good = isinstance(spec, list) and len(spec) == 2 and isinstance(spec[0], list) and isinstance(spec[1], str)
    check(good, source, where, "expected [shape, dtype]")
    shape, dtype = spec
    if dtype not in ALL:
        raise fault(source, where, f"dtype {dtype[:20]!r} is not one of {', '.join(ALL)}")
    if len(shape) > MAX_RANK:
        raise fault(source, where, f"{len(shape)} dimensions, limit {MAX_RANK}")
    for n in shape:
        if not (isinstance(n, str) or (type(n) is int and 0 <= n <= MAX_INTEGER)):
            raise fault(source, where, f"the size {str(n)[:40]!r} of a dimension")


def _check_refs(refs: Any, source: str, where: str) -> None:
    good = isinstance(refs, list) and all(r is None or (type(r) is int and r >= 0) for r in refs)
    check(good, source, where, "expected a list of numbers of values")


def _check_node(node: Any, sizes: Mapping[str, int], source: str, where: str) -> None:
    check(isinstance(node, dict), source, where, f"expected an object, found {kind(node)}")
    name = node.get("op")
    op = find_op(name) if isinstance(name, str) else None
    if op is None:
        raise fault(source, where, f"unknown op {str(name)[:60]!r}; this pdl has {len(OPS)} ops", "update pdl")
    where = f"{where} ({name})"
    _check_refs(node.get("in"), source, f"{where}: in")
    outs, out = node.get("out"), f"{where}: out"
    check(isinstance(outs, list) and outs, source, where, "it lacks its outputs")
    for spec in outs:
        _check_spec(spec, source, out)
    allowed = kinds(op)  # type: ignore[arg-type]
    check(op.cpu is not Op.cpu or op.view is not None, source, where, "its results have no size known beforehand")
    given = {key: value for key, value in node.items() if key not in ("op", "in", "out")}
    if unknown := sorted(given.keys() - allowed.keys()):
        known = ", ".join(allowed) or "none"
        raise fault(source, where, f"has the attribute {listed(unknown, 5)}, known are {known}")
    missing = sorted(field for field in op.fields if field not in given and field not in op.defaults)
    if missing:
        raise fault(source, where, f"lacks the attribute {listed(missing, 5)}")
    for key, value in given.items():
        if not allowed[key].holds(_value(value, sizes, source, where)):
            raise fault(source, where, f"{key} is {str(value)[:60]!r}, expected {allowed[key].text}")


def _value(value: Any, sizes: Mapping[str, int], source: str, where: str) -> Any:
    """An attribute as the op will have it; of what stands as {kind: content} the content is checked, and a program
    inside (a branch, a loop) is only looked at."""
    if isinstance(value, list):
        return tuple(_value(v, sizes, source, where) for v in value)
    if not isinstance(value, dict):
        return value
    check(len(value) == 1, source, where, f"an object of {len(value)} keys, expected one")
    ((what, content),) = value.items()
    if what == "program":
        check(isinstance(content, dict), source, where, "its inner program is no object")
        _check_program(content, source, f"{where}: inner program")
        return _Program()
    good = isinstance(content, str) and (what == "dim" or content in _CONTENTS.get(what, ()))
    check(good, source, where, f"the object {str(value)[:60]}")
    try:
        return Dim.parse(content, sizes) if what == "dim" else from_json(value)
    except (PdlError, ArithmeticError) as error:
        raise fault(source, where, str(error)) from None


class _Program:
    """Stands for a program inside an attribute until it is built."""

    program = None
