"""Pages as cameras and scanners deliver them: where a sheet lies in a photograph, which way its lines run, and the page
as it is seen from straight above, upright.

Sheets are found by outlines and edges, without a net; the direction of lines by the boxes that a detector draws around
them. Lines are positions (x, y) of corners in pixels, pixel (0, 0) covering the square from 0 to 1; angles are radians,
clockwise on a screen from the x axis, and say where a line's text runs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.images import opencv
from pdl_ocr.steps.boxes import clockwise

SIDE = 512  # pixels of the longer side of the image that sheets are looked for on
LETTERS = 9  # pixels there: dark strokes that are thinner are closed, so that paper is of one shade
AREA = (0.15, 0.97)  # of the image that a sheet takes up, at least and at most
CORNER = 0.77  # the cosine of the sharpest corner of a sheet, about 40 degrees
BESIDE = 3  # pixels there between a side and where the shades on both sides of it are compared
PAPER = 12  # grey levels that paper is lighter than what it lies on, ...
SEEN = 0.85  # ... along this share of each side of the sheet
LONG = 2.0  # times as long as high are the lines that tell a direction
AGREE = 0.5  # the least length of the mean of their directions, of 1 where all are the same
LEAN = np.radians(1.0)  # by which lines may lean from a quarter turn on a page that is taken as straight
WITHIN = 0.9  # of the length of all lines lies on the sheet that a page is
MOST = (1 << 15) - 2  # pixels of a side: OpenCV's warps take no more


@dataclass(frozen=True)
class Rectified:
    """A page seen from straight above, upright: its size in pixels, and the homography float64 [3, 3] that takes
    positions in the image to positions on the page."""

    homography: Array
    width: int
    height: int

    @classmethod
    def of(cls, size: tuple[int, int], sheet: Array | None, angle: float) -> Rectified | None:
        """Of an image of `size` (height, width): the `sheet` [4, 2] alone (None: the whole image) as a rectangle with
        the lengths of its longer sides, turned so that what runs at `angle` there runs to the right. None where that is
        the image as it is, or is larger than can be."""
        flat, width, height = (np.eye(3), float(size[1]), float(size[0])) if sheet is None else _flat(sheet)
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
        corners = project(turn, rectangle(width, height))
        least, most = corners.min(axis=0), corners.max(axis=0)
        turn[:2, 2] = -least
        wide, high = (max(1, round(float(side))) for side in most - least)
        homography = turn @ flat
        if max(wide, high) > MOST or np.allclose(homography, np.eye(3), atol=1e-9):
            return None
        return cls(homography, wide, high)

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> Rectified:
        """Of what `facts` says."""
        return cls(np.array(facts["homography"], np.float64), facts["width"], facts["height"])

    @property
    def facts(self) -> dict[str, Any]:
        """As plain values: {"homography", "width", "height"}."""
        return {"homography": self.homography.tolist(), "width": self.width, "height": self.height}

    def image(self, image: Array) -> Array:
        """The page, of the image uint8 [H, W] or [H, W, C]; what lies outside is filled with the nearest pixels."""
        cv2 = opencv("pages are rectified")
        half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])  # OpenCV's pixel (0, 0) has its middle there
        move = np.linalg.inv(half) @ self.homography @ half
        size = self.width, self.height
        made: Array = cv2.warpPerspective(
            np.ascontiguousarray(image), move, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        return made

    def forth(self, points: Any) -> Array:
        """Positions [..., 2] in the image as positions on the page."""
        return project(self.homography, points)

    def back(self, points: Any) -> Array:
        """Positions [..., 2] on the page as positions in the image."""
        return project(np.linalg.inv(self.homography), points)


def project(homography: Array, points: Any) -> Array:
    """Positions [..., 2] under a homography [3, 3]; those on the horizon are very far away."""
    found = np.asarray(points, np.float64)
    made = found @ homography[:, :2].T + homography[:, 2]
    under = made[..., 2:]
    return made[..., :2] / np.where(np.abs(under) < 1e-12, 1e-12, under)


def rectangle(width: float, height: float) -> Array:
    """The corners [4, 2] of a rectangle, clockwise from (0, 0)."""
    return np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float64)


def _flat(sheet: Array) -> tuple[Array, float, float]:
    """The homography from a quadrilateral to a rectangle with the lengths of its longer sides, and these."""
    cv2 = opencv("pages are rectified")
    sides = np.hypot(*(np.roll(sheet, -1, axis=0) - sheet).T)
    width, height = (float(max(1, round(float(sides[i::2].max())))) for i in (0, 1))
    move = cv2.getPerspectiveTransform(sheet.astype(np.float32), rectangle(width, height).astype(np.float32))
    return np.asarray(move, np.float64), width, height


def laid(image: Array, corners: Array) -> tuple[Array | None, float]:
    """How a page with these lines [N, 4, 2] lies on its image: the corners [4, 2] of the sheet that they are on, None
    where none is found, and the angle at which they run on it; quarter turns are exact where lines lean by less than
    `LEAN`."""
    paper = sheet(image)
    if paper is not None and not _lies_on(paper, corners):
        paper = None
    angle = direction(corners if paper is None else project(_flat(paper)[0], corners))
    quarter = round(angle / (np.pi / 2)) * np.pi / 2
    return paper, quarter if abs(angle - quarter) < LEAN else angle


def _lies_on(paper: Array, corners: Array) -> bool:
    """Whether the middles of the lines are on a sheet, but for few."""
    cv2 = opencv("sheets of paper are found")
    outline = paper.astype(np.float32)
    inside = [cv2.pointPolygonTest(outline, tuple(map(float, each.mean(axis=0))), False) >= 0 for each in corners]
    lengths = np.hypot(*(corners[:, 2] - corners[:, 0]).T)
    return bool(len(corners) and lengths[inside].sum() >= WITHIN * lengths.sum())


# -- lines -------------------------------------------------------------------------------------------------------------
def direction(corners: Array) -> float:
    """The angle at which the lines [N, 4, 2] of a page run, from -45 to 135 degrees: which end their text begins at
    cannot be seen of boxes. The median over long lines, each counted by how much longer than high it is; 0 where there
    are none, or where they run in all directions."""
    across = (corners[:, 1] - corners[:, 0] + corners[:, 2] - corners[:, 3]) / 2
    down = (corners[:, 3] - corners[:, 0] + corners[:, 2] - corners[:, 1]) / 2
    width, height = np.hypot(*across.T), np.hypot(*down.T)
    along = np.where((width >= height)[:, None], across, down)
    weights = np.maximum(width, height) - np.minimum(width, height)
    long = np.maximum(width, height) > LONG * np.minimum(width, height)
    if not long.any():
        return 0.0
    angles, weights = np.arctan2(along[long, 1], along[long, 0]), weights[long]
    mean = (weights * np.exp(2j * angles)).sum() / weights.sum()  # an angle and the opposite one are the same
    if abs(mean) < AGREE:
        return 0.0
    middle = float(np.angle(mean)) / 2
    apart = (angles - middle + np.pi / 2) % np.pi - np.pi / 2
    order = np.argsort(apart)
    at = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    angle = middle + float(apart[order][min(at, len(order) - 1)])
    return (angle + np.pi / 4) % np.pi - np.pi / 4


def begun(corners: Array, seen: Array, angle: float) -> Array:
    """Quadrilaterals [N, 4, 2] whose first corner is the upper left one where text runs at an angle: of the four sides
    that from the first to the second corner is the nearest to it. `seen` are the same where the angle holds."""
    sides = np.roll(seen, -1, axis=1) - seen
    first = (sides @ (np.cos(angle), np.sin(angle)) / np.maximum(np.hypot(*sides.T).T, 1e-9)).argmax(axis=1)
    order = (first[:, None] + np.arange(4)) % 4
    return np.take_along_axis(corners, order[:, :, None], axis=1)


# -- sheets ------------------------------------------------------------------------------------------------------------
def sheet(image: Array) -> Array | None:
    """The corners float64 [4, 2] of a sheet of paper in a photograph uint8 [H, W, 3] (RGB) or [H, W], clockwise from
    the upper left one: of the convex quadrilaterals among the outlines the largest that is lighter than its
    surroundings along all four sides. None where a page fills the image, and where nothing is sure."""
    cv2 = opencv("sheets of paper are found")
    height, width = image.shape[:2]
    factor = min(1.0, SIDE / max(height, width))
    size = max(1, round(width * factor)), max(1, round(height * factor))
    if min(size) < 8 * BESIDE:
        return None
    small = cv2.resize(np.ascontiguousarray(image), size, interpolation=cv2.INTER_AREA)
    shades = cv2.morphologyEx(small, cv2.MORPH_CLOSE, np.ones((LETTERS, LETTERS), np.uint8))
    light = shades if shades.ndim == 2 else cv2.cvtColor(shades, cv2.COLOR_RGB2GRAY)
    found = [each for mask in _masks(shades, light) for each in _quadrilaterals(mask)]
    for corners in sorted(found, key=cv2.contourArea, reverse=True):
        if _is_paper(light, corners):
            scale = np.array([width, height]) / size
            return clockwise(np.clip((corners.astype(np.float64) + 0.5) * scale, 0, (width, height)))
    return None


def _masks(shades: Array, light: Array) -> Iterator[Array]:
    """Images uint8 [H, W] whose outlines may be that of a sheet: what is light, what has little colour, what edges
    enclose."""
    cv2 = opencv("sheets of paper are found")
    blurred = cv2.GaussianBlur(light, (5, 5), 0)
    yield cv2.threshold(blurred, 0, 255, cv2.THRESH_BINARY | cv2.THRESH_OTSU)[1]
    if shades.ndim == 3:
        r, g, b = cv2.split(shades)
        colour = cv2.GaussianBlur(cv2.max(cv2.max(r, g), b) - cv2.min(cv2.min(r, g), b), (5, 5), 0)
        yield cv2.threshold(colour, 0, 255, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)[1]
    for low in (20, 60):
        edges = cv2.Canny(blurred, low, 3 * low)
        yield cv2.dilate(edges, np.ones((3, 3), np.uint8))


def _quadrilaterals(mask: Array) -> Iterator[Array]:
    """The convex quadrilaterals float32 [4, 2] that large outlines have the form of."""
    cv2 = opencv("sheets of paper are found")
    outlines, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
    least, most = (share * mask.size for share in AREA)
    for outline in outlines:
        hull = cv2.convexHull(outline)
        if not least <= cv2.contourArea(hull) <= most:
            continue
        near = cv2.approxPolyDP(hull, 0.02 * cv2.arcLength(hull, True), True)
        if len(near) == 4:
            corners = _sharpened(near.reshape(4, 2).astype(np.float32), outline.reshape(-1, 2).astype(np.float32))
            if corners is not None and least <= cv2.contourArea(corners) <= most:
                yield corners


def _sharpened(corners: Array, outline: Array) -> Array | None:
    """A quadrilateral whose sides are fitted to the points of the outline near them; None where it is none, or has
    corners as no sheet has."""
    cv2 = opencv("sheets of paper are found")
    lines = []
    for begin, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        length = max(float(np.hypot(*(end - begin))), 1e-6)
        along = (end - begin) / length
        away = outline - begin
        position, distance = away @ along, np.abs(away @ (-along[1], along[0]))
        near = outline[(distance < 0.02 * length + 2) & (position > 0.1 * length) & (position < 0.9 * length)]
        if len(near) < 8:
            return None
        vx, vy, x, y = cv2.fitLine(near, cv2.DIST_HUBER, 0, 0.01, 0.01).ravel().tolist()
        lines.append((vy, -vx, vy * x - vx * y))
    made = np.array([_crossing(lines[i - 1], lines[i]) for i in range(4)], np.float32)
    sides = np.roll(made, -1, axis=0) - made
    units = sides / np.maximum(np.hypot(*sides.T)[:, None], 1e-6)
    cosines = np.abs((units * np.roll(units, -1, axis=0)).sum(axis=1))
    good = np.isfinite(made).all() and cosines.max() <= CORNER and cv2.isContourConvex(made.reshape(-1, 1, 2))
    return made if good else None


def _crossing(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Where two lines a x + b y = c meet."""
    under = a[0] * b[1] - a[1] * b[0]
    if abs(under) < 1e-9:
        return np.inf, np.inf
    return (a[2] * b[1] - a[1] * b[2]) / under, (a[0] * b[2] - a[2] * b[0]) / under


def _is_paper(light: Array, corners: Array) -> bool:
    """Whether `light` [H, W] is lighter within each side of a quadrilateral than beyond it; a side at the border of the
    image has nothing beyond it."""
    last = np.array(light.shape[::-1]) - 1
    middle = corners.mean(axis=0)
    for begin, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        along = (end - begin) / np.hypot(*(end - begin))
        inwards = np.array([-along[1], along[0]])
        inwards = inwards if inwards @ (middle - begin) > 0 else -inwards
        points = begin + np.linspace(0.05, 0.95, 60)[:, None] * (end - begin)
        inside, outside = (np.rint(points + sign * BESIDE * inwards).astype(int) for sign in (1, -1))
        there = ((inside >= 0) & (inside <= last) & (outside >= 0) & (outside <= last)).all(axis=1)
        inside, outside = inside[there].T, outside[there].T
        lighter = light[inside[1], inside[0]].astype(int) - light[outside[1], outside[0]] >= PAPER
        if lighter.sum() < SEEN * len(points):
            return False
    return True
