"""Paths in recipes: relative ones become absolute once, so that a run can be used from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pdl.config.tree import Config, Key


def resolve(config: Config, keys: Iterable[Key]) -> None:
    """Make the relative paths at these keys absolute: of what a file says the one beside that file, then, and of what
    the command line says at once, the one in the working directory. What is in neither place stays as it is: the data
    set looks for it under PDL_DATA.
    """
    for key in keys:
        value = config.get(".".join(map(str, key)))
        if not isinstance(value, str) or not value or os.path.isabs(os.path.expanduser(value)):
            continue
        origin = config.origin(key)
        beside = [] if origin.override or origin.file is None else [origin.file.resolve().parent]
        for folder in (*beside, Path.cwd()):
            if there(folder, value):
                _put(config.tree, key, made := os.path.abspath(folder / value))
                if key in config.kept:
                    config.kept[key] = config.kept[key][0], made
                break


def there(folder: Path, path: str) -> bool:
    """Whether a file or folder of this relative path exists, or an archive that the path goes on inside of."""
    whole = folder / path
    within = [Path(path), *Path(path).parents][:-1]
    return whole.exists() or any((folder / each).is_file() for each in within)


def _put(tree: Any, key: Key, value: str) -> None:
    for name in key[:-1]:
        tree = tree[name]
    tree[key[-1]] = value
