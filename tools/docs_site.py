"""What MkDocs does besides rendering docs/ (mkdocs.yml names this file): more pages, links, docstrings.

- index.md is the README, and the other Markdown files of the root are pages, too. Links between pages work in the
  checkout and on the site; links to other files of the checkout become plain text.
- `reference/MODULE.md`, wherever mkdocs.yml's `nav` names one, lists the public names (`__all__`) of that module,
  grouped by the file that defines them, for mkdocstrings to fill in from the docstrings.
- Columns of arguments in docstrings ("name   meaning") become lists.
"""

from __future__ import annotations

import inspect
import os
import posixpath
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {"README.md": "index.md"} | {
    name: name for name in ("ARCHITECTURE.md", "CONVENTIONS.md", "CONTRIBUTING.md", "CHANGELOG.md")
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    documented: dict[str, str] = {}
    for page in _pages(config.nav):
        if page.startswith("reference/"):
            content = reference(PurePosixPath(page).stem, documented)
            files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links of a page."""
    place = page.file.src_uri
    source = {page: source for source, page in ROOT_PAGES.items()}.get(place, f"docs/{place}")

    def adapted(link: re.Match[str]) -> str:
        text, (target, hash_, anchor) = link[1], link[2].partition("#")
        if "://" in target or not target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        found = ROOT_PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if found is None:
            return f"{text} (`{path}`)"
        return f"[{text}]({os.path.relpath(found, posixpath.dirname(place) or '.')}{hash_}{anchor})"

    return re.sub(r"(?<!\!)\[([^]]*)\]\(([^)\s]+)\)", adapted, markdown)


def reference(module: str, documented: dict[str, str]) -> str:
    """The page of a module: its docstring, then its public names, by the file that defines them.

    `documented` says which module's page documents an object; an object that is public in two modules is on the first
    of their pages, the second one links to it.
    """
    lines = [f"# {module}", "", _docstring(module)]
    for place, names in groups(module).items():
        if place != module:
            lines += ["", f"## {place.removeprefix(module + '.')}", "", _docstring(place), ""]
        lines += [_entry(module, name, documented) for name in names]
    return "\n".join(lines) + "\n"


def groups(module: str) -> dict[str, list[str]]:
    """{defining module: names} of the public classes and functions; those of the module itself first."""
    package = import_module(module)
    found: dict[str, list[str]] = {module: []}
    for name in public(package):
        value = getattr(package, name)
        if (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__.startswith("pdl"):
            found.setdefault(_file_of(value, name), []).append(name)
    return found


def public(module: ModuleType) -> list[str]:
    """`__all__`, or what the module itself defines, a package imports of its distribution, without an underscore."""
    home = module.__name__.partition(".")[0] + "." if hasattr(module, "__path__") else module.__name__
    own = [name for name, value in vars(module).items() if str(getattr(value, "__module__", "")).startswith(home)]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


def _file_of(value: Any, name: str) -> str:
    """The module that defines `name`, or exports it where a function of another module has made it."""
    if hasattr(sys.modules[value.__module__], name):
        return value.__module__
    package = value.__module__.rpartition(".")[0]
    modules = [m for m in sys.modules if m.startswith(package + ".") and name in getattr(sys.modules[m], "__all__", ())]
    return modules[0]


def _entry(module: str, name: str, documented: dict[str, str]) -> str:
    """One name under the heading that users write it by, from its docstring."""
    value = getattr(import_module(module), name)
    path = f"{value.__module__}.{value.__qualname__}"
    first = documented.setdefault(path, module)
    if first != module:
        return f"### {module}.{name}\n\nThe same as [`{first}.{name}`]({first}.md#{path}).\n"
    if not hasattr(sys.modules[value.__module__], name):  # made at import, as elementwise ops are: not in the source
        signature = str(inspect.signature(value)).replace("'", "")
        said = listed(inspect.getdoc(value) or "")
        return f"### {module}.{name}\n\n```python\n{name}{signature}\n```\n\n{said}\n"
    options = f"    options:\n      heading: {module}.{name}\n      toc_label: {name}\n"
    return f"::: {path}\n{options}"


def _docstring(module: str) -> str:
    return listed(inspect.getdoc(import_module(module)) or "")


def listed(docstring: str) -> str:
    """The docstring with every paragraph of the form

        name    what it means,
                with more lines where need be
        other   ...

    as a list, which Markdown would run together.
    """
    return "\n\n".join(map(_listed, docstring.split("\n\n")))


def _listed(paragraph: str) -> str:
    lines = paragraph.split("\n")
    items: list[str] = []
    for line in lines:
        item = re.fullmatch(r"(\S(?:.{0,38}?\S)??) {2,}(\S.*)", line)
        if item is not None:
            names = ", ".join(f"`{name}`" for name in item[1].split(", "))
            items.append(f"- {names}: {item[2]}")
        elif items and line.startswith("  "):
            items[-1] += " " + line.strip()
        else:
            return paragraph
    return "\n".join(items)


class ArgumentLists(griffe.Extension):
    """`listed` for the docstrings that mkdocstrings collects."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object with a docstring or without."""
        if obj.docstring is not None:
            obj.docstring.value = listed(inspect.cleandoc(obj.docstring.value))


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
