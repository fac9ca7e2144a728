"""`Tensor`: a NumPy array with the node of the tape that made it.

Only the object lives here. Its arithmetic is bound by `pdl.ops.methods`, its `backward` by `pdl.autograd`, so that this
file stands below both.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, SupportsFloat, TypeAlias

import numpy as np

from pdl import habits
from pdl.dtype import Array, DType, as_dtype, is_differentiable, of_scalar
from pdl.errors import DtypeError, GradientError, ShapeError, SharingError, UsageError
from pdl.exchange import CPU, as_device, exported, imported

Scalar: TypeAlias = bool | int | float | complex
Sizes: TypeAlias = "int | Sequence[int]"
Axes: TypeAlias = "int | Sequence[int] | None"
Hook: TypeAlias = "Callable[[Tensor], Tensor | None]"


class _Mode(threading.local):
    enabled = True


_GradMode = _Mode()  # each thread has its own: evaluating in one does not switch off recording in another


class _TraceMode(threading.local):
    recorder: Any = None  # the pdl.program.tracing.Recorder at work in this thread


_Tracing = _TraceMode()


class _Casting(threading.local):
    active: Any = None  # what `pdl.autocast` does to the inputs of ops: a `pdl.ops.precision.Casting`, or None


_Autocast = _Casting()


class _Narrowing(threading.local):
    """Casts to a narrower float without NumPy's warning, for what is too large is infinite there; one context a thread,
    entered in a fraction of the time that `np.errstate` takes."""

    def __init__(self) -> None:
        context = copy_context()
        context.run(np.seterr, over="ignore")
        self.run = context.run


_narrowing = _Narrowing()


@contextmanager
def casting(active: Any) -> Iterator[None]:
    """Inputs of ops are cast by `active` inside the block (None: not at all)."""
    before, _Autocast.active = _Autocast.active, active
    try:
        yield
    finally:
        _Autocast.active = before


def is_grad_enabled() -> bool:
    """True where ops record what they need for gradients."""
    return _GradMode.enabled


@contextmanager
def set_grad_enabled(mode: bool) -> Iterator[None]:
    """Record (or do not record) gradients inside the block."""
    before, _GradMode.enabled = _GradMode.enabled, mode
    try:
        yield
    finally:
        _GradMode.enabled = before


def no_grad(function: Callable[..., Any] | None = None) -> Any:
    """Inside ``with no_grad():``, or under ``@no_grad()`` or ``@no_grad``, nothing is recorded for gradients."""
    return set_grad_enabled(False) if function is None else set_grad_enabled(False)(function)


class HookHandle:
    """Returned by `register_hook` and the like; `remove()` takes the hook off again."""

    def __init__(self, remove: Callable[[], object]) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        self._remove()


class TapeNode(Protocol):
    """The op on the tape that made a tensor, as the tensor knows it: `pdl.autograd.tape.Node`."""

    op: Any
    order: int
    inputs: tuple[Tensor | None, ...] | None
    outputs: tuple[Array, ...]
    where: str | None

    def hooks_of(self, index: int) -> list[Hook]:
        """The hooks on output `index`."""

    def parents(self) -> Iterable[Tensor]:
        """The inputs that gradients flow to."""

    def vjp(self, grads: list[Tensor | None]) -> list[tuple[Tensor, Tensor]]:
        """Gradients of the inputs from those of the outputs."""


#: versions of the array API standard that `Tensor.__array_namespace__` answers to
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
TensorLike: TypeAlias = "Tensor | Array | Scalar | list[Any] | tuple[Any, ...] | SupportsFloat"


if TYPE_CHECKING:

    class _Methods:
        """Bound by pdl.ops.methods and pdl.autograd."""

        def backward(
            self, grad: Tensor | None = None, *, retain_graph: bool = False, create_graph: bool = False
        ) -> None:
            """Add the gradient of this tensor to `grad` of every leaf: `pdl.autograd.backward`."""

        T: Tensor
        mT: Tensor

        def abs(self) -> Tensor: ...
        def all(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
        def any(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
        def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor: ...
        def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor: ...
        def astype(self, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor: ...
        def broadcast_to(self, shape: Sequence[int]) -> Tensor: ...
        def ceil(self) -> Tensor: ...
        def chunk(self, chunks: int, axis: int = 0) -> tuple[Tensor, ...]: ...
        def clip(self, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor: ...
        def clone(self) -> Tensor: ...
        def conj(self) -> Tensor: ...
        def cos(self) -> Tensor: ...
        def cumprod(self, axis: int = -1) -> Tensor: ...
        def cumsum(self, axis: int = -1) -> Tensor: ...
        def diagonal(self, *, offset: int = 0) -> Tensor: ...
        def erf(self) -> Tensor: ...
        def exp(self) -> Tensor: ...
        def expand_dims(self, axis: Sizes = 0) -> Tensor: ...
        def flatten(self, start: int = 0, end: int = -1) -> Tensor: ...
        def flip(self, axis: Axes = None) -> Tensor: ...
        def floor(self) -> Tensor: ...
        def gather(self, indices: TensorLike, *, axis: int = -1) -> Tensor: ...
        def imag(self) -> Tensor: ...
        def isfinite(self) -> Tensor: ...
        def isinf(self) -> Tensor: ...
        def isnan(self) -> Tensor: ...
        def log(self) -> Tensor: ...
        def log1p(self) -> Tensor: ...
        def logsumexp(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
        def matmul(self, b: TensorLike) -> Tensor: ...
        def max(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
        def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
        def min(self, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
        def moveaxis(self, source: Sizes, destination: Sizes) -> Tensor: ...
        def norm(self, axis: Axes = None, *, ord: float = 2, keepdims: bool = False) -> Tensor: ...
        def permute_dims(self, *axes: Sizes) -> Tensor: ...
        def pow(self, b: TensorLike) -> Tensor: ...
        def prod(self, axis: Axes = None, *, keepdims: bool = False, dtype: Any = None) -> Tensor: ...
        def real(self) -> Tensor: ...
        def reciprocal(self) -> Tensor: ...
        def repeat(self, repeats: TensorLike, axis: int | None = None) -> Tensor: ...
        def reshape(self, *sizes: Sizes) -> Tensor: ...
        def roll(self, shift: Sizes, axis: Axes = None) -> Tensor: ...
        def round(self) -> Tensor: ...
        def rsqrt(self) -> Tensor: ...
        def scatter(self, indices: TensorLike, updates: TensorLike, *, axis: int = -1) -> Tensor: ...
        def scatter_add(self, indices: TensorLike, updates: TensorLike, *, axis: int = -1) -> Tensor: ...
        def sign(self) -> Tensor: ...
        def sin(self) -> Tensor: ...
        def split(self, sections: Sizes, axis: int = 0) -> tuple[Tensor, ...]: ...
        def sqrt(self) -> Tensor: ...
        def square(self) -> Tensor: ...
        def squeeze(self, axis: Axes = None) -> Tensor: ...
        def std(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor: ...
        def sum(self, axis: Axes = None, *, keepdims: bool = False, dtype: Any = None) -> Tensor: ...
        def swapaxes(self, axis1: int, axis2: int) -> Tensor: ...
        def take(self, indices: TensorLike, axis: int | None = 0) -> Tensor: ...
        def tanh(self) -> Tensor: ...
        def tile(self, repetitions: Sizes) -> Tensor: ...
        def to(self, dtype: Any) -> Tensor: ...
        def trace(self, *, offset: int = 0, dtype: Any = None) -> Tensor: ...
        def trunc(self) -> Tensor: ...
        def unstack(self, axis: int = 0) -> tuple[Tensor, ...]: ...
        def var(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __add__(self, other: TensorLike) -> Tensor: ...
        def __radd__(self, other: TensorLike) -> Tensor: ...
        def __sub__(self, other: TensorLike) -> Tensor: ...
        def __rsub__(self, other: TensorLike) -> Tensor: ...
        def __mul__(self, other: TensorLike) -> Tensor: ...
        def __rmul__(self, other: TensorLike) -> Tensor: ...
        def __truediv__(self, other: TensorLike) -> Tensor: ...
        def __rtruediv__(self, other: TensorLike) -> Tensor: ...
        def __pow__(self, other: TensorLike) -> Tensor: ...
        def __rpow__(self, other: TensorLike) -> Tensor: ...
        def __matmul__(self, other: TensorLike) -> Tensor: ...
        def __pos__(self) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __lt__(self, other: TensorLike) -> Tensor: ...
        def __le__(self, other: TensorLike) -> Tensor: ...
        def __gt__(self, other: TensorLike) -> Tensor: ...
        def __ge__(self, other: TensorLike) -> Tensor: ...
        def __floordiv__(self, other: TensorLike) -> Tensor: ...
        def __mod__(self, other: TensorLike) -> Tensor: ...
        def __and__(self, other: TensorLike) -> Tensor: ...
        def __or__(self, other: TensorLike) -> Tensor: ...
        def __xor__(self, other: TensorLike) -> Tensor: ...
        def __lshift__(self, other: TensorLike) -> Tensor: ...
        def __rshift__(self, other: TensorLike) -> Tensor: ...
        def __rand__(self, other: TensorLike) -> Tensor: ...
        def __ror__(self, other: TensorLike) -> Tensor: ...
        def __rxor__(self, other: TensorLike) -> Tensor: ...
        def __rlshift__(self, other: TensorLike) -> Tensor: ...
        def __rrshift__(self, other: TensorLike) -> Tensor: ...
        def __rfloordiv__(self, other: TensorLike) -> Tensor: ...
        def __rmod__(self, other: TensorLike) -> Tensor: ...
        def __rmatmul__(self, other: TensorLike) -> Tensor: ...

else:
    _Methods = object


class Tensor(_Methods):
    """A multi-dimensional array with an optional gradient.

    Parameters: `data` (array, scalar or nested lists; Python floats become float32, ints int64), `dtype` (any of
    `pdl.dtype.ALL`), `requires_grad` (float and complex dtypes only).

    `grad` holds the gradient after `backward()`. Tensors are immutable in the graph: ``x += y`` makes a new tensor, and
    ``x[...] = v`` is allowed only where no gradient flows.
    """

    __slots__ = ("__weakref__", "_data", "_hooks", "_index", "_node", "_requires_grad", "grad")
    __array_priority__ = 1000  # so that ndarray + Tensor asks Tensor

    def __init__(self, data: TensorLike, *, dtype: Any = None, requires_grad: bool = False) -> None:
        self._data = _as_array(data, None if dtype is None else as_dtype(dtype))
        self._node: TapeNode | None = None
        self._index = 0
        self._hooks: list[Hook] | None = None
        self.grad: Tensor | None = None
        self._requires_grad = False
        self.requires_grad = requires_grad

    @classmethod
    def _wrap(cls, data: Array, node: TapeNode | None = None, index: int = 0) -> Tensor:
        """A tensor around an array, without copy or check; `node` says which op made it."""
        self = cls.__new__(Tensor)
        self._data = data
        self._node = node
        self._index = index
        self._hooks = None
        self.grad = None
        self._requires_grad = node is not None
        return self

    # -- what it is ------------------------------------------------------------------------------------------------
    @property
    def data(self) -> Array:
        """The values, as the NumPy array itself (no copy).

        Everything that hands values to Python (`item`, `numpy`, `float`, `np.asarray`, ...) reads them here, so that a
        trace refuses those that its program would not follow.
        """
        if _Tracing.recorder is not None:
            _Tracing.recorder.check_read(self)
        return self._data

    @data.setter
    def data(self, value: Array) -> None:
        if _Tracing.recorder is not None:
            _Tracing.recorder.check_write(self)
        if self._node is not None:
            raise GradientError("cannot replace the data of a tensor that an op made; use x.detach() first")
        if value.shape != self._data.shape:
            raise ShapeError(f"data of shape {value.shape} cannot replace data of shape {self._data.shape}")
        self._data = value

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dimensions."""
        return self._data.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def device(self) -> str:
        """ "cpu", where all tensors are."""
        return CPU

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to this tensor."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not is_differentiable(self._data.dtype):
            raise GradientError(f"only float and complex tensors carry gradients, this one is {self._data.dtype}")
        if not value and self._node is not None:
            raise GradientError("this tensor is the result of an op; use x.detach() to leave the graph")
        self._requires_grad = value

    @property
    def is_leaf(self) -> bool:
        """True where no recorded op made this tensor: `backward()` stores gradients in leaves."""
        return self._node is None

    # -- leaving the graph -----------------------------------------------------------------------------------------
    def detach(self) -> Tensor:
        """The same values, outside the graph."""
        if _Tracing.recorder is not None:
            return _Tracing.recorder.detach(self)  # type: ignore[no-any-return]
        return Tensor._wrap(self._data)

    def numpy(self) -> Array:
        """The values as a NumPy array (shared memory); refuses where a gradient would silently be lost."""
        if self._requires_grad:
            raise GradientError("this tensor carries a gradient; use x.detach().numpy()")
        return self.data

    def item(self) -> Any:
        """The only element, as a Python scalar."""
        if self._data.size != 1:
            raise ShapeError(f"item() needs one element, this tensor has {self._data.size} (shape {self.shape})")
        return self.data.item()

    def tolist(self) -> Any:
        """The values as nested Python lists."""
        return self.data.tolist()

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The tensor itself: there is one device, "cpu"."""
        as_device("to_device", device)
        if stream is not None:
            raise UsageError(f"to_device: the CPU has no streams, got stream={stream!r}")
        return self

    def register_hook(self, hook: Hook) -> HookHandle:
        """Call ``hook(gradient)`` when this tensor's gradient is known; a returned tensor replaces it."""
        if not self._requires_grad:
            raise GradientError("a hook on a tensor that requires no gradient would never run")
        if self._node is not None:
            hooks = self._node.hooks_of(self._index)
        else:
            hooks = self._hooks = [] if self._hooks is None else self._hooks
        hooks.append(hook)

        def remove() -> None:
            if hook in hooks:
                hooks.remove(hook)

        return HookHandle(remove)

    # -- Python protocols ------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        if not self._data.ndim:
            raise ShapeError("a tensor without dimensions has no length")
        return self._data.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ShapeError(f"the truth of a tensor of shape {self.shape} is ambiguous; use pdl.any or pdl.all")
        return bool(self.data)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return int(self.data.__index__())

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The module `pdl`, which follows the array API standard in the versions of `API_VERSIONS`."""
        if api_version not in (None, *API_VERSIONS):
            raise UsageError(f"array API version {api_version!r}; pdl follows {', '.join(API_VERSIONS)}")
        return sys.modules["pdl"]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the values, in shared memory unless `copy`; SharingError where a gradient would be lost,
        and where values cannot be written and the capsule could not say so (before DLPack 1.0)."""
        if self._requires_grad:
            raise SharingError("this tensor carries a gradient; export x.detach()")
        how = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        try:
            return exported(self.data, how)
        except (BufferError, ValueError) as error:
            raise SharingError(f"__dlpack__: {error}") from error

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's type and number of the device: (1, 0), the CPU."""
        return (1, 0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        body = np.array2string(self._data, separator=", ", prefix="tensor(", threshold=100, precision=4)
        made_by = f", made_by={type(self._node.op).__name__}" if self._node is not None else ""
        grad = ", requires_grad=True" if self._requires_grad and self._node is None else ""
        return f"tensor({body}, dtype={self.dtype.name}{grad}{made_by})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"a tensor has no attribute {name!r}")
            meant = habits.TENSOR.get(name)
            base = name.removesuffix("_")
            if meant is None and base != name and (base in habits.TENSOR or hasattr(Tensor, base)):
                meant = "x = ... (tensors are not changed in place)"
            raise habits.Missing("a tensor", name, lambda: dir(Tensor), meant)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._requires_grad:
            raise GradientError("cannot assign into a tensor that carries a gradient; use pdl.where or pdl.scatter")
        if _Tracing.recorder is not None:
            _Tracing.recorder.check_write(self)
        self._data[_plain_key(key)] = value.data if isinstance(value, Tensor) else value


def tensor(data: TensorLike, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Make a tensor from an array (copied), a scalar or nested lists."""
    made = Tensor(data, dtype=dtype, requires_grad=requires_grad)
    if isinstance(data, np.ndarray | Tensor) and np.may_share_memory(made._data, np.asarray(_plain_key(data))):
        made._data = made._data.copy()
    return made


def as_tensor(data: TensorLike, *, beside: DType | None = None) -> Tensor:
    """`data` itself if it is a tensor, else a tensor around it (arrays shared); scalars take the dtype `beside`."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, bool | int | float | complex):
        return Tensor._wrap(np.asarray(data, dtype=of_scalar(data, beside)))
    return Tensor(data)


def _as_array(data: Any, dtype: DType | None) -> Array:
    if isinstance(data, Tensor):
        data = data.data
    if not isinstance(data, np.ndarray | np.generic):
        data = _from_python(data, dtype)
    array = np.asarray(data) if dtype is None or data.dtype == dtype else _converted(data, dtype)
    as_dtype(array.dtype)
    return array


def _from_python(data: Any, dtype: DType | None) -> Array:
    """Nested lists and scalars: float64 and complex128 are only NumPy's habit there, so take float32 and complex64,
    unless a dtype is given."""
    if isinstance(data, list | tuple):
        if data and all(isinstance(x, Tensor) for x in data):
            return np.stack([x.numpy() for x in data])
    elif hasattr(data, "__dlpack__"):
        return imported(data)
    if dtype is not None:
        return _converted(data, dtype)
    array = np.asarray(data)
    narrow = {np.dtype(np.float64): np.float32, np.dtype(np.complex128): np.complex64}.get(array.dtype)
    return _narrowing.run(array.astype, narrow) if narrow is not None and not hasattr(data, "__array__") else array


def _converted(data: Any, dtype: Any) -> Array:
    """`data` in a dtype: arrays as C converts them, Python's numbers only where they fit."""
    try:
        with np.errstate(all="ignore"):  # too large for a float is infinite
            return np.asarray(data, dtype=dtype)
    except (OverflowError, TypeError) as error:
        raise DtypeError(f"a value does not fit {np.dtype(dtype).name}: {error}; choose another dtype") from error


def _plain_key(key: Any) -> Any:
    """An index with its tensors replaced by arrays."""
    if isinstance(key, Tensor):
        return key.data
    return tuple(_plain_key(k) for k in key) if isinstance(key, tuple) else key
