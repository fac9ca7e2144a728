"""`located`: from a word of a command line to the run folder or the bundle that it means."""

from __future__ import annotations

from pathlib import Path

from pdl.errors import UsageError
from pdl.runtime.bundle import is_bundle
from pdl.suites import suggest


def located(word: str) -> Path:
    """The run folder or bundle that a word names: an existing path, else the bundle of a name of the hub,
    which is fetched (and built) when it is first used.

    UsageError, with suggestions, for a word that is neither.
    """
    path = Path(word).expanduser()
    if path.is_dir() or (path.is_file() and is_bundle(path)):
        return path
    from pdl import hub
    from pdl.export import bundle_of
    from pdl.hub.systems import systems

    if not path.is_file() and _means_a_path(word, path) and word not in {*hub.index(), *systems()}:
        beside = [str(path.parent / each.name) for each in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = suggest(str(path), beside) or "; `pdl train` writes run folders, by default below runs/"
        raise UsageError(f"{word}: no such run folder or bundle{hint}")
    return bundle_of(path if path.is_file() else word)


def require_bundle(model: object, **limits: object) -> None:
    """UsageError where limits are given for a run folder, whose net is trained code of this machine."""
    given = " and ".join(f"--{name.replace('_', '-')}" for name, value in limits.items() if value is not None)
    if given:
        raise UsageError(f"{model} is a run folder, and {given} is for bundles: give {Path(str(model)) / 'model.pdl'}")


def _means_a_path(word: str, path: Path) -> bool:
    """Whether a word that is no file here cannot be a name: it has the form of a path, or begins with a folder."""
    looks = path.is_absolute() or word.startswith((".", "~")) or word.count("/") > 1 or path.suffix in (".pdl", ".onnx")
    return looks or (path.parent != Path() and path.parent.is_dir())
