"""A suite as small as one can be, for tests of what suites and recipes have to do with each other."""

from __future__ import annotations

import os as system  # a module that a config must not reach through this package
from typing import Annotated, Any, Literal

import numpy as np

from pdl import Tensor, nn
from pdl.data import Dataset, Transform
from pdl.errors import DataError
from pdl.hints import Choice, Range
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


def make_net(width: Annotated[int, Range(1)] = 4) -> Net:
    """A part may be a function that says what it returns."""
    return Net(width=width)
