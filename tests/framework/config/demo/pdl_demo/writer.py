"""Recipes for the user's own data, as `pdl init` asks for them."""

from pathlib import Path
from typing import Annotated

from pdl.runtime.steps import Flag


def write_recipe(
    data: Path, *, width: Annotated[str | None, Flag("--width", "N", "How wide the net is.")] = None
) -> str:
    """A recipe that is good."""
    return f"""\
# points in {data}
defaults: [/demo/base, _self_]
model: {{_target_: pdl_demo.Net, width: {width or 8}}}
data:
  train: {{_target_: pdl_demo.Points, split: train, n: 64}}
"""


def write_broken(data: Path) -> str:
    """A recipe that is not."""
    return "model: {_target_: pdl_demo.Net}\n"
