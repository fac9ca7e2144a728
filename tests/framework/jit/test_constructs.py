"""Every construct that `to_static` knows, one test each: eager and program give the same values and gradients, whatever
the tensors in the conditions say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import jit


def same(function: Callable[..., Any], *cases: Any, extra: tuple[Any, ...] = ()) -> jit.StaticFunction:
    """Values and gradients of `function` and of its program agree for every case: an array, or a tuple of them."""
    static = jit.to_static(function)
    for case in cases:
        arrays = case if isinstance(case, tuple) else (case,)
        results = [_run(f, arrays, extra) for f in (function, static)]
        for (ys, gs), (zs, hs) in [results]:
            assert len(ys) == len(zs)
            for a, b in zip((*ys, *gs), (*zs, *hs), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
    return static


def _run(function: Any, arrays: tuple[Any, ...], extra: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    xs = [pdl.tensor(np.array(a), requires_grad=np.array(a).dtype.kind == "f") for a in arrays]
    made = _flat(function(*xs, *extra))
    total: Any = sum((y * w).sum() for w, y in enumerate(made, 1) if isinstance(y, pdl.Tensor) and y.requires_grad)
    if isinstance(total, pdl.Tensor):
        total.backward()
    values = [np.asarray(y.detach().numpy() if isinstance(y, pdl.Tensor) else y) for y in made]
    return values, [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in xs]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [x for v in value.values() for x in _flat(v)]
    if isinstance(value, list | tuple):
        return [x for v in value for x in _flat(v)]
    return [] if value is None else [value]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


UP, DOWN, FLAT = f32(1, 2, 3), f32(-1, -2, -3), f32(-0.5, 0, 0.5)
EACH = (UP, DOWN, FLAT)


def test_if_elif_else() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 1:
            y = x * 2
        elif x.sum() < -1:
            y = x * x
            x = x - 1
        else:
            y = pdl.exp(x)
        return y + x

    program = same(f, *EACH).program(pdl.tensor(UP))
    assert [type(n.op).__name__ for n in program.nodes].count("Cond") == 1


def test_if_without_else_and_nested() -> None:
    def f(x: Any) -> Any:
        y = x
        if x.max() > 0:
            if x.min() > 0:
                y = y * 3
            y = y + 1
        return y

    same(f, *EACH)


def test_plain_condition_stays_python() -> None:
    def f(x: Any, double: bool) -> Any:
        if double:
            x = x * 2
        return x

    for double in (True, False):
        program = same(f, UP, extra=(double,)).program(pdl.tensor(UP), double)
        assert [type(n.op).__name__ for n in program.nodes] == ["Multiply"] * double


def test_while() -> None:
    def f(x: Any) -> Any:
        n = 0
        while x.sum() < 20:
            x = x * 1.5 + 1
            n += 1
        return x, n

    same(f, *EACH, f32(9, 9, 9))


def test_while_on_plain_values_is_unrolled() -> None:
    def f(x: Any) -> Any:
        n = 0
        while n < 3:
            x = x * x
            n += 1
        return x

    program = same(f, UP).program(pdl.tensor(UP))
    assert [type(n.op).__name__ for n in program.nodes] == ["Multiply"] * 3


def test_for_over_range() -> None:
    def f(x: Any) -> Any:
        y = x
        for i in range(3):
            y = y * x + i
        return y

    same(f, *EACH)


def test_for_over_range_of_a_tensor() -> None:
    def f(x: Any, n: Any) -> Any:
        y = x
        for i in range(n):
            y = y * 0.5 + x * i
        for i in range(n, 0, -2):
            y = y + i
        for i in range(1, n):
            y = y - x / i
        return y

    same(f, *((x, np.array(n)) for x in EACH for n in (0, 1, 4)))


def test_for_over_a_tensor() -> None:
    def f(x: Any) -> Any:
        total = x[0] * 0
        for row in x:
            if row.sum() > 0:
                total = total + row * row
        return total

    same(f, np.stack(EACH))


def test_for_enumerate_and_zip() -> None:
    def f(x: Any, n: Any) -> Any:
        y = x * 0
        for i, (a, b) in enumerate(zip(x, [1.0, 2.0, 3.0], strict=True)):
            if a > 0:
                y = y + a * b * i
        for i, (k, row) in enumerate(zip(range(n), x, strict=False), 2):
            y = y + row * k * i
        for i, k in enumerate(range(n)):
            y = y * 0.9 + i * k
        return y

    same(f, *((x, np.array(n)) for x in EACH for n in (0, 2, 7)))


def test_break_and_continue() -> None:
    def f(x: Any) -> Any:
        y = x
        n = 0
        while n < 10:
            n = n + 1
            if y.sum() > 30:
                break
            y = y + 1
            if y.min() < 0:
                continue
            y = y * 2
        return y, n

    same(f, *EACH)


def test_break_and_continue_in_for() -> None:
    def f(x: Any) -> Any:
        y = x * 0
        last = -1
        for i, v in enumerate(x):
            if v > 2:
                break
            if v < -1:
                continue
            y = y + v * v
            last = i
        else:
            y = y + 100
        return y, last

    same(f, *EACH)


def test_tensor_loop_with_break_and_else() -> None:
    def f(x: Any, n: Any) -> Any:
        for i in range(n):
            x = x * 1.1
            if x.sum() > 8:
                break
            if x.sum() < 0:
                continue
            x = x + 0.1 * i
        else:
            x = x - 1
        return x

    same(f, *((x, np.array(n)) for x in EACH for n in (0, 1, 5)))


def test_while_true_until_a_tensor_says_stop() -> None:
    def f(x: Any) -> Any:
        while True:
            x = x * x + 1
            if x.max() > 50:
                break
        return x

    same(f, *EACH)


def test_early_return() -> None:
    def f(x: Any) -> Any:
        if x.min() > 0:
            return x * 2
        y = x - 1
        if y.max() < 0:
            return y * y
        elif y.sum() > 100:
            return y
        y = y + x
        return y * x

    same(f, *EACH)


def test_return_inside_loops() -> None:
    def f(x: Any, n: Any) -> Any:
        for i in range(3):
            if x.sum() > 5 + i:
                return x * i
            x = x + 1
        while x.sum() < 100:
            x = x * 2
            if x.min() < -40:
                return x - 1
            for k in range(n):
                x = x + k
                if x.max() > 60:
                    return x / 2
        return x

    same(f, *((x, np.array(n)) for x in EACH for n in (0, 3)))


def test_return_of_several_values() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x, {"scaled": x * 2, "n": 1}
        return -x, {"scaled": x * 3, "n": 2}

    same(f, *EACH)


def test_arithmetic_operators() -> None:
    def f(x: Any) -> Any:
        y = -x + 2 - x * 3 / 2 + x**2 - (-x)
        z = abs(x) // 2 + x % 3
        z += x @ x
        y -= 1
        y *= x
        return y, z, x >= 0, x == 1, x != 1, x <= 2, x < 2

    same(f, UP + 0.25, DOWN - 0.25)


def test_and_or_not() -> None:
    def f(x: Any, flag: bool) -> Any:
        if x.sum() > 0 and x.max() > 2 and flag:
            x = x * 2
        if x.min() < -1 or not x.sum() > 0:
            x = x + 1
        if not (flag and x.min() < 0) or False:
            x = x * 3
        return x if flag or x.sum() > 2 else -x

    same(f, *EACH, extra=(True,))
    same(f, *EACH, extra=(False,))


def test_and_does_not_ask_what_python_would_not() -> None:
    def f(x: Any, i: Any) -> Any:
        if i < 3 and x[i] > 0:
            return x * 2
        if i >= 3 or x[i] < -1:
            return x * 3
        return x

    same(f, *((x, np.array(i)) for x in EACH for i in (0, 1, 2, 3, 100)))


def test_chained_comparison() -> None:
    calls = []

    @jit.not_to_static
    def count() -> None:
        calls.append(1)

    def middle(x: Any) -> Any:
        count()
        return x.sum()

    def f(x: Any) -> Any:
        if -2 < middle(x) <= 5 < x.size + 10:
            return x * 2
        return x * 3

    same(f, *EACH)
    assert len(calls) == 3 + 1, "once for each eager run, once for the trace"


def test_conditional_expression() -> None:
    def f(x: Any) -> Any:
        y = x * 2 if x.sum() > 0 else x * x if x.sum() < -3 else 1 - x
        return y * (2 if x.max() > 1 else 3)

    same(f, *EACH)


def test_casts() -> None:
    def f(x: Any) -> Any:
        n = int(x.sum())
        scale = float(x.max())
        big = bool(x.sum() > 2)
        if n > 2:
            x = x * n
        if big:
            x = x + 1
        return x * scale + x.mean().item()

    same(f, *EACH)


def test_shape_and_len() -> None:
    def f(x: Any) -> Any:
        rows, columns = x.shape
        for i in range(len(x)):
            if x[i].sum() > 0:
                x = x * (rows + columns + len(x.shape))
        return x.reshape(columns, -1), x.ndim, x.size

    same(f, np.stack([UP, DOWN]), np.stack([DOWN, DOWN]))


def test_isinstance() -> None:
    def f(x: Any, other: Any) -> Any:
        if isinstance(x, pdl.Tensor) and not isinstance(other, pdl.Tensor):
            return x * other
        return x

    same(f, UP, extra=(3,))


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("start", 3)  # noqa: T201
        if x.sum() > 0:
            print("sum", x.sum(), "up", sep="|")  # noqa: T201
        else:
            print(x.sum(), end="!\n")  # noqa: T201
        return x * 2

    printed = []
    static = jit.to_static(f)
    for function in (f, static, static):
        for case in EACH:
            x = pdl.tensor(case, requires_grad=True)
            function(x).sum().backward()
        printed.append(capsys.readouterr().out.replace(", made_by=Sum", ""))
    assert printed[0] == printed[1] == printed[2], "the gradient prints nothing again"


def test_assert() -> None:
    def f(x: Any) -> Any:
        assert x.ndim == 1
        if x.sum() > 0:
            assert x.max() > 2, f"no large value among {len(x)}"
        return x * 2

    same(f, *EACH)
    for function in (f, jit.to_static(f)):
        with pytest.raises(AssertionError, match="no large value among 3"):
            function(pdl.tensor(f32(1, 1, 1)))


def test_assert_names_its_line() -> None:
    @jit.to_static
    def f(x: Any) -> Any:
        assert x.min() > 0
        return x

    with pytest.raises(AssertionError, match=r"test_constructs.py:\d+: assert x.min\(\) > 0"):
        f(pdl.tensor(DOWN))


def helper(x: Any, factor: float = 2.0, *rest: Any, shift: float = 0.0) -> Any:
    if x.sum() > 0:
        return x * factor
    for r in rest:
        x = x * r
    return x + shift


def test_calls_of_user_functions() -> None:
    def f(x: Any) -> Any:
        if x.max() > 0:
            return helper(x, 3.0) + helper(-x)
        return helper(x, 3.0, 4.0, shift=1.0)

    same(f, *EACH)


def test_lambda_and_closure() -> None:
    scale = 3.0

    def f(x: Any) -> Any:
        bend = lambda v: v * scale if v.sum() > 0 else -v  # noqa: E731

        def count(v: Any, start: int = 1) -> Any:
            n = start
            while v.sum() > n:
                n = n + 1
            return n

        return bend(x) * count(x), sorted([3, 1, 2], key=lambda v: -v)

    same(f, *EACH)


def test_functions_inside_write_variables() -> None:
    def f(x: Any) -> Any:
        total = x * 0

        def add(v: Any) -> None:
            nonlocal total
            if v.sum() > 0:
                total = total + v

        for i in range(3):
            add(x - i)
        if x.sum() > 1:
            add(x)
        return total

    same(f, *EACH)


def decorated(function: Any) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        y = function(*args, **kwargs)
        return y if y.sum() > 0 else -y

    return wrapper


@decorated
def wrapped(x: Any) -> Any:
    return x * 2 if x.max() > 1 else x * 3


def test_decorators() -> None:
    same(lambda x: wrapped(x), *EACH)


def test_list_append_and_pop() -> None:
    def f(x: Any) -> Any:
        out = []
        for i in range(4):
            if x.sum() > i:
                out.append(x * i)
            else:
                out.append(x - i)
        first = out.pop(0)
        if x.max() > 0:
            out[0] = out[0] * 2
            out[-1] = first
        return pdl.stack(out), first

    same(f, *EACH)


def test_list_as_state_of_a_loop() -> None:
    def f(x: Any) -> Any:
        state = [x, x * 2]
        pair = (x, 1)
        while state[0].sum() < 40 and pair[1] < 9:
            state[0] = state[0] + state[1]
            state[1] = state[1] * 0.5 + 1
            pair = (pair[0] * 1.5, pair[1] + 1)
        state = [s * 2 for s in state]
        return state, pair

    same(f, *EACH)


def test_dict() -> None:
    def f(x: Any) -> Any:
        out = {"a": x, "n": 0}
        if x.sum() > 0:
            out["a"] = x * 2
            out["b"] = x * 3
        else:
            out["b"] = x - 1
            out["n"] += 1
        for k in ("a", "b"):
            out[k] = out[k] * 2
        return out

    same(f, *EACH)


def test_plain_attributes_and_fstrings() -> None:
    class Box:
        scale = 2.0

    def f(x: Any) -> Any:
        box = Box()
        name = f"{box.scale}:{x.shape}"
        if name == "2.0:(3,)" and x.sum() > 0:
            return x * box.scale
        return x

    same(f, *EACH)


def test_with_no_grad() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            with pdl.no_grad():
                y = x * 2
        else:
            y = x * 3
        with pdl.no_grad():
            if x.max() > 0:
                return x * y.detach()
        return x * y

    same(f, *EACH)


def test_try_outside_of_tensor_conditions() -> None:
    def f(x: Any) -> Any:
        try:
            if x.sum() > 0:
                y = x * 2
            else:
                y = x * 3
            missing = {}["nothing"]
        except KeyError:
            missing = 4
        finally:
            x = x + 1
        return y * missing + x

    same(f, *EACH)


def test_walrus() -> None:
    def f(x: Any) -> Any:
        if (s := x.sum()) > 0:
            x = x * s
        while (m := x.max()) < 20:
            x = x + m * m + 1
        return x + s + m

    same(f, *EACH)


def test_match() -> None:
    def f(x: Any, mode: str) -> Any:
        match mode:
            case "double":
                if x.sum() > 0:
                    return x * 2
            case other:
                x = x + len(other)
        return x

    for mode in ("double", "shift"):
        same(f, *EACH, extra=(mode,))


def test_defaults_keywords_and_star_arguments() -> None:
    def f(x: Any, *more: Any, scale: float = 2.0, **named: Any) -> Any:
        for m in more:
            if m.sum() > 0:
                x = x + m * scale
        return x * named.get("last", 1)

    same(f, (UP, DOWN, FLAT), (DOWN, UP, UP))
    static = jit.to_static(f)
    x = pdl.tensor(UP)
    np.testing.assert_array_equal(static(x, x, scale=3.0, last=2).numpy(), f(x, x, scale=3.0, last=2).numpy())


def test_min_max_all_any() -> None:
    def f(x: Any) -> Any:
        y = max(x.sum(), x[0] * 2) + min(x[0], x[1], 0.5)
        if any(v > 1 for v in x) or all([v < 0 for v in x]):  # noqa: C419 - a list
            y = y * 2
        return y

    same(f, *EACH)


def test_a_number_in_one_branch_and_a_tensor_in_the_other() -> None:
    def f(x: Any) -> Any:
        s = 0
        if x.sum() > 0:
            s = x.sum()
        while s < 10:
            s = s + 2.5
        return s

    same(f, *EACH)


class Gate(pdl.nn.Module):
    def __init__(self) -> None:
        self.a = pdl.nn.Linear(3, 3)
        self.b = pdl.nn.Linear(3, 3)
        self.limit = 2

    def pick(self, x: Any) -> Any:
        if x.sum() > 0:
            return self.a(x)
        return self.b(x)

    def forward(self, x: Any) -> Any:
        for _ in range(self.limit):
            x = self.pick(x)
        return x


class Deep(Gate):
    def __init__(self) -> None:
        super().__init__()
        self.body = pdl.nn.Sequential(Gate(), pdl.nn.ReLU(), Gate())

    def forward(self, x: Any) -> Any:
        if self.training and x.max() > 0:
            return super().forward(x) * 2
        return self.body(super().forward(x))


@pytest.mark.parametrize("training", [True, False])
def test_modules_methods_and_super(training: bool) -> None:
    pdl.seed(0)
    plain, static = Deep().train(training), Deep().train(training)
    static.load_state_dict(plain.state_dict())
    assert jit.to_static(static) is static
    for case in EACH:
        x, y = (pdl.tensor(case[None], requires_grad=True) for _ in range(2))
        a, b = plain(x), static(y)
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), atol=1e-6)
        a.sum().backward()
        b.sum().backward()
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), atol=1e-6)
        for p, q in zip(plain.parameters(), static.parameters(), strict=True):
            g = np.zeros(p.shape) if p.grad is None else p.grad.numpy()
            np.testing.assert_allclose(np.zeros(q.shape) if q.grad is None else q.grad.numpy(), g, atol=1e-6)
        plain.zero_grad()
        static.zero_grad()
