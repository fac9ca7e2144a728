"""Hooks of MkDocs: pages that the site has beside those in docs/.

- index.md is the README, and the other Markdown files of the root are pages, too; relative links are adapted.
- `reference/MODULE.md`, wherever mkdocs.yml's `nav` names one, lists the public names (`__all__`) of that module,
  grouped by the file that defines them, for mkdocstrings to fill in from the docstrings.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {"README.md": "index.md"} | {
    name: name for name in ("ARCHITECTURE.md", "CONVENTIONS.md", "CONTRIBUTING.md", "CHANGELOG.md")
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for source, page in ROOT_PAGES.items():
        text = re.sub(r"\]\(docs/", "](", (ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    for page in _pages(config.nav):
        if page.startswith("reference/"):
            files.append(File.generated(config, page, content=reference(PurePosixPath(page).stem)))
    return files


def reference(module: str) -> str:
    """The page of a module: its docstring, then its public names, by the file that defines them."""
    lines = [f"# {module}", "", _text(inspect.getdoc(import_module(module)))]
    for place, names in groups(module).items():
        lines += ["", f"## {place.removeprefix(module + '.')}", ""]
        if place != module:
            lines += [_text(inspect.getdoc(import_module(place))), ""]
        lines += [_entry(module, name) for name in names]
    return "\n".join(lines) + "\n"


def groups(module: str) -> dict[str, list[str]]:
    """{defining module: names} of the classes and functions in `__all__`."""
    package = import_module(module)
    found: dict[str, list[str]] = {}
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isclass(value) or inspect.isroutine(value):
            found.setdefault(_file_of(value, name), []).append(name)
    return found


def _file_of(value: Any, name: str) -> str:
    """The module that defines `name`, or exports it where a function of another module has made it."""
    if hasattr(sys.modules[value.__module__], name):
        return value.__module__
    package = value.__module__.rpartition(".")[0]
    modules = [m for m in sys.modules if m.startswith(package + ".") and name in getattr(sys.modules[m], "__all__", ())]
    return modules[0]


def _entry(module: str, name: str) -> str:
    """One name under the heading that users write it by, from its docstring."""
    value = getattr(import_module(module), name)
    if not hasattr(sys.modules[value.__module__], name):  # made at import, as elementwise ops are: not in the source
        signature = str(inspect.signature(value)).replace("'", "")
        return f"### {module}.{name}\n\n```python\n{name}{signature}\n```\n\n{inspect.getdoc(value)}\n"
    options = f"    options:\n      heading: {module}.{name}\n      toc_label: {name}\n"
    return f"::: {value.__module__}.{value.__qualname__}\n{options}"


def _text(docstring: str | None) -> str:
    return docstring or ""


def _pages(nav: Any) -> Iterator[str]:
    """The paths in a `nav`, however deep."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for value in nav.values():
            yield from _pages(value)
    else:
        for item in nav or ():
            yield from _pages(item)
