"""Installed distributions that add to pdl: task suites (entry points `pdl.suites`), packaged models (`pdl.models`), and
classes that bundles ask for by name, such as the steps of a pipeline (`pdl.steps`) and what asks several models
together (`pdl.systems`).

Found by their metadata; nothing is imported. One that cannot be used is left out, said once (`tell`), and disturbs no
other: its entry point leads nowhere, two distributions claim one name, its `Requires-Dist: pdl-core...` excludes the
pdl that is here, or, found when it is first wanted, its import fails.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pdl.errors import ConfigError, PackageError
from pdl.version import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import TracebackType

CORE = "pdl-core"  # the distribution that holds the package `pdl`
SUITES, MODELS = "pdl.suites", "pdl.models"
STEPS, OPS, SYSTEMS = "pdl.steps", "pdl.ops", "pdl.systems"
KINDS = {SUITES: "suite", MODELS: "packaged model", STEPS: "step", OPS: "op", SYSTEMS: "system"}
CLASSES = (STEPS, OPS, SYSTEMS)
"""Groups whose entry points name a class, `module:Class`; those of the others name an import package."""
_CORE = re.compile(r"pdl[-_.]core(?![\w.-])", re.IGNORECASE)  # a requirement on it


@dataclass(frozen=True)
class Package:
    """One that can be used: the name of its entry point, import package, version, the folder of the package, and the
    distribution it came with.
    """

    name: str
    package: str
    version: str
    folder: Path
    distribution: str = ""
    group: str = SUITES

    @property
    def parts(self) -> Path:
        """The folder of recipe parts."""
        return self.folder / "parts"

    @property
    def recipes(self) -> Path:
        """The folder of recipes that have names (`-c cv/digits_lenet`)."""
        return self.folder / "recipes"

    @property
    def plans(self) -> Path:
        """The folder of plans that have names (`pdl compress RUN --plan cv/yolov3_in_c`)."""
        return self.folder / "plans"

    def module(self, inner: str = "") -> ModuleType:
        """The imported package, or a module inside it (`models.resnet`).

        ConfigError says why it cannot be imported. It is tried once: a second try would run half of it again.
        """
        name = f"{self.package}.{inner}" if inner else self.package
        known = _broken.get(name)
        if known is not None:
            raise ConfigError(str(known))
        try:
            found = importlib.import_module(name)
            getattr(found, "__all__", None)  # of a lazy package (`pdl.lazy`): its parts are imported now
            return found
        except (Exception, SystemExit) as error:
            _broken[name] = LeftOut(self.group, self.name, (self.package,), self._who(inner), *_why(self, name, error))
            _say(_broken[name])
            raise ConfigError(str(_broken[name])) from error

    def _who(self, inner: str) -> str:
        return f"{self.distribution or self.package} {self.version}{f': {self.package}.{inner}' if inner else ''}"


@dataclass(frozen=True)
class LeftOut:
    """One that cannot be used: the name it wants, the import packages that its entry points name, the distribution,
    what is wrong, and what to do.
    """

    group: str
    name: str
    claims: tuple[str, ...]
    who: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"the {KINDS[self.group]} {self.name!r} ({self.who}) is left out: {self.reason}; {self.advice}"


@dataclass(frozen=True)
class Provided:
    """A class that a distribution provides under a name: that of its entry point, `module:qualified name`."""

    group: str
    name: str
    value: str
    distribution: str
    version: str

    def load(self) -> Any:
        """The class, imported now; PackageError says why it cannot be."""
        module, _, names = self.value.partition(":")
        try:
            found: Any = importlib.import_module(module)
            for name in names.split("."):
                found = getattr(found, name)
        except Exception as error:
            said = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
            raise PackageError(
                f"{self} cannot be used: import {self.value} failed: {said}; "
                f"type: pip install --force-reinstall {self.distribution}"
            ) from error
        return found

    def __str__(self) -> str:
        return f"the {KINDS[self.group]} {self.name!r} ({self.distribution} {self.version})"


T = TypeVar("T")


@dataclass(frozen=True)
class Found(Generic[T]):
    """A group of entry points by its metadata: what can be used, and what cannot, by name."""

    good: dict[str, T]
    bad: dict[str, LeftOut]


def _warn(line: str) -> None:
    warnings.warn(line, RuntimeWarning, stacklevel=2)


tell: Callable[[str], None] = _warn
"""Called with a line about each package that is left out; the command line sets it."""

_broken: dict[str, LeftOut] = {}  # imports that failed, by module
_reported: set[LeftOut] = set()


def installed(group: str) -> dict[str, Package]:
    """The packages of a group by name; tells, once, which ones are left out."""
    found = read(group)
    for each in found.bad.values():
        _say(each)
    return found.good


def provided(group: str, name: str) -> Provided | None:
    """What a distribution provides under a name of a group of `CLASSES`; None where none does. PackageError where it is
    left out, such as a name that two distributions claim."""
    found = read(group)
    if name in found.bad:
        raise PackageError(str(found.bad[name]))
    return found.good.get(name)


def missing(distributions: Iterable[str]) -> list[str]:
    """Those of these distributions that are not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    absent = []
    for name in distributions:
        try:
            distribution(name)
        except PackageNotFoundError:
            absent.append(name)
    return absent


