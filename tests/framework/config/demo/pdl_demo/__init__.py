"""A suite as small as one can be, for tests of what suites and recipes have to do with each other."""

from __future__ import annotations

import os as system  # a module that a config must not reach through this package
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np

from pdl import Tensor, nn
from pdl.data import Dataset, Transform
from pdl.errors import DataError
from pdl.hints import Choice, Range, part
from pdl.train import Loss, Task

MOVED = {"pdl_demo.OldNet": "pdl_demo.Net"}
INIT = {"fit": "pdl_demo.writer:write_recipe", "broken": "pdl_demo.writer:write_broken"}
SEPARATOR = system.sep


class Norm(nn.Module):
    """A part inside a part."""

    def __init__(self, *, eps: Annotated[float, Range(above=0)] = 1e-5) -> None:
        super().__init__()
        self.eps = eps


class Net(nn.Module):
    """y = x w + b, with arguments of every kind."""

    def __init__(
        self,
        *,
        width: Annotated[int, Range(1)],
        act: Literal["relu", "gelu"] = "relu",
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        kernel: int | tuple[int, int] = 3,
        norm: Norm | None = None,
        init: Annotated[str, Choice(("zeros", "normal"))] = "normal",
        stages: list[int] | None = None,
    ) -> None:
        super().__init__()
        if width == 13:
            raise ValueError("width 13 brings bad luck; take another")
        self.kernel, self.norm, self.stages = kernel, norm, stages
        self.layer = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Points(Dataset):
    """Rows of normal numbers with label (row sum > 0)."""

    def __init__(
        self, *, split: Literal["train", "val", "test"], n: Annotated[int, Range(1)], root: str | None = None
    ) -> None:
        if root is not None:
            raise DataError(f"{root}: no such folder; set root to the folder of the points")
        rng = np.random.default_rng(["train", "val", "test"].index(split))
        self.x = rng.normal(size=(n, 8)).astype(np.float32)
        self.classes = ["negative", "positive"]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.x[index], "label": int(self.x[index].sum() > 0)}


class Jitter(Transform):
    """Noise on x."""

    def __init__(self, *, sigma: Annotated[float, Range(0)]) -> None:
        self.sigma = sigma

    def __call__(self, sample: dict[str, Any], rng: Any) -> dict[str, Any]:
        return sample


class Fit(Task):
    """Least squares on the label."""

    def __init__(self, *, classes: list[str] | None = None) -> None:
        self.classes = classes

    def step(self, model: nn.Module, batch: dict[str, Any]) -> Loss:
        wrong = model(Tensor(batch["x"]))[:, 0] - Tensor(batch["label"].astype(np.float32))
        return Loss((wrong * wrong).mean(), weight=len(batch["label"]))


@part
def make_net(width: Annotated[int, Range(1)] = 4) -> Net:
    """A part may be a function that says what it returns."""
    return Net(width=width)


@part
def make_something(width: int = 4):
    """One that does not say it."""
    return Net(width=width)


def load_net(path: str) -> Net:
    """A function that is not declared as a part, although it returns one."""
    raise AssertionError(f"read {path}")


class Helper:
    """A class that is no part: for places alone that ask for it."""

    def __init__(self, *, n: int = 1) -> None:
        self.n = n


class Holder(nn.Module):
    """Places of every kind that a part may stand in."""

    def __init__(
        self,
        *,
        net: nn.Module | None = None,
        nets: list[nn.Module] | None = None,
        by_name: dict[str, nn.Module] | None = None,
        either: Net | list[Norm] | None = None,
        helper: Helper | None = None,
        call: Callable[[Tensor], Tensor] | None = None,
        anything: Any = None,
        sizes: tuple[int, int] | None = None,
        numbers: list[int] | None = None,
        mode: Literal["a", "b"] = "a",
        untold=None,
        **more: Any,
    ) -> None:
        self._held = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
