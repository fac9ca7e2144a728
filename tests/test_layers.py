"""Imports run downward only, and importing a layer loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pdl

PACKAGE = Path(pdl.__file__).parent
SUITES = Path(__file__).parents[1] / "suites"

#: lower layers first; a module may import from its own layer and from those before it
LAYERS = [
    ["circuits", "errors", "files", "hints", "dims", "dtype", "graphs", "hashing", "random", "threads", "kernels",
     "packages",     "ranking", "suites", "tensor", "vocabulary", "watch"],
    ["autograd"],
    ["ops"],
    ["program"],
    ["onnx"],
    ["runtime"],
    ["nn", "optim", "data"],
    ["jit"],
    ["checkpoint"],
    ["config", "export", "hub", "report", "train", "workflow"],
    ["cli", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported_modules(path: Path) -> set[str]:
    """Absolute names imported anywhere in a file, but for those under ``if TYPE_CHECKING``."""
    found: set[str] = set()

    class Visitor(ast.NodeVisitor):
        def visit_If(self, node: ast.If) -> None:
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                self.generic_visit(node)

        def visit_Import(self, node: ast.Import) -> None:
            found.update(a.name for a in node.names)

        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            module = node.module or ""
            found.add(module)
            if module == "pdl":
                found.update(f"pdl.{a.name}" for a in node.names)

    Visitor().visit(ast.parse(path.read_text()))
    return found


def layer_of(module: str) -> int | None:
    parts = module.split(".")
    return LEVEL.get(parts[1]) if parts[0] == "pdl" and len(parts) > 1 else None


#: the template of a suite is a suite: it imports from any layer
TEMPLATE = PACKAGE / "workflow/template"
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py" and TEMPLATE not in p.parents)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_import_points_up(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert own in LEVEL, f"{own} has no layer; add it to LAYERS and to ARCHITECTURE.md"
    up = [m for m in imported_modules(path) if (layer_of(m) or 0) > LEVEL[own]]
    assert not up, f"{own} stands below {up}"


@pytest.mark.parametrize("path", sorted(SUITES.rglob("*.py")), ids=lambda p: p.name)
def test_suites_import_pdl_only(path: Path) -> None:
    own = path.relative_to(SUITES).parts[1]
    foreign = {m.split(".")[0] for m in imported_modules(path) if m.startswith("pdl_")} - {own}
    assert not foreign, f"{own} imports from another suite: {foreign}"


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
