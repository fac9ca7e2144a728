"""Where hydra finds the recipes of the suites as parts of others: `defaults: [/rec/yoochoose64_srgnn, _self_]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from omegaconf import OmegaConf

from pdl.config.named import shipped

SCHEME = "pdl-recipes"
HEADER = {"package": "_global_"}  # a recipe's keys are top-level keys, whatever its folder is called


def file_of(name: str) -> Path | None:
    """The file of a shipped recipe, by its full name."""
    return shipped().get(name.strip("/").removesuffix(".yaml"))


class RecipeSource(ConfigSource):
    """Shipped recipes by their full names, in groups that are called as the suites."""

    @staticmethod
    def scheme() -> str:
        """What stands before ://."""
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        """The recipe, as a part with top-level keys."""
        file = file_of(config_path)
        if file is None:
            raise ConfigLoadError(f"there is no recipe {config_path}")
        held: Any = OmegaConf.load(file)
        return ConfigResult(config=held, path=f"{SCHEME}://{file}", provider=self.provider, header=dict(HEADER))

    def available(self) -> bool:
        """Suites may have none."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Whether recipes have names that begin so."""
        return config_path == "" or any(name.startswith(f"{config_path.strip('/')}/") for name in shipped())

    def is_config(self, config_path: str) -> bool:
        """Whether it is a recipe's full name."""
        return file_of(config_path) is not None

    def list(self, config_path: str, results_filter: Any) -> list[str]:
        """Names in a group; groups themselves are those of the parts."""
        inside = f"{config_path.strip('/')}/"
        return sorted(name.removeprefix(inside) for name in shipped() if name.startswith(inside))


def offered() -> str:
    """The entry of hydra's search path."""
    Plugins.instance().register(RecipeSource)
    return f"{SCHEME}://recipes"


__all__ = ["RecipeSource", "file_of", "offered"]
