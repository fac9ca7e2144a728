"""What pdl's ONNX import answers on ONNX's own test suite: passed, not supported (with the reason), or failed.

    python tools/onnx_conformance.py                          # node, simple, pytorch-converted, pytorch-operator
    python tools/onnx_conformance.py --kind node --only 'test_resize_*' --verbose
    python tools/onnx_conformance.py -j 2 --json conformance.json
    python tools/onnx_conformance.py --symbolic               # the same models with names for all sizes

Each model runs node by node and, where `pdl.onnx.load_model` makes a program of it, in a session of the runtime too. A
case *passes* where shapes, dtypes and values agree as onnx's own runner demands (its rtol and atol), both times. It is
*not supported* where pdl refuses it with an error of its own, which names op and reason. Everything else is *failed*:
a wrong answer, another exception, a crash, a case that ran past its time. The exit code is 1 where a case failed.
The cases in `ENGINES` are answered *as engines do*: PyTorch, which makes the models, and ONNX Runtime.

Cases run in child processes, so that one that crashes or hangs is a line of the report. Of random ops (`Bernoulli`
and the cases in `DRAWN`), whose values no implementation can share, shape, dtype and range are compared.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
STATES = ("passed", "as engines do", "not supported", "failed")
#: cases that pdl answers as ONNX Runtime and PyTorch do, who agree with each other and not with the standard's example
ENGINES = ("test_resize_downsample_scales_cubic_align_corners", "test_resize_downsample_scales_linear_align_corners")
#: cases whose expected values are one draw of a generator that the standard leaves open
DRAWN = ("test_bernoulli",)


class Case(NamedTuple):
    """One case of the suite; `model_dir` or `model` and `data_sets` hold its graph and data."""

    name: str
    kind: str
    op: str
    rtol: float
    atol: float
    model: Any
    data_sets: Any
    model_dir: str | None


class Outcome(NamedTuple):
    """What came of a case: a state of `STATES`, why where it did not pass, and whether it ran as a program too."""

    name: str
    kind: str
    op: str
    state: str
    reason: str = ""
    form: str = "graph"
    seconds: float = 0.0


# -- the suite ---------------------------------------------------------------------------------------------------------
def load_cases(kinds: tuple[str, ...], pattern: str = "*", files: tuple[str, ...] = ()) -> list[Case]:
    """The cases of these kinds whose name, or op, matches the pattern; of node cases only those in the named files of
    the suite, where any are named (some of the others take a second each to make).
    """
    from onnx.backend.test.loader import load_model_tests

    found: list[Case] = []
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = _node_cases(files) if files and kind == "node" else load_model_tests(kind=kind)
        ops = {c.name: _main_op(c.model) for c in cases if c.model is not None}
        for c in sorted(cases, key=lambda c: c.name):
            op = ops.get(c.name.split("_expanded")[0]) or ops.get(c.name) or kind
            if fnmatch.fnmatch(c.name, pattern) or fnmatch.fnmatch(op, pattern):
                found.append(Case(c.name, kind, op, c.rtol, c.atol, c.model, c.data_sets, c.model_dir))
    return found


def _node_cases(files: tuple[str, ...]) -> list[Any]:
    from onnx.backend.test.case import node

    for name in files:  # importing such a file makes its cases
        importlib.import_module(f"{node.__name__}.{name}")
    return list(node._NodeTestCases)


def _main_op(model: Any) -> str:
    """The op that a node case is about: that of its last node (others prepare its input)."""
    node = model.graph.node[-1]
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else str(node.op_type)


def symbolic(case: Case) -> Case:
    """The case with names for all sizes of its inputs: its program must be right at sizes it was not traced with."""
    import onnx

    model = onnx.ModelProto()
    model.CopyFrom(case.model if case.model is not None else onnx.load(str(Path(case.model_dir or "") / "model.onnx")))
    held = {t.name for t in model.graph.initializer}
    for i, port in enumerate(p for p in model.graph.input if p.name not in held and p.type.HasField("tensor_type")):
        for k, dim in enumerate(port.type.tensor_type.shape.dim):
            dim.dim_param = f"d{i}_{k}"
    for port in model.graph.output:
        if port.type.HasField("tensor_type"):
            port.type.tensor_type.ClearField("shape")
    _, sets = _data_of(case)
    return case._replace(model=model, data_sets=sets, model_dir=None)


def _data_of(case: Case) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """The model and its (inputs, expected outputs) as arrays, lists (sequences) or None (empty optionals)."""
    import onnx
    from onnx import numpy_helper

    def plain(x: Any) -> Any:
        return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x

    if case.model_dir is None:
        return case.model, [([plain(x) for x in ins], [plain(y) for y in outs]) for ins, outs in case.data_sets]
    folder = Path(case.model_dir)
    model = onnx.load(str(folder / "model.onnx"))
    sets = []
    for place in sorted(folder.glob("test_data_set_*")):
        ins = [_read(place / f"input_{i}.pb", v.type) for i, v in enumerate(_fed(model, place))]
        count = len(list(place.glob("output_*.pb")))
        outs = [_read(place / f"output_{i}.pb", model.graph.output[i].type) for i in range(count)]
        sets.append((ins, outs))
    return model, sets


def _fed(model: Any, place: Path) -> list[Any]:
    return list(model.graph.input[: len(list(place.glob("input_*.pb")))])


def _read(path: Path, kind: Any) -> Any:
    """One value of a data set in protobuf form."""
    import onnx
    from onnx import numpy_helper

    if kind.HasField("sequence_type"):
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    if kind.HasField("optional_type"):
        optional = onnx.OptionalProto()
        optional.ParseFromString(path.read_bytes())
        return numpy_helper.to_optional(optional)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


# -- one case ----------------------------------------------------------------------------------------------------------
def run_case(case: Case) -> Outcome:
    """Import the case's model, run it on its data node by node, and as a program where it is one; compare."""
    from pdl.errors import PdlError

    start = time.perf_counter()
    form = "graph"

    def outcome(state: str, reason: str = "") -> Outcome:
        return Outcome(case.name, case.kind, case.op, state, reason, form, time.perf_counter() - start)

    model, sets = _data_of(case)
    try:
        runs = _runners(model)
        form = [*runs][-1]
        answers = [(expected, way, run(ins)) for way, run in runs.items() for ins, expected in sets]
    except PdlError as error:
        unforeseen = error.__cause__ is not None and not isinstance(error.__cause__, PdlError)  # no refusal
        return outcome("failed" if unforeseen else "not supported", f"{type(error).__name__}: {_short(error)}")
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}"
        return outcome("failed", f"{type(error).__name__} at {where}: {_short(error)}")
    for expected, way, got in answers:
        try:
            _compare(case, expected, got)
        except Exception as error:
            if case.name in ENGINES:
                return outcome("as engines do", "another answer than the standard's example")
            return outcome("failed", f"wrong answer as a {way}: {_short(error)}")
    return outcome("passed")


