"""`hub.yaml`, read strictly: every fault of a file at once, with line and path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pdl.config import source
from pdl.config.schema import Checker
from pdl.config.signature import TARGET
from pdl.config.tree import Config, Fault, Key, Origin, shown
from pdl.config.words import show
from pdl.errors import ConfigError, UsageError
from pdl.hub.entries import Build, Entry, File, Metric, Source, System, Wheel
from pdl.packages import MODELS, Package, fits
from pdl.suites import suggest

FORMAT = 1
FILE = "hub.yaml"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+!-]*")
_SPDX = re.compile(r"\(?[A-Za-z0-9][A-Za-z0-9.+-]*\)?( (AND|OR|WITH) \(?[A-Za-z0-9][A-Za-z0-9.+-]*\)?)*")
SHA256 = re.compile(r"[0-9a-f]{64}")


def read(package: Package) -> dict[str, Entry]:
    """The models of a package by full name. Raises ConfigError with every fault of its file."""
    tree, marks = _sound(package.folder / FILE)
    return {
        name: _entry(name, package, given, marks["models", key])
        for key, given in tree["models"].items()
        for name in [_full_name(package, key)]
    }


def read_systems(package: Package) -> dict[str, System]:
    """The systems of a package by full name. Raises ConfigError with every fault of its file."""
    tree, marks = _sound(package.folder / FILE)
    found = {}
    for key, given in (tree.get("systems") or {}).items():
        parts = {argument: _full_name(package, model) for argument, model in given["parts"].items()}
        metric = Metric(**given["metric"]) if given.get("metric") is not None else None
        facts = {**given, "parts": parts, "metric": metric, "name": _full_name(package, key)}
        found[facts["name"]] = System(**facts, package=package, origin_line=marks["systems", key])
    return found


def _sound(path: Path) -> tuple[Any, dict[Key, Origin]]:
    """The file as a tree without fault, and the line of every key."""
    tree, marks = index_tree(path, "models")
    config = Config(tree, path, origins=marks)
    checker = IndexChecker()
    if not other_format(tree, checker):
        checker.arguments(tree, File, ())
        mistyped = {fault.path[:2] for fault in checker.faults}
        if ("models",) not in mistyped:
            sound = {key: model for key, model in tree["models"].items() if ("models", key) not in mistyped}
            checker.faults += _limits(sound)
            systems = tree.get("systems") or {} if ("systems",) not in mistyped else {}
            well_typed = {key: system for key, system in systems.items() if ("systems", key) not in mistyped}
            checker.faults += _wrong_systems(well_typed, set(tree["models"]))
    if checker.faults:
        raise ConfigError([config.line(fault) for fault in checker.faults])
    return tree, marks


def _full_name(package: Package, key: str) -> str:
    """`cv/resnet18`; the entry of a packaged model that bears the package's name is asked for by that."""
    return key if package.group == MODELS and key == package.name else f"{package.name}/{key}"


def _entry(name: str, package: Package, given: dict[str, Any], line: Origin) -> Entry:
    parts: dict[str, Any] = dict(given)
    parts["sources"] = [_source(each) for each in given["sources"]]
    for key, kind in (("metric", Metric), ("build", Build)):
        if parts.get(key) is not None:
            parts[key] = kind(**parts[key])
    return Entry(**parts, name=name, package=package, origin_line=line)


def _source(given: dict[str, Any]) -> Source:
    wheel = given.get("wheel")
    return Source(**given) if wheel is None else Source(wheel=Wheel(**wheel))


class IndexChecker(Checker):
    """The check of recipes, but for `_target_`: an index is read without importing what it names."""

    def _part(self, node: dict[str, Any], hint: Any, path: Key) -> Any:
        if not isinstance(node[TARGET], str):
            self._fault((*path, TARGET), f"expected an import path like 'pdl_cv.LeNet', got {show(node[TARGET])}")
        return node


