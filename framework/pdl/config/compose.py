"""A recipe, its parts and the overrides become one tree: hydra composes, this file finds the folders and remembers
the origins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

from pdl import suites
from pdl.config import named, source
from pdl.config.tree import MISSING, Config, Fault, Items, Key, Node, Origin, dotted, shown, split
from pdl.errors import ConfigError

_ENVIRONMENT = re.compile(r"\$\{\s*oc\.env\s*:")
_INTERPOLATION = 100  # values in the time that an interpolation takes


def load(path: str | Path, overrides: Sequence[str] = (), *, display_path: Path | None = None) -> Config:
    """Compose a recipe (its file, or its name: `cv/digits_lenet`; or a run folder) with overrides in hydra's grammar.

    Parts named in its defaults list are looked for beside the recipe, then in the parts of the installed suites, then
    among their recipes: a recipe may build on a whole one (`defaults: [/rec/yoochoose64_srgnn, _self_]`).
    Messages name `display_path` where the file is a copy. Raises ConfigError for text that is not
    YAML, parts that do not exist and overrides that cannot be read; whether keys and values make sense is said by
    `pdl.config.check`.
    """
    file = named.find(path)
    if file.is_dir() and (file / "config.yaml").is_file():
        file = file / "config.yaml"
    _yaml_only(file)
    marks = source.read(file)
    if ("hydra",) in marks:
        raise ConfigError(f"{marks[('hydra',)]}: hydra: pdl uses hydra to compose only; remove this key")
    folders = [file.resolve().parent, *(suite.parts for suite in suites.installed().values() if suite.parts.is_dir())]
    parsed = [_single(text) for text in overrides]
    composed, layers, notices = _compose(file, folders, [_forced(each, folders) for each in parsed])
    config = Config(Node(), file, tuple(overrides), notices=notices)
    for layer in layers:
        _lay(config.origins, marks if layer.file is None else source.read(layer.file), layer.package)
    for each in parsed:
        _lay_override(config.origins, each)
    if display_path is not None:
        config.path = display_path
        config.origins = {k: replace(o, file=display_path) if o.file == file else o for k, o in config.origins.items()}
    config.tree = cast(Node, _resolve(composed, (), config, iter(range(source.MOST))))
    _keep(config)
    return config


class _Layer:
    """One file of the defaults list: where it lies (None is the recipe itself) and the path it is placed at."""

    def __init__(self, file: Path | None, package: str) -> None:
        self.file, self.package = file, split(package)


def parse(text: str) -> Any:
    """hydra's reading of an override, which may stand for several values. ConfigError where it is none."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as error:
        raise ConfigError(f"command line: {text}: {_explain(text, error)}") from None
    if override.is_hydra_override() or override.key_or_group.partition(".")[0] == "hydra":
        raise ConfigError(
            f"command line: {text}: pdl uses hydra to compose only; hydra's own settings have no effect here"
        )
    return override


def _single(text: str) -> Any:
    """An override of one value."""
    override = parse(text)
    if override.is_sweep_override():
        problem = "several values for one key are for `pdl sweep`; for a list write key=[a,b], for text with commas"
        raise ConfigError(f"command line: {text}: {problem} 'key=\"a,b\"'")
    return override


def _explain(text: str, error: Exception) -> str:
    if "=" not in text and not text.startswith("~"):
        return "an override has the form key=value, for example train.epochs=3 (or ~key to remove a key)"
    return f"not an override that can be read ({str(error).splitlines()[0]}); quote special characters: 'key=\"a b\"'"


def _forced(override: Any, folders: list[Path]) -> str:
    """`a.b=x` sets a key whether the recipe wrote it or not: `check` knows better than the recipe which keys exist."""
    text = str(override.input_line)
    plain = override.type.name == "CHANGE" and override.package is None and "/" not in override.key_or_group
    group = any((folder / override.key_or_group).is_dir() for folder in folders)
    return f"++{text}" if plain and not group else text