def _runners(model: Any) -> dict[str, Callable[[list[Any]], list[Any]]]:
    """{"graph": the interpreter, "program": a session, where the model is one}; both take and give the data in the
    order of the graph.
    """
    from pdl.onnx import load_model
    from pdl.runtime import Session

    made = load_model(model.SerializeToString())
    names, outputs = [v.name for v in model.graph.input], [v.name for v in model.graph.output]

    def interpret(inputs: list[Any]) -> list[Any]:
        found = made.graph.run(dict(zip(names, inputs, strict=False)))
        return [found[name] for name in outputs]

    runs = {"graph": interpret}
    if made.program is not None:
        session = Session.of(made.program, outputs=outputs)

        def in_session(inputs: list[Any]) -> list[Any]:
            given = dict(zip(names, inputs, strict=False))
            found = session.run({port.name: given[port.name] for port in session.inputs})
            return [_at_the_rim(found[v.name], v) for v in model.graph.output]

        runs["program"] = in_session
    return runs


def _at_the_rim(y: Any, port: Any) -> Any:
    """A program computes in float32 what the file calls float16."""
    halves = port.type.tensor_type.elem_type == 10 and y.dtype == np.float32
    return y.astype(np.float16) if halves else y


def _compare(case: Case, expected: list[Any], got: list[Any]) -> None:
    """Raise where an answer differs by onnx's own measure.

    That allows bfloat16 two units in the last place, and float16 hardly one (rtol is 1e-3, a unit up to 2^-10); here it
    has two as well: pdl computes in float32 and rounds once, the suite rounds at every step. What is left where terms
    of a sum cancel has their rounding: two units of float32 of the largest value of the answer.
    """
    from onnx.backend.test.runner import Runner

    _require_alike(expected, got)
    for a, b in zip(expected, got, strict=True):
        if isinstance(a, list):
            _compare(case, a, b)
        elif case.name.startswith(DRAWN):
            assert np.isin(b, (0, 1)).all(), "a draw that is neither 0 nor 1"
        elif a is not None:
            a, rtol, atol = np.asarray(a), case.rtol, case.atol
            if a.dtype == np.float32 and a.size:
                largest = float(np.abs(a, where=np.isfinite(a), out=np.zeros_like(a)).max())
                atol = max(atol, 2 * float(np.finfo(np.float32).eps) * largest)
            if a.dtype == np.float16:
                a, b, rtol = a.astype(np.float32), b.astype(np.float32), max(rtol, 2**-9)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Runner.assert_similar_outputs([a], [b], rtol, atol)


def _require_alike(expected: list[Any], got: list[Any]) -> None:
    """Kinds, lengths, shapes and dtypes, also inside sequences, where onnx's runner does not look."""
    assert len(expected) == len(got), f"{len(got)} values for {len(expected)}"
    for a, b in zip(expected, got, strict=True):
        if isinstance(a, list):
            assert isinstance(b, list), f"a {type(b).__name__} for a sequence"
            _require_alike(a, b)
        elif a is None:
            assert b is None, "a value for an empty optional"
        else:
            a = np.asarray(a)
            assert a.shape == b.shape, f"shape {b.shape} for {a.shape}"
            assert a.dtype == b.dtype or a.dtype == object, f"dtype {b.dtype} for {a.dtype}"


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) < 300 else text[:297] + "..."


