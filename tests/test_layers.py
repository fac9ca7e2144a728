"""Imports run downward only, and importing a layer loads nothing heavy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pdl

PACKAGE = Path(pdl.__file__).parent
SUITES = Path(__file__).parents[1] / "suites"

#: the packages and files of pdl from the ground up: one imports only what stands before it
LAYERS = [
    "version", "habits", "names", "lazy", "errors", "hints", "files", "dims", "dtype", "exchange", "inspection",
    "random", "kernels", "threads", "limits", "decoder_state", "vocabulary", "hashing", "compressed", "ranking",
    "ngram", "packages", "suites", "watch", "machine", "tensor", "autograd", "ops", "linalg", "fft", "program", "nn",
    "pruning", "optim", "distributed", "jit", "onnx", "runtime", "report", "checkpoint", "config", "hub", "data",
    "export", "train", "workflow", "serving", "testing", "cli", "__main__",
]  # fmt: skip
LEVEL = {name: level for level, name in enumerate(LAYERS)}
#: the template of a suite is a suite: it imports from any layer
TEMPLATE = PACKAGE / "workflow/template"
FILES = {
    ".".join(("pdl", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py*"))
    if path.suffix in (".py", ".pyx") and TEMPLATE not in path.parents and path != PACKAGE / "__init__.py"
}


def imported_names(path: Path) -> set[str]:
    """What a file imports anywhere, in functions and for type checkers too: modules, and names in them."""
    if path.suffix == ".pyx":
        return set(re.findall(r"^\s*(?:from|c?import)\s+(pdl[\w.]*)", path.read_text(), re.MULTILINE))
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(f"{node.module}.{a.name}" for a in node.names)
    return found


def module_of(name: str) -> str:
    """The module that an imported name is, or is found in."""
    while name not in FILES and "." in name:
        name = name.rpartition(".")[0]
    return name


@cache
def arrows() -> dict[str, set[str]]:
    """The modules of pdl that each of them imports."""
    return {
        module: {module_of(name) for name in imported_names(path) if name.partition(".")[0] == "pdl"} - {module}
        for module, path in FILES.items()
    }


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "pdl itself"


def test_every_package_has_a_layer() -> None:
    assert {package_of(module) for module in FILES} - LEVEL.keys() == set(), "add it to LAYERS and to ARCHITECTURE.md"


def test_no_import_points_up() -> None:
    """Not to the front door `pdl` either, which knows everything: the version is in `pdl.version`."""
    found = []
    for module, targets in arrows().items():
        own = package_of(module)
        for target in sorted(targets):
            other = package_of(target)
            if other != own and LEVEL.get(other, len(LAYERS)) >= LEVEL[own]:
                found.append(f"{module} imports {target}")
    assert not found, found


def circles() -> list[set[str]]:
    """Files that import one another, directly or through others (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in arrows().get(module, ()):
            if target not in order:
                visit(target)
            if target in stack:
                low[module] = min(low[module], low[target])
        if low[module] == order[module]:
            members = set(stack[stack.index(module) :])
            del stack[stack.index(module) :]
            if len(members) > 1:
                found.append(members)

    for module in arrows():
        if module not in order:
            visit(module)
    return found


def test_no_files_of_different_packages_import_one_another() -> None:
    assert [sorted(each) for each in circles() if len({package_of(module) for module in each}) > 1] == []


def test_the_ground_has_no_circles_at_all() -> None:
    ground = set(LAYERS[: LAYERS.index("program") + 1])
    assert [sorted(each) for each in circles() if any(package_of(module) in ground for module in each)] == []


def test_suites_import_pdl_only() -> None:
    found = []
    for path in sorted(SUITES.rglob("*.py")):
        own = path.relative_to(SUITES).parts[1]
        foreign = {name.split(".")[0] for name in imported_names(path) if name.startswith("pdl_")} - {own}
        found += [f"{path.relative_to(SUITES)} imports {name}" for name in sorted(foreign)]
    assert not found, found


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_pdl_is_light() -> None:
    heavy = {"cv2", "hydra", "omegaconf", "yaml", "rich", "typer", "safetensors", "scipy", "torch"}
    assert not modules_after("import pdl") & heavy


def test_import_pdl_changes_nothing_global() -> None:
    code = (
        "import logging, os, signal, warnings\n"
        "def state(): return (dict(os.environ), list(warnings.filters), logging.root.handlers[:], logging.root.level,"
        " [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)])\n"
        "import numpy\nbefore = state()\nimport pdl, pdl.nn, pdl.optim\nassert state() == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
