"""pdl-speech: speech and sound. Recipes name its parts as `pdl_speech.AudioClassification`, `pdl_speech.DSCNN`,
`pdl_speech.features.LogMel`, `pdl_speech.data.AudioFolder`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_speech.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_speech.OldName": "pdl_speech.NewName"}; recipes with the old ones keep working."""

INIT = {
    task: f"pdl_speech.{task}.init:write_recipe"
    for task in ("classification", "recognition", "slots", "speakers", "synthesis")
}
"""What `pdl init speech.<task>` calls."""

__getattr__, __dir__ = names_of("pdl_speech.api")
