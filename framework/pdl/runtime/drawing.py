"""What is drawn of an answer (`pdl predict --save`), as data; `pdl.report.answers` makes files of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdl.dtype import Array


@dataclass(frozen=True)
class Mark:
    """A place in an image.

    polygon  [[x, y], ...] in pixels
    text     that stands there in the image, shown beside it
    label    what is there, written at its upper left corner
    colour   marks of one number have one colour; None: each has its own
    filled   the inside is tinted, too
    closed   the last corner is joined with the first; without, the polygon is a line
    """

    polygon: Sequence[Sequence[float]]
    text: str | None = None
    label: str = ""
    colour: int | None = None
    filled: bool = False
    closed: bool = True


@dataclass(frozen=True)
class Drawing:
    """An answer to look at: an image uint8 [H, W, 3] with marks and a caption below it, or an SVG.

    any_script   the caption is text of any script, which only a viewer of SVG has the fonts for
    plain        the image is the answer, and written as it is, without a caption
    """

    image: Array | None = None
    caption: str = ""
    marks: Sequence[Mark] = ()
    any_script: bool = False
    svg: str = ""
    plain: bool = False
