"""What runs in use have in common."""

from __future__ import annotations

from typing import Any

from pdl.errors import ConfigError, DataError


def own_data(task: Any, cfg: Any) -> Any:
    """The data set that a run learned from; DataError, with a way out, where it is not on this machine."""
    split = next((name for name in ("train", "test", "val") if cfg["data"].get(name) is not None), None)
    if split is None:
        raise DataError("the run's recipe names no data, so its graph is not known; give one: --new-graph DIR")
    try:
        return task.datasets(cfg, (split,))[split]
    except (DataError, ConfigError) as error:
        raise DataError(f"the graph of this run is not here, give one (--new-graph DIR): {error}") from None


__all__ = ["own_data"]