def _compose(file: Path, folders: list[Path], overrides: list[str]) -> tuple[Any, list[_Layer], list[str]]:
    import yaml
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from pdl.config import hydra_sources

    try:
        loader = hydra_sources.loader(folders)
        composed, laid = loader.compose(file.stem, overrides)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(source.syntax(Path(mark.name) if mark else file, error)) from None
    except RecursionError:
        raise ConfigError(f"{shown(file)}: defaults: it builds on itself; take the entry out") from None
    except (HydraException, OmegaConfBaseException, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(_complaint(error, file, overrides, folders)) from None
    except OSError as error:
        name = str(error.filename or "")
        raise ConfigError(f"{shown(file)}: defaults: ...{name[-60:]}: {error.strerror}") from None
    return composed, [_layer(entry, folders) for entry in laid], loader.notices


def _layer(entry: Any, folders: list[Path]) -> _Layer:
    if entry.primary:
        return _Layer(None, entry.package or "")
    candidates = [folder / f"{entry.config_path}.yaml" for folder in folders]
    file = next((file for file in candidates if file.is_file()), None)
    return _Layer(file or named.shipped().get(entry.config_path, candidates[0]), entry.package or "")


def _yaml_only(file: Path) -> None:
    if file.suffix != ".yaml" and file.is_file():
        raise ConfigError(f"{shown(file)}: a recipe's name ends in .yaml")


def _complaint(error: Exception, file: Path, overrides: list[str], folders: list[Path]) -> str:
    """hydra's message in one line, with the place it is about."""
    text = " ".join(f"{error} {error.__cause__ or ''}".split())
    missing = getattr(error, "missing_cfg_file", None)
    if missing:
        return _missing_part(str(missing), file, folders)
    for override in overrides:
        if override in text or override.lstrip("+") in text or _key(override) in text:
            return f"command line: {override.removeprefix('++')}: {_override_problem(text, override, file)}"
    where, marks = re.search(r"full_key: (\S+)", text), source.read(file)
    if where and split(where[1]) in marks:
        return f"{marks[split(where[1])]}: {where[1]}: cannot be read: {text[: where.start()].strip()}"
    if overrides and "invalid literal for int" in text:
        given = " ".join(override.removeprefix("++") for override in overrides)
        return f"command line: {given}: {_override_problem(text, overrides[0], file)}"
    return f"{shown(file)}: cannot be composed: {text}"


def _key(override: str) -> str:
    return f"'{override.lstrip('+~').partition('=')[0]}'"


def _override_problem(text: str, override: str, file: Path) -> str:
    if "Could not delete" in text and "does not exist" in text:
        known = sorted(dotted(key) for key in source.read(file) if key[0] != "defaults")
        return f"there is no such key to remove{suites.suggest(override.lstrip('~').partition('=')[0], known)}"
    if "Could not append" in text:
        return f"the key is already set; to change it, drop the plus: {override.lstrip('+')}"
    if "index out of range" in text or "invalid literal for int" in text:
        return "no such place in that list; list items are numbered from 0, and a longer list is given whole: key=[a,b]"
    if "No match in the defaults list" in text:
        return (
            f"no part of that group is in the defaults list of {shown(file)}; to add one, write +{override.lstrip('+')}"
        )
    return text


def _missing_part(name: str, file: Path, folders: list[Path]) -> str:
    """Where a part was looked for, and what was probably meant. The line is that of the defaults entry."""
    have = {
        str(found.relative_to(folder).with_suffix("")) for folder in folders[1:] for found in folder.rglob("*.yaml")
    }
    have |= named.shipped().keys()
    lines = source.read(file)
    text = source.text(file).splitlines()
    entries = [
        place for key, place in lines.items() if key[0] == "defaults" and name.strip("/") in text[place.line - 1]
    ]
    place = str(entries[0]) if entries else shown(file)
    hint = suites.suggest(name.strip("/"), have) or (f"; parts and recipes: {', '.join(sorted(have))}" if have else "")
    looked = ", ".join(shown(folder) for folder in folders)
    return f"{place}: defaults: there is no part '{name:.60}'{hint} (looked in {looked})"


def _lay(origins: dict[Key, Origin], marks: Mapping[Key, Origin], package: Key) -> None:
    """Put one file's marks over those of earlier files. A list replaces a whole list."""
    for key, place in marks.items():
        if key[0] == "defaults":
            continue
        where = (*package, *key)
        for depth in range(1, len(package) + 1):
            origins.setdefault(package[:depth], place)
        if (*key, 0) in marks:
            _forget(origins, where)
        origins[where] = place


def _lay_override(origins: dict[Key, Origin], override: Any) -> None:
    from pdl.config.hydra_sources import assigned

    where, value = assigned(override)
    if override.is_delete() or not isinstance(value, dict):
        _forget(origins, where)
    origins[where] = place = Origin(override=str(override.input_line))
    for depth in range(1, len(where)):
        origins.setdefault(where[:depth], place)
    _lay_values(origins, where, value, place)


def _lay_values(origins: dict[Key, Origin], where: Key, value: Any, place: Origin) -> None:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        name = getattr(key, "text", key)
        origins[*where, name] = place
        _lay_values(origins, (*where, name), item, place)


def _forget(origins: dict[Key, Origin], where: Key) -> None:
    for key in [key for key in origins if key[: len(where)] == where]:
        del origins[key]


def _resolve(node: Any, path: Key, config: Config, budget: Iterator[int]) -> Node | Items:
    """OmegaConf's containers as Node and Items, with interpolations replaced; what cannot be replaced becomes a
    fault. `budget` counts the values.
    """
    from omegaconf import DictConfig

    result: Node | Items
    if len(path) > source.DEEPEST:
        config.faults.append(Fault(path[:2], "an interpolation that contains itself"))
        result = Items()
    elif isinstance(node, DictConfig):
        keys: list[Any] = list(node)
        result = Node({key: _value(node, key, (*path, key), config, budget) for key in keys})
    else:
        result = Items(_value(node, index, (*path, index), config, budget) for index in range(len(node)))
    result.path, result.origin = path, config.origin(path)
    return result


def _value(node: Any, key: Any, path: Key, config: Config, budget: Iterator[int]) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import InterpolationToMissingValueError

    taken = _INTERPOLATION if OmegaConf.is_interpolation(node, key) else 1
    if sum(1 for _ in islice(budget, taken)) < taken:
        raise ConfigError(f"{config.origin(path)}: {dotted(path[:1])}: interpolations stand for too many values")
    try:
        value = MISSING if OmegaConf.is_missing(node, key) else node[key]
    except InterpolationToMissingValueError:  # the missing value itself is a fault already
        config.faults.append(Fault(path, ""))
        return None
    except Exception as error:  # resolvers may raise anything
        config.faults.append(Fault(path, _interpolation(error)))
        return None
    if OmegaConf.is_config(value):
        return _resolve(value, path, config, budget)
    if taken > 1:
        config.kept[path] = str(node._get_node(key)._value()), value
    return value


def _keep(config: Config) -> None:
    """Leave in `kept` the values that come from the environment: those whose text says so, and those that another
    key is, or makes a text of."""
    found = {key: (text, value) for key, (text, value) in config.kept.items() if _ENVIRONMENT.search(text)}
    secrets = {str(value) for _, value in found.values() if value not in (None, "")}
    for key, (text, value) in config.kept.items():
        if any(secret == str(value) or (len(secret) > 3 and secret in str(value)) for secret in secrets):
            found.setdefault(key, (text, value))
    config.kept = found


def _interpolation(error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    first = first.removeprefix("KeyError raised while resolving interpolation: ").strip('"')
    advice = "write ${train.epochs} for another key, ${oc.env:NAME,default} for a variable"
    return f"interpolation cannot be resolved: {first}; {advice}"
