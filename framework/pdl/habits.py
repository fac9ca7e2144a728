"""What people who know PyTorch, NumPy or timm write out of habit, and what to write here: for messages.

Names that pdl shares need no line; those that it has under another name, or does without, have one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

_CPU = "pdl computes on the CPU; leave it out"

TENSOR = {
    "cuda": _CPU, "cpu": "tensors are on the CPU; leave it out", "is_cuda": _CPU, "pin_memory": _CPU,
    "view": "x.reshape(...)", "view_as": "x.reshape(y.shape)", "permute": "x.permute_dims(...)",
    "transpose": "x.swapaxes(0, 1), or x.permute_dims(...)", "t": "x.T", "H": "x.mT.conj()",
    "unsqueeze": "x.expand_dims(axis=0)", "dim": "x.ndim", "numel": "x.size", "nelement": "x.size",
    "expand": "x.broadcast_to(shape)", "expand_as": "x.broadcast_to(y.shape)", "ravel": "x.flatten()",
    "contiguous": "leave it out: kernels take any strides", "copy": "x.clone()", "new_zeros": "pdl.zeros(shape)",
    "new_ones": "pdl.ones(shape)", "type": "x.astype(dtype)", "type_as": "x.astype(y.dtype)",
    "float": "x.astype('float32')", "double": "x.astype('float64')", "half": "x.astype('bfloat16')",
    "bfloat16": "x.astype('bfloat16')", "long": "x.astype('int64')", "int": "x.astype('int32')",
    "bool": "x.astype('bool')", "byte": "x.astype('uint8')", "char": "x.astype('int8')",
    "clamp": "x.clip(min, max)", "mm": "a @ b", "bmm": "a @ b", "dot": "a @ b", "mv": "a @ b",
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "neg": "-x", "eq": "a == b", "ne": "a != b",
    "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b",
    "sigmoid": "pdl.sigmoid(x)", "relu": "pdl.relu(x)", "softmax": "pdl.softmax(x, axis=-1)",
    "log_softmax": "pdl.log_softmax(x, axis=-1)", "topk": "pdl.topk(x, k)", "sort": "pdl.sort(x)",
    "argsort": "pdl.argsort(x)", "unbind": "x.unstack()", "masked_fill": "pdl.where(mask, value, x)",
    "index_select": "x.take(indices, axis=0)", "nonzero": "pdl.nonzero(x)", "where": "pdl.where(condition, a, b)",
    "requires_grad_": "x.requires_grad = True", "detach_": "x = x.detach()", "zero_": "x = pdl.zeros_like(x)",
    "fill_": "x = pdl.full_like(x, value)", "copy_": "x[...] = y", "grad_fn": "x.is_leaf", "retain_grad":
    "x.register_hook(...)", "nbytes": "x.data.nbytes", "itemsize": "x.dtype.itemsize", "stride": "x.data.strides",
    "bernoulli": "pdl.rand(shape) < p", "scatter_": "x.scatter(indices, values, axis=...)",
    "scatter_add_": "x.scatter_add(indices, values, axis=...)",
}  # fmt: skip
"""Attributes of tensors."""

MODULES = {
    "pdl": {
        "cat": "pdl.concat", "concatenate": "pdl.concat", "hstack": "pdl.concat(xs, axis=1)",
        "vstack": "pdl.concat(xs, axis=0)", "array": "pdl.tensor",
        "from_numpy": "pdl.as_tensor", "as_array": "pdl.as_tensor", "ndarray": "pdl.Tensor", "Parameter":
        "pdl.nn.Parameter", "Module": "pdl.nn.Module", "Variable": "pdl.tensor(..., requires_grad=True)",
        "FloatTensor": "pdl.tensor", "LongTensor": "pdl.tensor", "manual_seed": "pdl.seed", "device": _CPU,
        "cuda": _CPU, "backends": _CPU, "mm": "pdl.matmul", "bmm": "pdl.matmul", "dot": "pdl.matmul",
        "unsqueeze": "pdl.expand_dims", "permute": "pdl.permute_dims", "transpose": "pdl.permute_dims, or pdl.swapaxes",
        "view": "pdl.reshape", "ravel": "pdl.flatten", "clamp": "pdl.clip", "mul": "pdl.multiply",
        "div": "pdl.divide", "sub": "pdl.subtract", "neg": "pdl.negative", "eq": "pdl.equal", "ne": "pdl.not_equal",
        "lt": "pdl.less", "le": "pdl.less_equal", "gt": "pdl.greater", "ge": "pdl.greater_equal",
        "masked_fill": "pdl.where", "index_select": "pdl.take", "unbind": "pdl.unstack",
        "half": "pdl.bfloat16", "float16": "pdl.bfloat16",
        "long": "pdl.int64", "float": "pdl.float32", "double": "pdl.float64", "inference_mode": "pdl.no_grad()",
        "enable_grad": "pdl.set_grad_enabled(True)", "random_seed": "pdl.seed", "compile": "pdl.jit.compile",
        "script": "pdl.jit.to_static", "save": "pdl.Model(net).save('net.safetensors')",
        "load": "pdl.runtime.load('model.pdl'), or pdl.Model(net).load('net.safetensors')",
        "functional": "pdl: functions are here, such as pdl.relu", "F": "pdl: functions are here, such as pdl.relu",
        "max_pool2d": "pdl.max_pool", "avg_pool2d": "pdl.avg_pool", "adaptive_avg_pool2d": "pdl.adaptive_avg_pool",
        "binary_crossentropy": "pdl.binary_cross_entropy", "mse": "pdl.mse_loss", "DataLoader": "pdl.data.DataLoader",
        "Dataset": "pdl.data.Dataset", "utils": "pdl.data", "Sequential": "pdl.nn.Sequential", "amp": "pdl.autocast",
        "pad_sequence": "pdl.pad", "normal": "pdl.randn", "uniform": "pdl.rand", "vmap": "leading axes: ops broadcast",
        "grad": "pdl.autograd.grad", "backward": "pdl.autograd.backward", "no_grads": "pdl.no_grad()",
        "set_num_threads": "PDL_NUM_THREADS, or threads= of pdl.runtime.load", "get_num_threads": "pdl.threads",
    },
    "pdl.linalg": {
        "norm": "pdl.linalg.vector_norm, or pdl.linalg.matrix_norm", "lstsq": "pdl.linalg.pinv(a) @ b", "eigvals":
        "pdl.linalg.eigvalsh, of Hermitian matrices", "eig": "pdl.linalg.eigh, of Hermitian matrices",
        "dot": "pdl.linalg.vecdot", "inverse": "pdl.linalg.inv", "kron": "pdl.kron", "multi_dot": "a @ b @ c",
    },
    "pdl.fft": {
        "fft2": "pdl.fft.fftn(x, axes=(-2, -1))", "ifft2": "pdl.fft.ifftn(x, axes=(-2, -1))",
        "rfft2": "pdl.fft.rfftn(x, axes=(-2, -1))", "irfft2": "pdl.fft.irfftn(x, axes=(-2, -1))",
    },
    "pdl.nn": {
        "functional": "pdl: functions are there, such as pdl.relu", "utils": "pdl.optim: clip_grad_norm is there",
        "DataParallel": _CPU, "Hardswish2d": "pdl.nn.Hardswish", "BatchNorm": "pdl.nn.BatchNorm2d",
        "Conv": "pdl.nn.Conv2d", "Dense": "pdl.nn.Linear", "SyncBatchNorm": "pdl.nn.BatchNorm2d",
        "Dropout2d": "pdl.nn.ChannelDropout", "LazyLinear": "pdl.nn.Linear", "ZeroPad2d": "pdl.pad",
        "UpsamplingNearest2d": "pdl.nn.Upsample", "UpsamplingBilinear2d": "pdl.nn.Upsample",
        "MultiheadAttention": "pdl.nn.MultiHeadAttention", "Swish": "pdl.nn.SiLU", "BatchNormalization":
        "pdl.nn.BatchNorm2d", "ParameterList": "pdl.nn.ModuleList", "Transformer": "pdl.nn.TransformerEncoder",
    },
    "pdl.optim": {
        "lr_scheduler": "schedules are here: pdl.optim.Cosine, OneCycle, Warmup, ...", "Lamb": "pdl.optim.LAMB",
        "StepLR": "pdl.optim.Step", "MultiStepLR": "pdl.optim.MultiStep", "OneCycleLR": "pdl.optim.OneCycle",
        "CosineAnnealingLR": "pdl.optim.Cosine", "CosineAnnealingWarmRestarts": "pdl.optim.CosineRestarts",
        "ExponentialLR": "pdl.optim.Exponential", "LambdaLR": "a subclass of pdl.optim.Schedule",
        "LinearLR": "pdl.optim.Warmup", "PolynomialLR": "pdl.optim.Polynomial", "SparseAdam": "pdl.optim.Adam",
        "SequentialLR": "pdl.optim.Sequential", "ReduceLROnPlateau": "pdl.optim.ReduceOnPlateau",
    },
    "pdl.data": {
        "TensorDataset": "pdl.data.ArrayDataset", "random_split": "pdl.data.stratified_split",
        "default_collate": "pdl.data.collate", "SubsetRandomSampler": "pdl.data.RandomSampler(pdl.data.Subset(...))",
        "WeightedRandomSampler": "pdl.data.WeightedSampler", "dataloader": "pdl.data.DataLoader",
        "ImageFolder": "pdl_cv.data.ImageFolder",
    },
}  # fmt: skip
"""Names in modules; what holds for `pdl` holds for `pdl.ops`, too."""
MODULES["pdl.ops"] = MODULES["pdl"]

ARGUMENTS = {
    "dim": "axis", "dims": "axes", "keepdim": "keepdims", "size": "shape", "input": "x", "other": "b",
    "unbiased": "correction", "ddof": "correction", "start_dim": "start", "end_dim": "end", "diagonal": "k",
    "device": "", "out": "", "non_blocking": "", "memory_format": "", "layout": "",
}  # fmt: skip
"""Arguments of functions; "" where there is nothing like it."""


def advice(what: str) -> str:
    """`; write x.T`, or the sentence that is no code."""
    plain = what.endswith("leave it out") or what.startswith("leave")
    return f"; {what}" if plain else f"; write {what}"


class Missing(AttributeError):
    """A name that is not there: what to write, or what is like it, which is looked up once somebody reads it, because
    `hasattr` and `getattr` with a default ask for names in every step of a model."""

    def __init__(self, owner: str, name: str, known: Callable[[], Iterable[str]], meant: str | None) -> None:
        super().__init__(owner, name)
        self._known, self._meant = known, meant

    def __str__(self) -> str:
        from difflib import get_close_matches

        owner, name = self.args
        hint = advice(self._meant) if self._meant else ""
        if not hint:
            lower = {each.lower(): each for each in self._known() if not each.startswith("_")}
            close = get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
            hint = f"; did you mean {lower[close[0]]!r}?" if close else ""
        return f"{owner} has no attribute {name!r}{hint}"

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (str(self),)


Missing.__module__, Missing.__qualname__ = "builtins", "AttributeError"  # what it is called where it is shown


def missing_from(module: str) -> Callable[[str], Any]:
    """`__getattr__` of a module, for names that are not there."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise Missing(f"module {module!r}", name, lambda: vars(sys.modules[module]), MODULES.get(module, {}).get(name))

    return get
