"""What papers and model zoos say of the nets: one module a family, named as the family's, with FACTS (variant -> Fact)
and QUICK, the variant whose arithmetic every run of the tests checks (the others are `slow`); None: all are slow.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import pdl_cv.models

#: `num_params` and `_ops` of each model's weights, in the documentation of torchvision's models
TORCHVISION = "torchvision 0.29"


@dataclass(frozen=True)
class Fact:
    """One variant.

    parameters     learned values, exactly
    source         who says so
    multiply_adds  of one image of `image` pixels (a side, or height and width), in millions; None where nobody
                   published them
    counted_by     who says that, where it is not `source`
    norms          what the source adds to the products for every value that leaves a batch norm
    small          side of the images that the tests train and export it with
    least          side of the smallest images it takes, where somebody publishes it; smaller ones are refused
    options        keywords that the tests of small images add: for nets made for one size, or to spare memory
    millions       parameters as the source prints them, where it rounds
    """

    parameters: int
    source: str
    multiply_adds: float | None
    image: int | tuple[int, int] = 224
    counted_by: str = ""
    norms: int = 0
    small: int = 32
    least: int | None = None
    options: tuple[tuple[str, Any], ...] = ()
    millions: str = ""


@cache
def families(task: str | None = "classification") -> dict[str, ModuleType]:
    """The model families of pdl_cv for a task (None: for any), by module name."""
    names = [module.name for module in pkgutil.iter_modules(pdl_cv.models.__path__)]
    modules = {name: importlib.import_module(f"pdl_cv.models.{name}") for name in names}
    tasks = {name: module.TASK for name, module in modules.items() if hasattr(module, "VARIANTS")}
    return {name: modules[name] for name, own in tasks.items() if task in (None, own)}


@cache
def table(family: str) -> ModuleType | None:
    """What is published of a family; None where nobody has written it down here."""
    name = f"{__name__}.{family}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


@cache
def facts(task: str | None = "classification") -> dict[str, tuple[str, Fact]]:
    """(family, fact) of every variant for a task (None: for any) that has its row."""
    return {
        name: (family, fact)
        for family, module in families(task).items()
        for name, fact in getattr(table(family), "FACTS", {}).items()
        if name in module.VARIANTS
    }
