"""What is drawn of an answer (`pdl predict --save`), as data; `pdl.report.answers` makes files of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdl.dtype import Array


@dataclass(frozen=True)
class Mark:
    """A place in an image: a polygon [[x, y], ...] in pixels, and the text that stands there, if any."""

    polygon: Sequence[Sequence[float]]
    text: str | None = None


@dataclass(frozen=True)
class Drawing:
    """An answer to look at: an image uint8 [H, W, 3] with marks and a caption below it, or an SVG.

    any_script   the caption is text of any script, which only a viewer of SVG has the fonts for
    """

    image: Array | None = None
    caption: str = ""
    marks: Sequence[Mark] = ()
    any_script: bool = False
    svg: str = ""
