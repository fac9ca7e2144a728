"""`Case`: one line of a table of ops. A case is a public function, its inputs, its arguments and a NumPy reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from pdl.dtype import Array, complex_of, is_differentiable
from pdl.program import Program, trace
from pdl.tensor import Tensor

Draw: TypeAlias = "Callable[..., Array]"


def draws(seed: int) -> tuple[Draw, Draw]:
    """Makers of float64 inputs, ``f(*shape)`` in [-1, 1), and of int64 inputs, ``i(*shape, high=5, low=0)``, from a
    generator of their own: a case that is added later moves no number of the others, and puts none near a kink."""
    rng = np.random.default_rng(seed)

    def floats(*shape: int) -> Array:
        return rng.uniform(-1.0, 1.0, shape)

    def integers(*shape: int, high: int = 5, low: int = 0) -> Array:
        return rng.integers(low, high, shape)

    return floats, integers


@dataclass
class Case:
    """``function(*inputs, **kwargs)`` must equal ``reference(*inputs, **kwargs)`` (NumPy, float64).

    `inputs` are arrays (None for an absent optional one); `inputs_as_list` passes them as one list (concat, stack).
    `differentiable`: which outputs carry the gradient of the float and complex inputs (default: every float and complex
    one; () if none does). `grad`: which inputs are checked against finite differences (default: every float and complex
    one; () where differences take too long or say nothing); `second`: also to second order. `float32`, `bf16`:
    tolerances of the comparison with float64, of values and gradients, None to skip with a reason in `why`.
    `untraceable`: how the error begins with which tracing refuses the case.
    """

    function: Callable[..., Any]
    inputs: Sequence[Array | None]
    reference: Callable[..., Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    differentiable: Sequence[int] | None = None
    grad: Sequence[int] | None = None
    second: bool = True
    atol: float = 1e-10
    float32: float | None = 1e-5
    bf16: float | None = 4e-2
    inputs_as_list: bool = False
    untraceable: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if (self.float32 is None or self.bf16 is None) and not self.why:
            raise ValueError(f"{self.id}: a dtype is left out without a reason in `why`")

    @property
    def floating(self) -> bool:
        """Whether an input is real and floating: such a case also runs in float32 and bfloat16."""
        return any(x is not None and x.dtype.kind == "f" for x in self.inputs)

    @property
    def id(self) -> str:
        """The test id: function, shapes, arguments."""
        shapes = ",".join("-" if x is None else "x".join(map(str, x.shape)) or "()" for x in self.inputs)
        args = ",".join(f"{k}={v}" for k, v in self.kwargs.items())
        return f"{self.function.__name__}({shapes}{';' if args else ''}{args})"

    def call(self, *tensors: Tensor | None) -> Any:
        """The function on tensors."""
        inputs = [list(tensors)] if self.inputs_as_list else tensors
        return self.function(*inputs, **self.kwargs)

    def traced(self, dtype: Any = None) -> Program:
        """The case as a program of all its inputs; raises `TraceError` where it is `untraceable`."""
        tensors = self.tensors(dtype)

        def function(*given: Tensor) -> Any:
            rest = iter(given)
            return self.call(*[None if t is None else next(rest) for t in tensors])

        return trace(function, *[t for t in tensors if t is not None])

    @property
    def learns(self) -> bool:
        """Whether some output carries a gradient of some input."""
        return self.differentiable != () and any(x is not None and x.dtype.kind in "fc" for x in self.inputs)

    def carriers(self, outputs: Sequence[Tensor]) -> list[int]:
        """Which of `outputs` should carry a gradient when every float and complex input requires one."""
        if not self.learns:
            return []
        floating = [number for number, y in enumerate(outputs) if is_differentiable(y.dtype)]
        return floating if self.differentiable is None else list(self.differentiable)

    def expected(self) -> tuple[Array, ...]:
        """The reference's outputs."""
        ins = [None if x is None else x.copy() for x in self.inputs]
        made = self.reference(ins, **self.kwargs) if self.inputs_as_list else self.reference(*ins, **self.kwargs)
        return made if isinstance(made, tuple) else (np.asarray(made),)

    def tensors(self, dtype: Any = None, *, grad: bool = False, every: bool = False) -> list[Tensor | None]:
        """The inputs as tensors; float ones cast to `dtype`, complex ones to its complex partner.

        With `grad` those of the case's `grad` require a gradient, with `every` all that are float or complex.
        """
        made: list[Tensor | None] = []
        wanted = range(len(self.inputs)) if every or self.grad is None else self.grad
        for number, x in enumerate(self.inputs):
            if x is None:
                made.append(None)
                continue
            target = x.dtype if dtype is None or x.dtype.kind not in "fc" else dtype
            if dtype is not None and x.dtype.kind == "c":
                target = complex_of(np.dtype(dtype))
            made.append(Tensor(x.astype(target), requires_grad=grad and number in wanted and x.dtype.kind in "fc"))
        return made


def forward(*args: Any, **options: Any) -> Case:
    """A case of an op without a gradient."""
    return Case(*args, **options | {"differentiable": ()})
