"""What a program cannot hold is refused, with file, line, the line itself and the reason."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import jit
from pdl.errors import TraceError

X = pdl.tensor(np.array([1, 2, 3], np.float32))
seen: list[Any] = []
total = 0


def shapes(x: Any) -> Any:
    if x.sum() > 0:
        y = x
    else:
        y = x[:2]
    return y


def dtypes(x: Any) -> Any:
    return x if x.sum() > 0 else x.astype("float64")


def kinds(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return None


def texts(x: Any) -> Any:
    mode = "a" if x.sum() > 0 else "b"
    return x, mode


def lengths(x: Any) -> Any:
    out = []
    if x.sum() > 0:
        out.append(x)
    return out


def keys(x: Any) -> Any:
    out = {}
    if x.sum() > 0:
        out["a"] = x
    return out


def one_sided(x: Any) -> Any:
    if x.sum() > 0:
        y = x * 2
    return y


def only_in_loop(x: Any) -> Any:
    while x.sum() < 100:
        y = x * 2
        x = x + y
    return y


def growing_list(x: Any) -> Any:
    out = []
    while x.sum() < 100:
        x = x * 2
        out.append(x)
    return out


def growing_state(x: Any) -> Any:
    while x.sum() < 100:
        x = pdl.concat([x, x])
    return x


def changing_kind(x: Any) -> Any:
    y = None
    while x.sum() < 100:
        x = x * 2
        y = x
    return y


def yields(x: Any) -> Iterator[Any]:
    yield x


async def waits(x: Any) -> Any:
    return x


def writes_global(x: Any) -> Any:
    global total
    total = total + 1
    return x


def sees_locals(x: Any) -> Any:
    return locals()


def raises(x: Any) -> Any:
    if x.sum() > 0:
        raise ValueError("positive")
    return x


def tries(x: Any) -> Any:
    if x.sum() > 0:
        try:
            x = x * 2
        except ValueError:
            x = x * 3
    return x


def enters(x: Any) -> Any:
    if x.sum() > 0:
        with pdl.autograd.detect_anomaly():
            x = x * 2
    return x


class Counter(pdl.nn.Module):
    def __init__(self) -> None:
        self.count = 0
        self._log: list[Any] = []

    def forward(self, x: Any) -> Any:
        self.count += 1
        return x


class Logger(Counter):
    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            self._log.append(x)
        return x


class Setter(Counter):
    def forward(self, x: Any) -> Any:
        if x.sum() > 0:
            self.count = 3
        return x


class Recorder(Counter):
    def forward(self, x: Any) -> Any:
        self._log.append(x)
        return x


def appends_outside(x: Any) -> Any:
    seen.append(x)
    return x


def writes_item_outside(x: Any) -> Any:
    seen[0] = x
    return x


def item_of_tensor(x: Any) -> Any:
    y = x * 2
    y[0] = 1
    return y


def item_of_object(x: Any) -> Any:
    holder = {"box": [1]}
    if x.sum() > 0:
        holder["box"][0] = 2
    return x


def recursive(x: Any) -> Any:
    if x.sum() < 100:
        return recursive(x * 2)
    return x


def values(x: Any) -> Any:
    return x * np.log(x.numpy())


def comprehension(x: Any) -> Any:
    return [v for v in x if v > 0]


def index(x: Any) -> Any:
    return [10, 20, 30, 40][x.argmax()] * x


def ambiguous(x: Any) -> Any:
    if x > 0:
        return x
    return -x


def random_in_loop(x: Any) -> Any:
    while x.sum() < 100:
        x = x + pdl.dropout_mask(x.shape, rate=0.5)
    return x


def endless(x: Any) -> Any:
    import itertools

    for _ in itertools.count():
        x = x * 2
        if x.sum() > 100:
            break
    return x


def calls_generator(x: Any) -> Any:
    def rows(v: Any) -> Iterator[Any]:
        for r in v:
            if r > 0:
                yield r

    return list(rows(x))


CASES: list[tuple[Any, str, str]] = [
    (shapes, "if x.sum() > 0:", "variable 'y' is a tensor f32[3] in one branch and a tensor f32[2] in the other"),
    (dtypes, 'return x if x.sum() > 0 else x.astype("float64")', "f32[3] in one branch and a tensor f64[3]"),
    (kinds, "if x.sum() > 0:", "the return value is a tensor f32[3] in one branch and None in the other"),
    (texts, 'mode = "a" if x.sum() > 0 else "b"', "str 'a' in one branch and str 'b' in the other"),
    (lengths, "if x.sum() > 0:", "variable 'out' has 1 elements in one branch and 0 in the other"),
    (keys, "if x.sum() > 0:", "variable 'out' has the keys ['a'] in one branch and [] in the other"),
    (one_sided, "return y", "variable 'y' is defined in only one branch of the tensor condition at"),
    (only_in_loop, "return y", "variable 'y' is defined only inside the loop, which may run no time"),
    (growing_list, "while x.sum() < 100:", "variable 'out' has 0 elements before an iteration and 1 after it"),
    (growing_state, "while x.sum() < 100:", "variable 'x' is a tensor f32[3] before an iteration and a tensor f32[6]"),
    (changing_kind, "while x.sum() < 100:", "variable 'y' is None before an iteration and a tensor f32[3] after it"),
    (yields, "yield x", "functions with yield are not converted"),
    (waits, "async def waits(x: Any) -> Any:", "async functions are not converted"),
    (writes_global, "global total", "a program cannot write variables outside the function"),
    (sees_locals, "return locals()", "locals() sees the variables of one frame"),
    (raises, 'raise ValueError("positive")', "use assert inside a branch that depends on a tensor"),
    (tries, "try:", "try has no meaning inside a program"),
    (enters, "with pdl.autograd.detect_anomaly():", "a with-block enters and leaves"),
    (Counter(), "self.count += 1", "attribute 'count' of a module is written"),
    (Logger(), "self._log.append(x)", "self._log.append() changes an object that lives on inside a branch"),
    (Setter(), "self.count = 3", "attribute 'count' is written inside a branch"),
    (Recorder(), "self._log.append(x)", "it would happen when the program is made and not when it runs"),
    (appends_outside, "seen.append(x)", "it would happen when the program is made and not when it runs"),
    (writes_item_outside, "seen[0] = x", "it would happen when the program is made and not when it runs"),
    (item_of_tensor, "y[0] = 1", "an item of a tensor; use pdl.where or pdl.scatter"),
    (item_of_object, 'holder["box"][0] = 2', "is written inside a branch"),
    (recursive, "if x.sum() < 100:", "calls itself again and again"),
    (ambiguous, "if x > 0:", "the truth of a tensor of shape (3,) is ambiguous"),
    (random_in_loop, "x = x + pdl.dropout_mask(x.shape, rate=0.5)", "random numbers inside a loop over tensors"),
    (endless, "for _ in itertools.count():", "its iterator never does; use while"),
    (values, "return x * np.log(x.numpy())", "Python needs the values of a tensor"),
    (comprehension, "return [v for v in x if v > 0]", "Python needs the values of a tensor"),
    (index, "return [10, 20, 30, 40][x.argmax()] * x", "Python needs the values of a tensor"),
    (calls_generator, "if r > 0:", "Python needs the values of a tensor"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: getattr(c[0], "__name__", type(c[0]).__name__))
def test_refused_with_place_and_reason(case: tuple[Any, str, str]) -> None:
    function, line, reason = case
    with pytest.raises(TraceError) as caught:
        jit.to_static(function)(X)
    assert reason in str(caught.value)
    file, _, number = caught.value.where.rpartition(":")
    assert file == __file__
    assert linecache.getline(file, int(number)).strip() == line
    frames = [f.filename for f in traceback.extract_tb(caught.value.__traceback__)]
    assert frames.count(jit.static.__file__) <= 2, "the traceback shows the user's code"


def test_errors_of_user_code_point_at_their_line() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            for i in range(2):
                x = x.reshape(7, i)
        return x

    with pytest.raises(pdl.errors.ShapeError) as caught:
        jit.to_static(f)(X)
    lines = [f.line for f in traceback.extract_tb(caught.value.__traceback__) if f.filename == __file__]
    assert lines[-3:] == ["if x.sum() > 0:", "for i in range(2):", "x = x.reshape(7, i)"]


def test_a_variable_of_one_branch_may_be_used_there() -> None:
    @jit.to_static
    def f(x: Any) -> Any:
        y = x
        if x.sum() > 0:
            z = x * 2
            y = y + z
        return y

    np.testing.assert_array_equal(f(X).numpy(), [3, 6, 9])


def test_source_must_be_there() -> None:
    space: dict[str, Any] = {}
    exec("def f(x):\n    return x\n", space)
    with pytest.raises(TraceError, match="source of f is not available"):
        jit.to_static(space["f"])
    with pytest.raises(pdl.errors.UsageError, match="not int"):
        jit.to_static(3)


def test_lambdas_on_one_line() -> None:
    fs: list[Callable[[Any], Any]] = [lambda x: x * 2 if x.sum() > 0 else x, lambda x: x * 3 if x.sum() > 0 else x]
    assert [float(jit.to_static(f)(X)[0]) for f in fs] == [2.0, 3.0]