# -- many cases --------------------------------------------------------------------------------------------------------
def _serve(pipe: Connection, cases: list[Case]) -> None:
    """A child: run the cases whose numbers arrive, until None."""
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    while (number := pipe.recv()) is not None:
        pipe.send(run_case(cases[number]))


class _Worker:
    """One child process and the case it is at."""

    def __init__(self, cases: list[Case]) -> None:
        fork = multiprocessing.get_context("fork")  # children share the cases, which take seconds to make
        self.pipe, theirs = fork.Pipe()
        self.process = fork.Process(target=_serve, args=(theirs, cases), daemon=True)
        self.process.start()
        theirs.close()
        self.number: int | None = None
        self.since = 0.0

    def give(self, number: int) -> None:
        """Start a case."""
        self.number, self.since = number, time.monotonic()
        self.pipe.send(number)

    def end(self) -> None:
        """Stop the child, whatever it does."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_cases(cases: list[Case], *, jobs: int = 1, limit: float = 60.0) -> list[Outcome]:
    """The outcomes of all cases, in their order; `limit` in seconds a case."""
    workers = [_Worker(cases) for _ in range(max(1, min(jobs, len(cases))))]
    todo, outcomes = iter(range(len(cases))), {}

    def next_case(worker: _Worker) -> None:
        number = next(todo, None)
        worker.number = None
        if number is not None:
            worker.give(number)

    for worker in workers:
        next_case(worker)
    while any(w.number is not None for w in workers):
        ready = wait([w.pipe for w in workers if w.number is not None], timeout=0.5)
        for place, worker in enumerate(workers):
            if worker.number is None:
                continue
            number, spent = worker.number, time.monotonic() - worker.since
            if worker.pipe in ready:
                try:
                    outcomes[number] = worker.pipe.recv()
                    next_case(worker)
                    continue
                except EOFError:
                    worker.process.join()
                    reason = f"the process died with exit code {worker.process.exitcode}"
            elif spent > limit:
                reason = f"no answer within {limit:.0f} s"
            else:
                continue
            case = cases[number]
            outcomes[number] = Outcome(case.name, case.kind, case.op, "failed", reason, "graph", spent)
            worker.end()
            workers[place] = _Worker(cases)
            next_case(workers[place])
    for worker in workers:
        worker.end()
    return [outcomes[i] for i in range(len(cases))]


# -- the report --------------------------------------------------------------------------------------------------------
def summary(outcomes: list[Outcome]) -> dict[str, dict[str, int]]:
    """{kind: {state: number of cases, "as programs": how many of the passed ones}}."""
    table: dict[str, dict[str, int]] = {}
    for o in outcomes:
        row = table.setdefault(o.kind, dict.fromkeys((*STATES, "as programs"), 0))
        row[o.state] += 1
        row["as programs"] += o.state == "passed" and o.form == "program"
    return table


def report(outcomes: list[Outcome], *, verbose: bool = False) -> str:
    """The table per kind and per op, with the reasons."""
    table = summary(outcomes)
    columns = (*STATES, "as programs")
    lines = [f"{'':34}" + "".join(f"{s:>15}" for s in columns)]
    lines += [f"{kind:34}" + "".join(f"{n[s]:15}" for s in columns) for kind, n in table.items()]
    lines.append("")
    for op in sorted({o.op for o in outcomes}):
        own = [o for o in outcomes if o.op == op]
        counts = Counter(o.state for o in own)
        lines.append(f"{op:34}" + "".join(f"{counts[s]:15}" for s in STATES))
        reasons = Counter((o.state, o.reason) for o in own if o.state != "passed")
        if not verbose:
            lines += [f"    {n} x {state}: {reason}" for (state, reason), n in reasons.most_common()]
        else:
            lines += [f"    {o.name}: {o.state}: {o.reason}" for o in own if o.state != "passed"]
    return "\n".join(lines)


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=KINDS, help="default: all")
    parser.add_argument("--only", default="*", metavar="GLOB", help="names of cases, or of an op")
    parser.add_argument("--symbolic", action="store_true", help="sizes of all inputs are known only at run time")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a case")
    parser.add_argument("--verbose", action="store_true", help="name every case that did not pass")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there")
    args = parser.parse_args()
    try:
        cases = load_cases(tuple(args.kind or KINDS), args.only)
        cases = [symbolic(case) for case in cases] if args.symbolic else cases
    except ImportError:
        print("this tool needs the package onnx: pip install onnx", file=sys.stderr)
        return 2
    outcomes = run_cases(cases, jobs=args.jobs, limit=args.limit)
    print(report(outcomes, verbose=args.verbose))
    if args.json:
        rows = [o._asdict() for o in outcomes]
        args.json.write_text(json.dumps({"summary": summary(outcomes), "cases": rows}, indent=1) + "\n")
    return int(any(o.state == "failed" for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
