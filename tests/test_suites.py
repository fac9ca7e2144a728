"""One skeleton for all suites: the same file names for the same roles, so that who knows one suite knows all."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from pdl import suites
from pdl.data import Dataset, IterableDataset
from pdl.ops.base import Op
from pdl.runtime.steps import Step
from pdl.train import Deployer, Metric, Reporter, Task
from pdl.workflow.new_suite import TEMPLATE

ROOT = Path(__file__).parents[1]
SUITES = sorted(path.name for path in (ROOT / "suites").iterdir() if (path / "pyproject.toml").is_file())
#: a class of this kind is defined in a file (or below a folder) of this name, and nowhere else
ROLES = {Task: "task", Deployer: "deploy", Reporter: "report", Metric: "metrics", Step: "steps", Op: "ops"}
#: words for what a file is for, not for what it holds
VAGUE = {
    "ask", "asked", "around", "card", "common", "deploys", "helpers", "known", "metric", "misc", "named",
    "predict", "told", "use", "using", "util", "utils",
}  # fmt: skip


@cache
def modules(suite: str) -> dict[str, ModuleType]:
    """Every module of a suite by its name within the package: "node.task"."""
    package = f"pdl_{suite}"
    root = ROOT / "suites" / suite / package
    found = pkgutil.walk_packages([str(root)], f"{package}.")
    return {each.name.removeprefix(f"{package}."): importlib.import_module(each.name) for each in found}


def defined(module: ModuleType) -> list[type]:
    return [each for _, each in inspect.getmembers(module, inspect.isclass) if each.__module__ == module.__name__]


def tasks(suite: str) -> dict[str, type[Task]]:
    """The public tasks by their folder."""
    return {
        name.rpartition(".")[0]: each
        for name, module in modules(suite).items()
        for each in defined(module)
        if issubclass(each, Task) and not each.__name__.startswith("_")
    }


@pytest.mark.parametrize("suite", SUITES)
def test_a_class_is_where_its_role_is(suite: str) -> None:
    wrong = [
        f"{name}.{each.__name__} is a {kind.__name__}: it belongs to {role}"
        for name, module in modules(suite).items()
        for each in defined(module)
        for kind, role in ROLES.items()
        if issubclass(each, kind) and role not in name.split(".")
    ]
    assert wrong == []


@pytest.mark.parametrize("suite", SUITES)
def test_data_sets_are_in_data(suite: str) -> None:
    """But for those that a loader makes of others."""
    wrong = [
        f"{name}.{each.__name__}"
        for name, module in modules(suite).items()
        for each in defined(module)
        if issubclass(each, Dataset | IterableDataset) and not {"data", "loader"} & set(name.split("."))
    ]
    assert wrong == []


@pytest.mark.parametrize("suite", SUITES)
def test_files_are_called_by_what_they_hold(suite: str) -> None:
    assert [name for name in modules(suite) if VAGUE & set(name.split("."))] == []


@pytest.mark.parametrize("suite", SUITES)
def test_a_folder_holds_one_task_and_deploys_it(suite: str) -> None:
    for name, module in modules(suite).items():
        if name.rpartition(".")[2] == "task":
            assert len([each for each in defined(module) if issubclass(each, Task)]) == 1, name
    for folder, task in tasks(suite).items():
        assert task.deployer is not Task.deployer, f"{folder}: {task.__name__} has no deployer"


@pytest.mark.parametrize("suite", SUITES)
def test_recipes_are_written_by_the_folder_of_their_task(suite: str) -> None:
    """`pdl init cv.classification` is pdl_cv/classification/init.py, and recipes share /cv/classification."""
    package = importlib.import_module(f"pdl_{suite}")
    for name, writer in package.INIT.items() if hasattr(package, "INIT") else ():
        assert writer == f"pdl_{suite}.{name}.init:write_recipe"
        assert name in tasks(suite)
    parts = {path.stem for path in (suites.installed()[suite].parts / suite).glob("*.yaml")}
    assert set(package.INIT if hasattr(package, "INIT") else ()) <= parts | {""}


@pytest.mark.parametrize("suite", SUITES)
def test_type_checkers_read_its_annotations(suite: str) -> None:
    assert (ROOT / "suites" / suite / f"pdl_{suite}/py.typed").is_file(), "PEP 561: an empty file of this name"


def test_the_template_is_such_a_suite() -> None:
    assert (TEMPLATE / "pdl_newsuite/py.typed").is_file()
    package = TEMPLATE / "pdl_newsuite"
    assert {path.name for path in (package / "locate").glob("*.py")} == {
        "__init__.py", "task.py", "metrics.py", "deploy.py"
    }  # fmt: skip
    assert (package / "parts/newsuite/locate.yaml").is_file()