def left_out(group: str | None = None) -> list[LeftOut]:
    """All that is known to be unusable by now, of one group or of all."""
    groups = [group] if group else list(KINDS)
    known = [each for name in groups for each in read(name).bad.values()]
    return known + [each for each in _broken.values() if each.group in groups]


@functools.cache
def read(group: str) -> Found[Any]:
    """What is installed in a group, by its metadata: a `Provided` each of `CLASSES`, a `Package` each of the others."""
    from importlib.metadata import entry_points

    claims: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        claims.setdefault(entry.name, []).append(entry)
    judge = _judge_class if group in CLASSES else _judge
    good: dict[str, Any] = {}
    bad: dict[str, LeftOut] = {}
    for name, entries in sorted(claims.items()):
        judged = judge(group, entries[0]) if len(entries) == 1 else _contested(group, name, entries)
        if isinstance(judged, LeftOut):
            bad[name] = judged
        else:
            good[name] = judged
    return Found(good, bad)


def fits(versions: str, version: str | None = None) -> bool:
    """Whether a version (by default this pdl's) lies in a range such as ">=0.1,<0.2" (PEP 440); ValueError for text
    that is no range.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(versions).contains(version or __version__, prereleases=True)
    except InvalidSpecifier:
        raise ValueError(f"{versions!r} is no range of versions like '>=0.1,<0.2'") from None


def series(version: str | None = None) -> str:
    """`>=0.1,<0.2` for 0.1.x, `>=2.3,<3` for 2.3.x: the versions that keep what this one (by default this pdl's)
    promises.
    """
    from packaging.version import Version

    own = Version(version or __version__)
    lowest = own.public if own.is_prerelease else f"{own.major}.{own.minor}"
    return f">={lowest},<{own.major + 1}" if own.major else f">={lowest},<0.{own.minor + 1}"


def remedy(versions: str, distribution: str) -> str:
    """What to type where this pdl is not in the range that a distribution asks for: the older of both is replaced."""
    from packaging.specifiers import SpecifierSet

    lower = [each for each in SpecifierSet(versions) if each.operator in (">", ">=", "~=", "==", "===")]
    if all(each.contains(__version__, prereleases=True) for each in lower):
        return f"type: pip install --upgrade {distribution}"
    return f"type: pip install '{CORE}{versions}'"


def _judge(group: str, entry: EntryPoint) -> Package | LeftOut:
    distribution, version = _names(entry)
    fault = functools.partial(LeftOut, group, entry.name, (entry.value,), f"{distribution} {version}")
    again = f"type: pip install --force-reinstall {distribution}, or: pip uninstall {distribution}"
    if not entry.value.isidentifier():
        return fault(f"its entry point is {entry.value!r}, expected the name of an import package", again)
    try:
        spec = importlib.util.find_spec(entry.value)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        what = "cannot be found" if spec is None else "is a single file and no package"
        return fault(f"its entry point names {entry.value}, which {what}", again)
    wrong = _misfit(entry)
    if wrong:
        return fault(*wrong)
    folder = Path(next(iter(spec.submodule_search_locations)))
    return Package(entry.name, entry.value, version, folder, distribution, group)


def _judge_class(group: str, entry: EntryPoint) -> Provided | LeftOut:
    distribution, version = _names(entry)
    module, colon, names = entry.value.partition(":")
    wrong = _misfit(entry)
    if not (colon and all(part.isidentifier() for part in (*module.split("."), *names.split(".")))):
        again = f"type: pip install --force-reinstall {distribution}, or: pip uninstall {distribution}"
        wrong = f"its entry point is {entry.value!r}, expected module:Class", again
    if wrong:
        return LeftOut(group, entry.name, (entry.value,), f"{distribution} {version}", *wrong)
    return Provided(group, entry.name, entry.value, distribution, version)


def _misfit(entry: EntryPoint) -> tuple[str, str] | None:
    """Reason and advice where the distribution asks for another pdl."""
    stated = [text for text in (entry.dist.requires if entry.dist else None) or () if _CORE.match(text)]
    if not stated:
        return None
    from packaging.requirements import InvalidRequirement, Requirement

    distribution = _names(entry)[0]
    for text in stated:
        try:
            wants = Requirement(text)
        except InvalidRequirement:
            return f"its metadata state {text!r}, which is no requirement", f"type: pip install {distribution}"
        if wants.marker is not None and not wants.marker.evaluate({"extra": ""}):
            continue
        versions = ",".join(sorted(map(str, wants.specifier), reverse=True))
        if not fits(versions):
            return f"it works with pdl {versions}, and this is pdl {__version__}", remedy(versions, distribution)
    return None


def _contested(group: str, name: str, entries: Iterable[EntryPoint]) -> LeftOut:
    """Two distributions want one name: neither gets it, for which one was meant is not known."""
    claims = sorted((*_names(entry), entry.value) for entry in entries)
    said = " and ".join(f"{each} {version} ({value})" for each, version, value in claims)
    who = ", ".join(each for each, _, _ in claims)
    drop = " or ".join(f"pip uninstall {each}" for each, _, _ in claims)
    modules = tuple(value for *_, value in claims)
    return LeftOut(group, name, modules, who, f"its name is claimed by {said}", f"keep one; type: {drop}")


def _why(package: Package, name: str, error: BaseException) -> tuple[str, str]:
    """Reason and advice for an import that failed."""
    said = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
    place = _place(package.folder, error.__traceback__)
    reason = f"import {name} failed: {said}{place}"
    who = package.distribution or package.package
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and missing.partition(".")[0] not in (package.package, "pdl"):
        return reason, f"type: pip install {who} (it fetches what is missing)"
    return reason, f"type: pip install --force-reinstall {who}; python -c 'import {name}' shows the whole error"


def _place(folder: Path, trace: TracebackType | None) -> str:
    """` (pdl_audio/data.py:3)`: the last line of the package's own that the error passed."""
    found = ""
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder):
            found = f" ({file.relative_to(folder.parent)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _say(each: LeftOut) -> None:
    if each not in _reported:
        _reported.add(each)
        tell(str(each))


def _names(entry: EntryPoint) -> tuple[str, str]:
    """Name and version of the distribution that an entry point belongs to."""
    known = entry.dist
    return (known.name or entry.value, known.version or "unknown") if known else (entry.value, "unknown")
