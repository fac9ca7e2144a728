"""What runs in use have in common."""

from __future__ import annotations

from typing import Any

from pdl.errors import ConfigError, DataError
from pdl.train import Recipe


def own_data(recipe: Recipe) -> Any:
    """The data set that a run learned from; DataError, with a way out, where it is not on this machine."""
    source = recipe.data.source
    if source is None:
        raise DataError("the run's recipe names no data, so its graph is not known; give one: --new-graph DIR")
    try:
        return source.build()
    except (DataError, ConfigError) as error:
        raise DataError(f"the graph of this run is not here, give one (--new-graph DIR): {error}") from None


__all__ = ["own_data"]
