"""Searchable PDF: the image of each page and, above it, its text, which is there for search and selection, not drawn.

The syntax is that of ISO 32000-1; the file is written page by page, so memory does not grow with the document. The text
is in Type 3 fonts whose glyphs draw nothing, codes given to characters as they come up and told by ToUnicode maps
(9.10.3). So any script can be found and copied, and no font program is needed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, BinaryIO

import numpy as np

from pdl.dtype import Array
from pdl.runtime.documents import DPI
from pdl.runtime.images import opencv
from pdl_ocr.documents.page import DESCENT, Word, grouped, lines_of, shown, words

QUALITY = 85  # of the JPEG of a page
MOST_POINTS = 14_400  # of a side of a page (annex C)
CODES = 255  # characters of a font: codes of a byte but 0
WIDTH = 500  # of every glyph, thousandths of the size
_CATALOG, _PAGES, _FONTS, _GLYPH, _INFO = range(1, 6)


class PdfWriter:
    """Writes a searchable PDF into an open file: `add` its pages in order, then `close`."""

    def __init__(self, file: BinaryIO, title: str = "") -> None:
        self._file, self._title, self._at = file, title, 0
        self._starts: dict[int, int] = {}
        self._next = _INFO + 1
        self._pages: list[int] = []
        self._codes: dict[str, int] = {}
        self._write(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")

    def add(self, image: Array, page: Mapping[str, Any], dpi: float = DPI) -> None:
        """A page: its image uint8 [H, W, 3] (RGB) at so many pixels an inch, and the answer for it. Pixels stay as they
        are; where the page was read turned, programs show it so (/Rotate)."""
        height, width = image.shape[:2]
        scale = min(72 / dpi, MOST_POINTS / max(height, width))
        gray, jpeg = _jpeg(image)
        space = b"/DeviceGray" if gray else b"/DeviceRGB"
        facts = b"/Type /XObject /Subtype /Image /Width %d /Height %d /BitsPerComponent 8 /Filter /DCTDecode " % (
            width, height
        )  # fmt: skip
        picture = self._stream(jpeg, facts + b"/ColorSpace " + space)
        size = width * scale, height * scale
        drawn = b"q %.4f 0 0 %.4f 0 0 cm /Page Do Q\n" % size
        content = self._stream(zlib.compress(drawn + self._text(page, height, scale)), b"/Filter /FlateDecode")
        self._pages.append(
            self._object(
                b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 %.4f %.4f] /Rotate %d /Contents %d 0 R /Resources "
                b"<< /XObject << /Page %d 0 R >> /Font %d 0 R >> >>"
                % (_PAGES, *size, shown(page), content, picture, _FONTS)
            )
        )

    def close(self) -> None:
        """Write what pages share, and the table of objects. The file stays open."""
        self._object(b"<< /Type /Catalog /Pages %d 0 R >>" % _PAGES, _CATALOG)
        kids = b" ".join(b"%d 0 R" % each for each in self._pages)
        self._object(b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(self._pages), kids), _PAGES)
        self._stream(b"%d 0 0 %d %d %d d1" % (WIDTH, -1000 * DESCENT, WIDTH, 1000 * (1 - DESCENT)), b"", _GLYPH)
        letters = list(self._codes)
        fonts = [self._font(letters[i : i + CODES]) for i in range(0, len(letters), CODES)]
        self._object(b"<< %s >>" % b" ".join(b"/F%d %d 0 R" % each for each in enumerate(fonts)), _FONTS)
        title = (b"\xfe\xff" + self._title.encode("utf-16-be", "replace")).hex().encode()
        self._object(b"<< /Title <%s> /Producer (pdl-ocr) >>" % title, _INFO)
        begin, count = self._at, self._next
        entries = b"".join(b"%010d 00000 n \n" % self._starts[number] for number in range(1, count))
        self._write(b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, entries))
        trailer = b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n"
        self._write(trailer % (count, _CATALOG, _INFO, begin))

    # -- text ----------------------------------------------------------------------------------------------------------
    def _text(self, page: Mapping[str, Any], height: int, scale: float) -> bytes:
        """The operators that write the words of a page, each along its line and as long as it is there."""
        found = (word for block in grouped(page) for line in lines_of(block) for word in words(line))
        return b"BT 3 Tr\n" + b"".join(self._word(word, height, scale) for word in found) + b"ET\n"

    def _word(self, word: Word, height: int, scale: float) -> bytes:
        along, down = word.corners[1] - word.corners[0], word.corners[3] - word.corners[0]
        length, size = float(np.hypot(*along)), float(np.hypot(*down))
        if length < 1e-3 or size < 1e-3:
            return b""
        (ux, uy), (vx, vy) = along / length, down / size
        x, y = word.corners[0] + (1 - DESCENT) * down
        stretch = 100 * length / (len(word.text) * WIDTH / 1000 * size)
        matrix = (ux, -uy, -vx, vy, x * scale, (height - y) * scale)
        start = b"%.3f Tz %s Tm\n" % (stretch, b" ".join(b"%.5f" % each for each in matrix))
        return start + b"".join(
            b"/F%d %.3f Tf <%s> Tj\n" % (font, size * scale, codes) for font, codes in self._runs(word.text + " ")
        )

    def _runs(self, text: str) -> Iterator[tuple[int, bytes]]:
        """The number of a font and hexadecimal codes in it, for each part of a text that is in one font."""
        places = [divmod(self._codes.setdefault(letter, len(self._codes)), CODES) for letter in text]
        for font, some in groupby(places, key=lambda place: place[0]):
            yield font, b"".join(b"%02X" % (code + 1) for _, code in some)

    def _font(self, letters: list[str]) -> int:
        """A font of these characters, with codes from 1 on."""
        names, widths = b"/e " * len(letters), b"%d " % WIDTH * len(letters)
        unicode = self._stream(zlib.compress(to_unicode(letters)), b"/Filter /FlateDecode")
        box = b"[0 %d %d %d]" % (-1000 * DESCENT, WIDTH, 1000 * (1 - DESCENT))
        return self._object(
            b"<< /Type /Font /Subtype /Type3 /FontBBox %s /FontMatrix [0.001 0 0 0.001 0 0] /CharProcs << /e %d 0 R >> "
            b"/Encoding << /Type /Encoding /Differences [1 %s] >> /FirstChar 1 /LastChar %d /Widths [%s] "
            b"/Resources << >> /ToUnicode %d 0 R >>" % (box, _GLYPH, names, len(letters), widths, unicode)
        )

    # -- objects -------------------------------------------------------------------------------------------------------
    def _stream(self, data: bytes, facts: bytes, number: int | None = None) -> int:
        content = b"<< /Length %d %s >>\nstream\n" % (len(data), facts)
        return self._object(content + data + b"\nendstream", number)

    def _object(self, content: bytes, number: int | None = None) -> int:
        if number is None:
            number, self._next = self._next, self._next + 1
        self._starts[number] = self._at
        self._write(b"%d 0 obj\n" % number + content + b"\nendobj\n")
        return number

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._at += len(data)


def to_unicode(letters: list[str]) -> bytes:
    """The CMap that tells what the codes 1, 2, ... stand for; a section has at most 100 entries."""
    entries = [b"<%02X> <%s>" % (code, _utf16(letter)) for code, letter in enumerate(letters, 1)]
    sections = (entries[i : i + 100] for i in range(0, len(entries), 100))
    maps = b"".join(b"%d beginbfchar\n%s\nendbfchar\n" % (len(some), b"\n".join(some)) for some in sections)
    return (
        b"/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n"
        b"/CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n"
        b"1 begincodespacerange\n<00> <FF>\nendcodespacerange\n" + maps + b"endcmap\n"
        b"CMapName currentdict /CMap defineresource pop\nend\nend\n"
    )


def _utf16(letter: str) -> bytes:
    return letter.encode("utf-16-be").hex().upper().encode()


def _jpeg(image: Array) -> tuple[bool, bytes]:
    """Whether an image has no colours, and the JPEG of it."""
    cv2 = opencv("the pages of a PDF are packed")
    gray = bool((image[..., 0] == image[..., 1]).all() and (image[..., 1] == image[..., 2]).all())
    given = np.ascontiguousarray(image[..., 0] if gray else image[..., ::-1])
    return gray, bytes(cv2.imencode(".jpg", given, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1])