def index_tree(path: Path, section: str) -> tuple[Any, dict[Key, Origin]]:
    """The file as a tree, and the line of every key."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise UsageError(f"{shown(path)}: reading it needs PyYAML; pip install 'pdl-core[train]'") from None
    text = source.text(path)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
        if not isinstance(root, yaml.MappingNode):
            raise ConfigError(f"{shown(path)}:1: expected a mapping with the keys format and {section}")
        marks, faults = source.keys(root, path)
        if faults:
            raise ConfigError([f"{fault.origin}: {fault.message}" for fault in faults])
        return yaml.constructor.SafeConstructor().construct_document(root), marks
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(source.syntax(path, error)) from None


def other_format(tree: Any, checker: Checker) -> bool:
    """A file of another format is not judged by the rules of this one."""
    written = tree.get("format", FORMAT)
    if isinstance(written, int) and not isinstance(written, bool) and written != FORMAT:
        message = f"this pdl reads format {FORMAT}, the file is of format {written}; install a pdl that knows it"
        checker.faults.append(Fault(("format",), message))
    return bool(checker.faults)


def _limits(models: dict[str, Any]) -> Iterator[Fault]:
    """What types cannot say, of models whose types are right."""
    for key, model in models.items():
        where: Key = ("models", key)
        if not NAME.fullmatch(key):
            yield Fault(where, f"{key!r} is no name: letters, digits, '_', '-' and '.' only")
        for name, good, expected in _FIELDS:
            if model.get(name) is not None and not good(model[name]):
                yield Fault((*where, name), f"expected {expected}, got {show(model[name])}")
        yield from _wrong_build(model, where)
        for number, each in enumerate(model["sources"]):
            yield from _wrong_source(each, (*where, "sources", number))
        if not model["sources"]:
            yield Fault((*where, "sources"), "is empty; the file must come from somewhere")


def _wrong_systems(systems: dict[str, Any], models: set[str]) -> Iterator[Fault]:
    """What types cannot say of systems whose types are right."""
    for key, system in systems.items():
        where: Key = ("systems", key)
        if not NAME.fullmatch(key) or key in models:
            yield Fault(where, f"{key!r} is {'a model already' if key in models else 'no name'}; take another name")
        for name, good, expected in _FIELDS:
            if system.get(name) is not None and not good(system[name]):
                yield Fault((*where, name), f"expected {expected}, got {show(system[name])}")
        for argument, model in system["parts"].items():
            if model not in models:
                yield Fault((*where, "parts", argument), f"{model!r} is no model of this file{suggest(model, models)}")
        if not system["parts"]:
            yield Fault((*where, "parts"), "is empty; a system has models")
        if TARGET not in system["predictor"]:
            message = f"expected {{{TARGET}: import.path, ...}}, got {show(system['predictor'])}"
            yield Fault((*where, "predictor"), message)


def _wrong_source(given: dict[str, Any], where: Key) -> Iterator[Fault]:
    kinds = [kind for kind in ("package", "wheel", "url") if given.get(kind) is not None]
    if len(kinds) != 1:
        said = f"{' and '.join(kinds)} are" if kinds else "nothing is"
        yield Fault(where, f"expected exactly one of package, wheel and url, but {said} given")
        return
    path = (*where, kinds[0])
    if kinds == ["package"] and not is_inside(given["package"]):
        yield Fault(path, f"expected {INSIDE}, got {show(given['package'])}")
    if kinds == ["url"] and not is_url(given["url"]):
        yield Fault(path, f"expected an address like https://host/path, got {show(given['url'])}")
    for name, good, expected in _WHEEL if kinds == ["wheel"] else ():
        if not good(given["wheel"][name]):
            yield Fault((*path, name), f"expected {expected}, got {show(given['wheel'][name])}")


def _wrong_build(model: dict[str, Any], where: Key) -> Iterator[Fault]:
    build = model.get("build") or {}
    if build and str(model["file"]).endswith(".pdl"):
        yield Fault((*where, "build"), f"{model['file']} is a bundle already; build is for foreign files")
    if build.get("model") is not None and TARGET not in build["model"]:
        yield Fault((*where, "build", "model"), f"expected {{{TARGET}: import.path, ...}}, got {show(build['model'])}")
    labels, pipeline = build.get("labels"), build.get("pipeline")
    if (arrays := build.get("arrays")) is not None and not is_inside(arrays):
        yield Fault((*where, "build", "arrays"), f"expected {INSIDE}, got {show(arrays)}")
    if labels is not None and not labels.startswith("metadata:") and not is_inside(labels):
        yield Fault((*where, "build", "labels"), f"expected {INSIDE} or metadata:KEY, got {show(labels)}")
    for name, path in (build.get("vocabularies") or {}).items():
        if not is_inside(path):
            yield Fault((*where, "build", "vocabularies", name), f"expected {INSIDE}, got {show(path)}")
    if isinstance(pipeline, str) and not is_inside(pipeline):
        yield Fault((*where, "build", "pipeline"), f"expected a mapping or {INSIDE}, got {show(pipeline)}")


def is_inside(path: str) -> bool:
    """A relative path that stays where it is put, with / on every system."""
    parts = path.split("/")
    return not any(part in ("", ".", "..") for part in parts) and not set(path) & set('\\:*?"<>|\0')


def is_url(text: str) -> bool:
    """An http or https address without credentials."""
    try:
        split = urlsplit(text)
        plain = text.isascii() and text.isprintable() and " " not in text and not split.fragment
        whole = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
        return plain and whole and split.username is None
    except ValueError:
        return False


def _is_range(text: str) -> bool:
    try:
        fits(text)
    except ValueError:
        return False
    return bool(text.strip())


def is_file_name(text: str) -> bool:
    """A plain file name, without folders, that is none of the cache's own."""
    return bool(_FILE.fullmatch(text)) and not text.endswith((".part", ".lock"))


INSIDE = "a path inside the package (with /, without ..)"
_FIELDS: tuple[tuple[str, Callable[[str], object], str], ...] = (
    ("task", str.strip, "a word such as classification"),
    ("summary", lambda text: text.strip() and "\n" not in text.strip(), "one line of text"),
    ("licence", _SPDX.fullmatch, "an SPDX name such as Apache-2.0"),
    ("origin", str.strip, "who made it"),
    ("pdl", _is_range, "versions of pdl such as '>=0.1,<0.2'"),
    ("file", is_file_name, "a plain file name, without folders"),
    ("sha256", SHA256.fullmatch, "64 lower-case hex digits"),
    ("card", is_inside, INSIDE),
)
_WHEEL: tuple[tuple[str, Callable[[str], object], str], ...] = (
    ("name", NAME.fullmatch, "the name of a project"),
    ("version", _VERSION.fullmatch, "one version such as 1.4.4"),
    ("member", is_inside, "a path inside the wheel (with /, without ..)"),
)
