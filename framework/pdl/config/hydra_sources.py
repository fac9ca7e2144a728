"""Where hydra finds what recipes name: parts in folders, and the recipes of the suites as parts of others
(`defaults: [/rec/yoochoose64_srgnn, _self_]`). Every file is read by `pdl.config.source` first, which refuses what
hydra would not get to the end of.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.plugins import Plugins
from hydra.core.utils import setup_globals
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf, flag_override

from pdl.config import replacing, source
from pdl.config.named import shipped
from pdl.config.signature import TARGET
from pdl.config.tree import Key, split

HEADER = {"package": "_global_"}  # a recipe's keys are top-level keys, whatever its folder is called


class PartSource(FileConfigSource):  # type: ignore[misc]
    """Parts in a folder."""

    @staticmethod
    def scheme() -> str:
        """The scheme, which stands before ://."""
        return "pdl-parts"

    def load_config(self, config_path: str) -> ConfigResult:
        """The part."""
        source.read(Path(self.path, self._normalize_file_name(config_path)))
        return super().load_config(config_path)


class RecipeSource(ConfigSource):
    """Shipped recipes by their full names, in groups that are called as the suites; looked for once."""

    @cached_property
    def recipes(self) -> dict[str, Path]:
        """Their files by name."""
        return shipped()

    def file_of(self, name: str) -> Path | None:
        """The file of a recipe."""
        return self.recipes.get(name.strip("/").removesuffix(".yaml"))

    @staticmethod
    def scheme() -> str:
        """The scheme, which stands before ://."""
        return "pdl-recipes"

    def load_config(self, config_path: str) -> ConfigResult:
        """The recipe, as a part with top-level keys."""
        file = self.file_of(config_path)
        if file is None:
            raise ConfigLoadError(f"there is no recipe {config_path}")
        source.read(file)
        held: Any = OmegaConf.load(file)
        path = f"{self.scheme()}://{file}"
        return ConfigResult(config=held, path=path, provider=self.provider, header=dict(HEADER))

    def available(self) -> bool:
        """Suites may have none."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Whether recipes have names that begin so."""
        return config_path == "" or any(name.startswith(f"{config_path.strip('/')}/") for name in self.recipes)

    def is_config(self, config_path: str) -> bool:
        """Whether it is a recipe's full name."""
        return self.file_of(config_path) is not None

    def list(self, config_path: str, results_filter: Any) -> list[str]:
        """Names in a group; groups themselves are those of the parts."""
        inside = f"{config_path.strip('/')}/"
        return sorted(name.removeprefix(inside) for name in self.recipes if name.startswith(inside))


class Loader(ConfigLoaderImpl):  # type: ignore[misc]
    """Lays the files of a defaults list over one another, in its order; `notices` says of which parts another one took
    the place."""

    def __init__(self, path: ConfigSearchPathImpl) -> None:
        super().__init__(path)
        self.notices: list[str] = []

    def compose(self, name: str, overrides: Sequence[str]) -> tuple[Any, Sequence[Any]]:
        """The tree of a recipe with overrides, and the entries of its defaults list; hydra's own settings, which
        take longer to read than all else, are left out."""
        self.ensure_main_config_source_available()
        parsed, repo = self._parse_overrides_and_create_caching_repo(name, list(overrides))
        laid = create_defaults_list(repo, name, parsed, prepend_hydra=False, skip_missing=False)
        whole = self._compose_config_from_defaults_list(laid.defaults, repo)
        OmegaConf.set_struct(whole, True)
        for given in laid.config_overrides:
            self.override(whole, given)
        return whole, laid.defaults

    def _compose_config_from_defaults_list(self, defaults: Any, repo: Any) -> Any:
        whole = OmegaConf.create()
        for default in defaults:
            layer = super()._compose_config_from_defaults_list([default], repo)
            self.notices += replacing.lay_file(whole, layer)
            with flag_override(whole, "no_deepcopy_set_nodes", True):
                whole.merge_with(layer)
        return whole

    def override(self, whole: Any, given: Any) -> None:
        """Lay one override over a composed recipe."""
        path, value = assigned(given)
        plain = given.is_delete() or given.package is not None or not isinstance(value, dict)
        if plain or (given.is_add() and OmegaConf.select(whole, given.key_or_group) is not None):
            self._apply_overrides_to_config([given], whole)
        else:
            self.notices += replacing.lay_value(whole, path, value)


def assigned(given: Any) -> tuple[Key, Any]:
    """The place and the value of an override, a part under a short name written out."""
    path, value = split(given.key_or_group), None if given.is_delete() else given.value()
    if path and path[-1] == TARGET:
        path, value = path[:-1], {TARGET: value}
    return path, replacing.written_out(path, value)


def loader(folders: Sequence[Path]) -> Loader:
    """What composes the recipes of the first folder with parts of all. `hydra.compose` would do that by way of one
    state for the whole process.
    """
    with _preparing:  # what hydra does keep for the process
        version.setbase("1.3")
        known = SourcesRegistry.instance()
        if PartSource.scheme() not in known.types:
            setup_globals()
            Plugins.instance()
            known.register(PartSource)
            known.register(RecipeSource)
    path = ConfigSearchPathImpl()
    for folder in folders:
        path.append("main" if folder is folders[0] else "pdl", f"{PartSource.scheme()}://{folder}")
    path.append("pdl", f"{RecipeSource.scheme()}://recipes")
    path.append("schema", "structured://")
    return Loader(path)


_preparing = threading.Lock()
