"""One part in the place of another, while recipes, parts and overrides are laid over one another: `model=resnet18`.

Short names in the sections of a recipe are written out first, so that later layers find a mapping there. Of the part
that was there before, the new one keeps the arguments that it takes, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from pdl import suites
from pdl.config.parts import SECTIONS, find, is_short
from pdl.config.signature import TARGET, signature
from pdl.config.tree import MISSING, Key, dotted
from pdl.errors import ConfigError


def lay_file(whole: DictConfig, layer: DictConfig) -> list[str]:
    """Make a layer, and what it is laid over, ready to be merged; the lines that the user should see."""
    given: Any = OmegaConf.to_container(layer, resolve=False)
    for path in SECTIONS:
        value = _at(given, path)
        if (full := written_out(path, value)) != value:
            OmegaConf.update(layer, dotted(path), full, merge=False, force_add=True)
    return _make_room(whole, (), OmegaConf.to_container(layer, resolve=False), report_kept=False)


def lay_value(whole: DictConfig, path: Key, value: Any) -> list[str]:
    """Lay the value of an override over what is there, as `model=resnet18` does; the lines that the user should see."""
    notices = _make_room(whole, path, value, report_kept=True)
    OmegaConf.update(whole, dotted(path), value, merge=True, force_add=True)
    return notices


def written_out(path: Key, value: Any) -> Any:
    """A value for a place of the recipe, where it is a part under a short name as the mapping that it stands for; names
    that stand for nothing are left for the check."""
    if path not in SECTIONS:
        return value
    node = {TARGET: value} if isinstance(value, str) and value != MISSING and "${" not in value else value
    if not isinstance(node, Mapping) or not is_short(node.get(TARGET)):
        return node if isinstance(value, str) and "." in value else value
    try:
        return find(str(node[TARGET]), SECTIONS[path]).node(node)
    except ConfigError:
        return value


def _make_room(whole: DictConfig, path: Key, given: Any, *, report_kept: bool) -> list[str]:
    """Take out of `whole` what belongs to parts that `given` replaces. `report_kept`: also where
    something was kept only."""
    if not isinstance(given, Mapping):
        return []
    inner = (_make_room(whole, (*path, key), each, report_kept=report_kept) for key, each in given.items())
    notices = [line for lines in inner for line in lines]
    before: Any = OmegaConf.select(whole, dotted(path)) if path else whole
    if isinstance(before, DictConfig) and TARGET in given and not OmegaConf.is_missing(before, TARGET):
        notices += _replace(before, path, given, report_kept)
    return notices


def _replace(before: DictConfig, path: Key, given: Mapping[str, Any], report_kept: bool) -> list[str]:
    old, new = before.get(TARGET), given[TARGET]
    try:
        takes = signature(suites.locate(suites.moved(new) or new))
    except (ConfigError, AttributeError, TypeError):  # the check will say so
        return []
    if not isinstance(old, str) or (suites.moved(old) or old) == (suites.moved(new) or new):
        return []
    rest = [str(key) for key in before if key != TARGET and key not in given]
    # weights are those of one net
    out = [key for key in rest if key == "pretrained" or not (takes.open_ended or key in takes.arguments)]
    raw: Any = OmegaConf.to_container(before, resolve=False)
    kept = [f"{key}={raw[key]}" for key in rest if key not in out]
    with open_dict(before):
        for key in out:
            del before[key]
    if not out and not (report_kept and kept):
        return []
    said = [f"without {', '.join(out)}"] * bool(out) + [f"keeps {', '.join(kept)}"] * bool(kept)
    return [f"{dotted(path)}: {new} in the place of {old}; {'; '.join(said)}"]


def _at(tree: Any, path: Key) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
