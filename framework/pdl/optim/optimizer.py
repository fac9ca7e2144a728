"""`Optimizer`: groups, state by parameter name, the walk over all parameters. A method is a subclass with `update`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pdl.dtype import Array, bfloat16, float32, float64, real_of
from pdl.errors import UsageError
from pdl.hints import part
from pdl.ops.sparse import SparseGrad
from pdl.optim.groups import Group, Params, Rule, make_groups
from pdl.tensor import Tensor

State: TypeAlias = dict[str, Any]
#: an array like the parameter, or (rows [n], values [n, C]) of a parameter [R, C]; negative rows are left out
Gradient: TypeAlias = "Array | tuple[Array, Array]"


@part
class Optimizer(ABC):
    """Changes parameters in place from their `grad`.

    params      a module, of which the parameters that require a gradient now are learned (or its `named_parameters()`:
                names make groups and checkpoints readable), tensors, or dicts ``{"params": ..., option: value, ...}``
                as in PyTorch
    lr          learning rate: the size of the steps, which a schedule multiplies
    groups      rules by name: ``[{"match": "backbone.*", "lr": 1e-4}, {"match": ["*.bias"], "weight_decay": 0}]``; the
                first match holds
    no_decay    True: no weight decay for biases and for tensors with fewer than two dimensions (scale and shift of
                norms); or a list of name patterns; False (PyTorch's behaviour): everything decays
    layer_decay  each layer before the head learns by this factor more slowly than the one after it: at distance d from
                the head the rate is lr layer_decay^d, also that of a group with its own lr. Layers are those of
                `pdl.nn.stages(module)`, frozen ones counted. Discriminative fine-tuning: Howard & Ruder, arXiv
                1801.06146; with one factor: Clark et al., arXiv 2003.10555

    Each group has its own "lr" and other options in `param_groups`. State is float32 (float64 for float64 parameters);
    bfloat16 parameters keep a float32 master copy in the state, of which they are the rounding.

    A sparse gradient (`SparseGrad`: `nn.Embedding(..., sparse=True)`) changes the rows it holds, and nothing else: the
    other rows keep their weights, and their moments and momentum do not decay meanwhile; weight decay acts on the rows
    of the step; corrections count all steps (PyTorch's SparseAdam). SGD without momentum and Adagrad give the same
    weights as from dense gradients (without weight decay), the others nearly.

    weight_decay  pull of the weights towards 0: this share of each is added to its gradient, or to its step
    eps           what is added to a denominator, so that nothing is divided by 0
    betas         shares of the old in the running means of the gradient and of its square
    """

    takes_sparse: ClassVar[bool] = True  # whether `update` is defined for some rows of a parameter
    elementwise: ClassVar[bool] = True  # whether each number's update hangs on its own gradients alone

    def __init__(
        self,
        params: Params,
        options: Mapping[str, Any],
        groups: Sequence[Rule],
        no_decay: bool | Sequence[str],
        layer_decay: float | None = None,
    ) -> None:
        self.defaults = dict(options)
        self.param_groups: list[Group] = make_groups(params, options, groups, no_decay, layer_decay)
        self.state: dict[str, State] = {}

    @abstractmethod
    def update(self, batch: Batch, group: Group, step: int, scale: float) -> None:
        """Change `batch.params` in place by `scale` times `batch.grads` in one native call; all float32 or all float64,
        and at their update number `step` (from 1)."""

    def step(self, *, scale: float = 1.0) -> None:
        """One update of every parameter that has a gradient.

        `scale` multiplies all gradients as they are read: `clip_scale` bounds their norm without a pass over them.
        """
        for group in self.param_groups:
            batches: dict[tuple[int, Any], Batch] = {}
            for name, p in zip(group["names"], group["params"], strict=True):
                if p.grad is None:
                    continue
                state = self.state.get(name)
                if state is None:
                    state = self.state[name] = {"step": 0}
                state["step"] = number = state["step"] + 1
                values = _values(p, state)
                batch = batches.get((number, values.dtype))
                if batch is None:
                    batch = batches[number, values.dtype] = Batch()
                batch.add(p, values, self._gradient(name, p.grad, values), state)
            for (number, _), batch in batches.items():
                self.update(batch, group, number, scale)
                batch.round_masters()

    def _gradient(self, name: str, g: Tensor, values: Array) -> Gradient:
        """A gradient in the form of `values`."""
        if not isinstance(g, SparseGrad):
            return _converted(g._data, values)
        if not self.takes_sparse:
            raise UsageError(
                f"{type(self).__name__}: the gradient of {name} is sparse, and this method needs all of it; "
                "use Adam, Adagrad, RMSprop or SGD, or an embedding with sparse=False"
            )
        return g.rows._data, np.ascontiguousarray(_converted(g.values._data, values))

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def state_dict(self) -> dict[str, Any]:
        """{"state": {parameter name: {...}}, "groups": [{"names": [...], option: value, ...}]}; arrays share the
        optimiser's memory.
        """
        groups = [{key: value for key, value in group.items() if key != "params"} for group in self.param_groups]
        return {"state": {name: dict(state) for name, state in self.state.items()}, "groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from `state_dict()`; parameters are found by name, whatever their order and grouping.

        Raises UsageError naming every parameter that does not fit.
        """
        options = {name: group for group in saved["groups"] for name in group["names"]}
        sizes = {
            name: (_real_size(p), p.shape[0]) if group.get("rowwise") and p.ndim == 2 else (_real_size(p),)
            for group in self.param_groups
            for name, p in zip(group["names"], group["params"], strict=True)
        }
        faults = [f"not saved: {name}" for name in sizes if name not in options]
        faults += [f"unknown here: {name}" for name in options if name not in sizes]
        for name, state in saved["state"].items():
            wrong = [k for k, v in state.items() if _is_array(v) and name in sizes and np.size(v) not in sizes[name]]
            faults += [
                f"{name}: {k} has {np.size(state[k])} elements, the parameter has {sizes[name][0]}" for k in wrong
            ]
        if faults:
            raise UsageError(
                "\n  ".join([f"{type(self).__name__}: the saved state does not fit the parameters", *faults])
            )
        for number, group in enumerate(self.param_groups):
            theirs = [{k: v for k, v in options[name].items() if k != "names"} for name in group["names"]]
            if any(other != theirs[0] for other in theirs):
                raise UsageError(
                    f"{type(self).__name__}: group {number} was saved as several groups with different options; "
                    "group the parameters as before"
                )
            group.update(theirs[0])
        self.state = {name: {k: _copied(v) for k, v in state.items()} for name, state in saved["state"].items()}

    def _named(self) -> list[tuple[str, Tensor]]:
        return [pair for group in self.param_groups for pair in zip(group["names"], group["params"], strict=True)]

    def __repr__(self) -> str:
        groups = (
            f"{len(group['params'])} parameters, "
            + ", ".join(f"{k}={v}" for k, v in group.items() if k not in ("params", "names"))
            for group in self.param_groups
        )
        return "\n  ".join([f"{type(self).__name__}:", *groups])


class Batch:
    """Parameters of one group that are updated by one native call.

    params, grads, states   lists of one length; a state is the parameter's own dict, of which `slot` gets arrays
    """

    __slots__ = ("grads", "params", "rounded", "states")

    def __init__(self) -> None:
        self.params: list[Array] = []
        self.grads: list[Gradient] = []
        self.states: list[State] = []
        self.rounded: list[tuple[Tensor, Array]] = []

    def add(self, p: Tensor, values: Array, g: Gradient, state: State) -> None:
        """Take in one parameter, whose numbers are in `values`."""
        self.params.append(values)
        self.grads.append(g)
        self.states.append(state)
        if p.dtype == bfloat16:
            self.rounded.append((p, values))

    def slot(self, name: str, *, rowwise: bool = False, value: float = 0.0) -> list[Array]:
        """The array `name` of each state, like its parameter or (`rowwise`) with one number a row; `value` at first.

        Zeros take no memory before they are written to: of a large table only the rows in use do.
        """
        found = []
        for state, p in zip(self.states, self.params, strict=True):
            array = state.get(name)
            if array is None:
                array = np.zeros(p.shape[:1] if rowwise else p.shape, p.dtype)
                if value != 0:
                    array += value
                state[name] = array
            found.append(array)
        return found

    def part(self, kept: list[bool]) -> Batch:
        """Those parameters for which `kept` is true."""
        made = Batch()
        made.params, made.grads = list(compress(self.params, kept)), list(compress(self.grads, kept))
        made.states = list(compress(self.states, kept))
        return made

    def round_masters(self) -> None:
        """Put the rounded master copies into their bfloat16 parameters."""
        for p, master in self.rounded:
            p._data[...] = master


def numbers(group: Group, *names: str) -> dict[str, Any]:
    """Options of a group by name, as a kernel takes them."""
    return {name: group[name] for name in names}


def _values(p: Tensor, state: State) -> Array:
    """The array that an update changes: the parameter's own, pairs of reals for complex numbers, or the master copy of
    a bfloat16 one.
    """
    own = p._data
    if not own.flags.c_contiguous:
        own = p._data = np.ascontiguousarray(own)
    if own.dtype == float32 or own.dtype == float64:
        return own
    if own.dtype.kind == "c":
        return own.reshape(-1).view(real_of(own.dtype))
    master = state.get("master")
    if master is None or not np.array_equal(master.astype(bfloat16), own):
        master = state["master"] = own.astype(float32)  # new, or the parameter was changed from outside
    return master  # type: ignore[no-any-return]


def _converted(g: Array, values: Array) -> Array:
    """The numbers of a gradient in the dtype of `values`."""
    if g.dtype == values.dtype:
        return g
    if g.dtype.kind == "c":
        return np.ascontiguousarray(g).reshape(-1).view(values.dtype)
    return g.astype(values.dtype)


def _real_size(p: Tensor) -> int:
    return p.size * (2 if p.dtype.kind == "c" else 1)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | Tensor)


def _copied(value: Any) -> Any:
    return np.array(value.data if isinstance(value, Tensor) else value, order="C") if _is_array(value) else value
