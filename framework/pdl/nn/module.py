"""`Module`: a function with parameters, made of other modules.

There is no registry besides the attributes: a `Parameter`, a `Buffer` or a `Module` that is set on a module is found in
the instance's `__dict__`, in the order of setting. Reading one costs an ordinary attribute access.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, ParamSpec, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from pdl.dtype import Array, as_dtype, bfloat16, float32, is_floating
from pdl.errors import UsageError
from pdl.hints import part
from pdl.tensor import HookHandle, Tensor, TensorLike, _Tracing, no_grad

ForwardHook: TypeAlias = "Callable[[Module, tuple[Any, ...], Any], Any]"
PreHook: TypeAlias = "Callable[[Module, tuple[Any, ...]], Any]"


class Parameter(Tensor):
    """A tensor that is learned: `Module.parameters()` finds these. Owns a contiguous, writable array."""

    __slots__ = ()

    def __init__(self, data: TensorLike, *, dtype: Any = None, requires_grad: bool = True) -> None:
        super().__init__(data, dtype=dtype, requires_grad=requires_grad)
        self._data = _owned(self._data)


class Table(Parameter):
    """A parameter [R, C] of which a step uses a few rows, looked up with `sparse`; servers of their own may have them
    (`pdl.distributed.tables`).

    initial   how it was filled: ("normal", mean, std), ("uniform", low, high) or ("constant", value, 0), by the latest
              function of `pdl.nn.init`
    padding   a row that is 0
    family    tables whose families are equal, and not None, are looked up by the same numbers; servers keep their rows
              together
    served    whatever gives its rows where this process does not have them
    """

    __slots__ = ("family", "initial", "padding", "served")

    def __init__(self, data: TensorLike, *, padding: int | None = None) -> None:
        super().__init__(data)
        self.initial: tuple[Any, float, float] = ("constant", 0.0, 0.0)
        self.padding = padding
        self.family: Any = None
        self.served: Any = None


class Buffer(Tensor):
    """A tensor that belongs to a module's state and is not learned, such as a running mean.

    One that is not `persistent` follows `to()` but stays out of `state_dict()`. An `exact` one stays float32 where the
    module becomes bfloat16, because it is a sum of many small steps. Of one that is `per_sample` row i belongs to place
    i of a batch: of processes that share a batch each changes the rows of its own places.
    """

    __slots__ = ("exact", "per_sample", "persistent")

    def __init__(
        self,
        data: TensorLike,
        *,
        dtype: Any = None,
        persistent: bool = True,
        exact: bool = False,
        per_sample: bool = False,
    ) -> None:
        super().__init__(data, dtype=dtype)
        self._data = _owned(self._data)
        self.persistent, self.exact, self.per_sample = persistent, exact, per_sample


class LoadResult(NamedTuple):
    """Names that `load_state_dict(strict=False)` did not find in the state, and names the module has no place for."""

    missing: list[str]
    unexpected: list[str]


P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class _Forward(Protocol[P, R_co]):
    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


class _Call:
    """To type checkers a module has the signature of its `forward`: `net(x)` is what that returns."""

    def __get__(self, instance: _Forward[P, R_co], owner: Any) -> Callable[P, R_co]:
        raise NotImplementedError


@part
class Module:
    """Base class of layers and models: define `forward`, set parameters and submodules as attributes.

        class Net(Module):
            def __init__(self) -> None:
                self.body = Linear(2, 3)

            def forward(self, x: Tensor) -> Tensor:
                return pdl.relu(self.body(x))

    Names and behaviour are PyTorch's. `super().__init__()` may be called and need not be.
    """

    training: bool = True
    #: attributes that `repr` shows
    shown: ClassVar[tuple[str, ...]] = ()
    _forward_hooks: tuple[ForwardHook, ...] = ()
    _forward_pre_hooks: tuple[PreHook, ...] = ()

    # -- calling -------------------------------------------------------------------------------------------------------
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself; called by ``module(...)``."""
        raise UsageError(f"{type(self).__name__} defines no forward()")

    if TYPE_CHECKING:
        __call__: _Call
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            if _Tracing.recorder is not None:
                with _Tracing.recorder.scope(self):
                    return self._call_hooked(args, kwargs)
            if self._forward_hooks or self._forward_pre_hooks:
                return self._call_hooked(args, kwargs)
            return self.forward(*args, **kwargs)

    def _call_hooked(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], forward: Callable[..., Any] | None = None
    ) -> Any:
        for pre in self._forward_pre_hooks:
            changed = pre(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = (forward or self.forward)(*args, **kwargs)
        for hook in self._forward_hooks:
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_hook(self, hook: ForwardHook) -> HookHandle:
        """Call ``hook(module, args, output)`` after every forward; a value other than None replaces the output."""
        return self._hooked("_forward_hooks", hook)

    def register_forward_pre_hook(self, hook: PreHook) -> HookHandle:
        """Call ``hook(module, args)`` before every forward; a value other than None replaces the arguments."""
        return self._hooked("_forward_pre_hooks", hook)

    def _hooked(self, where: str, hook: Any) -> HookHandle:
        setattr(self, where, (*getattr(self, where), hook))
        return HookHandle(lambda: setattr(self, where, tuple(h for h in getattr(self, where) if h is not hook)))

    # -- attributes ----------------------------------------------------------------------------------------------------
    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name)
        if before is not None and isinstance(before, Parameter | Buffer):
            value = _replacement(f"{type(self).__name__}.{name}", before, value)
        elif isinstance(value, list | tuple | dict) and not name.startswith("_"):
            _refuse_hidden(f"{type(self).__name__}.{name}", value)
        object.__setattr__(self, name, value)

    def register_buffer(
        self,
        name: str,
        value: TensorLike | None,
        *,
        persistent: bool = True,
        exact: bool = False,
        per_sample: bool = False,
    ) -> None:
        """``self.name = Buffer(value)``."""
        made = None if value is None else Buffer(value, persistent=persistent, exact=exact, per_sample=per_sample)
        setattr(self, name, made)

    def register_parameter(self, name: str, value: Parameter | None) -> None:
        """``self.name = value``."""
        setattr(self, name, value)

    def add_module(self, name: str, module: Module | None) -> None:
        """``self.name = module``, for names that are not identifiers too."""
        if "." in name or not name:
            raise UsageError(f"{type(self).__name__}: the module name {name!r} must not be empty or contain a dot")
        setattr(self, name, module)

    # -- walking -------------------------------------------------------------------------------------------------------
    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of the direct submodules, each once."""
        seen: set[int] = set()
        for name, value in list(self.__dict__.items()):
            if isinstance(value, Module) and id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once."""
        return (module for _, module in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """(path, module) of this module and all below it, parents first, each once."""
        return ((path, module) for path, module, first in _walk(self, prefix, set()) if first)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix: str = "", *, recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """(path, parameter), each parameter once, under its first name."""
        return _once(_members(self, Parameter, prefix, recurse))

    def parameters(self, *, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter, once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", *, recurse: bool = True) -> Iterator[tuple[str, Buffer]]:
        """(path, buffer), each buffer once."""
        return _once(_members(self, Buffer, prefix, recurse))

    def buffers(self, *, recurse: bool = True) -> Iterator[Buffer]:
        """Every buffer, once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def get_submodule(self, path: str) -> Module:
        """The module at a dotted path; the empty path is this module."""
        found: Any = self
        for name in path.split(".") if path else ():
            found = found.__dict__.get(name)
            if not isinstance(found, Module):
                raise UsageError(f"{type(self).__name__} has no submodule {path!r} (looking for {name!r})")
        return found  # type: ignore[no-any-return]

    def get_parameter(self, path: str) -> Parameter:
        """The parameter at a dotted path."""
        owner, _, name = path.rpartition(".")
        found = self.get_submodule(owner).__dict__.get(name)
        if not isinstance(found, Parameter):
            raise UsageError(f"{type(self).__name__} has no parameter {path!r}")
        return found

    # -- state ---------------------------------------------------------------------------------------------------------
    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """Parameters and persistent buffers by path, as detached tensors that share the module's memory.

        A tensor with two names (tied weights) appears twice.
        """
        return {name: Tensor._wrap(value.data) for name, value in _state(self, prefix)}

    def load_state_dict(self, state: Mapping[str, Tensor | Array], *, strict: bool = True) -> LoadResult:
        """Copy values into parameters and buffers (converted to their dtype), all of them or none.

        Raises UsageError that lists everything that does not fit: names that are missing or not known (`strict`), and
        shapes, with both.
        """
        own = dict(_state(self, ""))
        given = {name: v._data if isinstance(v, Tensor) else np.asarray(v) for name, v in state.items()}
        missing, unexpected = [n for n in own if n not in given], [n for n in given if n not in own]
        faults = [f"missing: {n} {own[n].shape}" for n in missing] if strict else []
        faults += [f"not in the model: {n} {given[n].shape}" for n in unexpected] if strict else []
        faults += [
            f"shape: {n} is {given[n].shape} in the state and {own[n].shape} in the model"
            for n in own
            if n in given and given[n].shape != own[n].shape
        ]
        if faults:
            raise UsageError(
                "\n  ".join([f"load_state_dict: {len(faults)} entries do not fit {type(self).__name__}", *faults])
            )
        for name, value in given.items():
            if name in own:
                own[name]._data[...] = value
        return LoadResult(missing, unexpected)

    # -- changing everything below -------------------------------------------------------------------------------------
    def apply(self, function: Callable[[Module], Any]) -> Self:
        """Call ``function(module)`` for every module below this one, then for itself."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Training mode (dropout drops, batch norm learns its statistics), here and below."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Evaluation mode, here and below."""
        return self.train(False)

    def requires_grad_(self, mode: bool = True) -> Self:
        """Learn (or freeze) every parameter here and below."""
        for parameter in self.parameters():
            parameter.requires_grad = mode
        return self

    def zero_grad(self) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, dtype: Any) -> Self:
        """Convert floating parameters and buffers to float32, float64 or bfloat16, in place; gradients are dropped.

        Running statistics of norms stay float32 where the rest becomes bfloat16.
        """
        if isinstance(dtype, str) and dtype == "cpu":  # where all modules are; taken as PyTorch takes it
            return self
        wanted = as_dtype(dtype)
        if not is_floating(wanted):
            raise UsageError(f"to({wanted.name}): modules are converted between floating dtypes only")
        for tensor in (*self.parameters(), *self.buffers()):
            if is_floating(tensor.dtype):
                exact = wanted == bfloat16 and isinstance(tensor, Buffer) and tensor.exact
                tensor.data = tensor._data.astype(float32 if exact else wanted, order="C")
                tensor.grad = None
        return self

    def deployed(self) -> Module:
        """What is exported in this module's place: one that gives the same in evaluation with less work.

        A module that is trained in another form than it is used in overrides this and returns the latter, new, with
        weights of its own. All others return themselves where no module below them does that, and otherwise a copy that
        holds the deployed ones and shares everything else. Parameters of the model in training are never changed.
        """
        below = {name: child.deployed() for name, child in _own(self, Module)}
        if all(made is self.__dict__[name] for name, made in below.items()):
            return self
        made = copy.copy(self)
        made.__dict__.update(below)
        return made

    # -- showing -------------------------------------------------------------------------------------------------------
    def extra_repr(self) -> str:
        """What `repr` says between the parentheses of a layer."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.shown)

    def __repr__(self) -> str:
        lines = [f"({name}): {module!r}".replace("\n", "\n  ") for name, module in _own(self, Module)]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return "\n  ".join([f"{type(self).__name__}({extra}", *lines]) + "\n)"


# -- helpers -----------------------------------------------------------------------------------------------------------
def _owned(array: Array) -> Array:
    """The array itself where it is contiguous and writable, else a copy that is."""
    return array if array.flags.c_contiguous and array.flags.writeable else np.array(array, order="C")


def _replacement(name: str, before: Parameter | Buffer, value: Any) -> Any:
    """What an assignment over a parameter or buffer puts there: never a plain tensor, which would silently leave the
    state.
    """
    if value is None or isinstance(value, type(before)):
        return value
    if isinstance(before, Buffer) and isinstance(value, Tensor):
        return Buffer(value.detach(), persistent=before.persistent, exact=before.exact, per_sample=before.per_sample)
    kind = type(before).__name__
    raise UsageError(
        f"{name} is a {kind}, it cannot become a {type(value).__name__}; assign a {kind}, "
        f"change its values ({name.rpartition('.')[2]}.data[...] = ...), or set it to None"
    )


def _refuse_hidden(name: str, value: list[Any] | tuple[Any, ...] | dict[Any, Any]) -> None:
    """A plain list of modules would be invisible to `parameters()`."""
    items = value.values() if isinstance(value, dict) else value
    hidden = next((item for item in items if isinstance(item, Module | Parameter)), None)
    if hidden is not None:
        kind = "ModuleDict" if isinstance(value, dict) else "ModuleList or Sequential"
        raise UsageError(
            f"{name}: a {type(hidden).__name__} inside a plain {type(value).__name__} is not found by parameters(); "
            f"use {kind}, or a name that begins with '_' for references that belong elsewhere"
        )


def _own(module: Module, kind: type[Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in list(module.__dict__.items()) if isinstance(value, kind))


def _walk(module: Module, prefix: str, seen: set[int]) -> Iterator[tuple[str, Module, bool]]:
    """(path, module, whether it is met for the first time), parents first."""
    first = id(module) not in seen
    seen.add(id(module))
    yield prefix, module, first
    for name, child in _own(module, Module):
        yield from _walk(child, f"{prefix}.{name}" if prefix else name, seen)


def _members(module: Module, kind: type[Any], prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
    for path, each, _ in _walk(module, prefix, set()) if recurse else ((prefix, module, True),):
        for name, value in _own(each, kind):
            yield (f"{path}.{name}" if path else name), value


def _once(members: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for name, value in members:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _state(module: Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Parameters, then persistent buffers, module by module: the order of PyTorch's state_dict."""
    for path, each, _ in _walk(module, prefix, set()):
        start = f"{path}." if path else ""
        yield from ((start + name, value) for name, value in _own(each, Parameter))
        yield from ((start + name, value) for name, value in _own(each, Buffer) if value.persistent)


@contextmanager
def evaluating(model: Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside the block; afterwards every module is in its own mode again."""
    before = [(module, module.training) for module in model.modules()]
    for module, _ in before:
        module.training = False
    try:
        with no_grad():
            yield
    finally:
        for module, training in before:
            module.training = training
