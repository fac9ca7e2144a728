"""The pictures of docs/gallery.md: recipes are trained, and sections of their reports photographed by a browser.

    python tools/gallery.py                       # all of them, into docs/gallery/
    python tools/gallery.py digits cut            # these

Needs chromium (or the browser that --browser names) and, for Cora, its data under PDL_DATA; the other recipes come with
their data. Pictures are cut to what is drawn and stored with a palette of 64 colours, so that all of them together stay
below 1 MB.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from pdl.cli import main as pdl

ROOT = Path(__file__).parents[1]
COLOURS = 64
MARGIN = 16


@dataclass(frozen=True)
class Picture:
    """Sections of the report of a recipe, by their headings; `top`: the title and what stands below it, too."""

    recipe: str
    sections: tuple[str, ...]
    width: int = 760
    top: bool = False


PICTURES = {
    "digits": Picture("cv/digits_lenet", ("Curves", "Result", "Baselines"), 1200, top=True),
    "confusion": Picture("cv/digits_lenet", ("Confusion matrix", "Worst mistakes")),
    "cora": Picture("graph/cora_gcn", ("Nodes in the plane (test)",)),
    "circles": Picture("quantum/circles_classifier", ("The plane", "Circuit")),
    "curve": Picture("quantum/h2_curve_vqe", ("Energy by bond length (angstrom)",)),
    "cut": Picture("quantum/maxcut_petersen_qaoa", ("Best sample", "Samples")),
}


def train(recipe: str, runs: Path) -> Path:
    """The run folder of a recipe, trained once."""
    run = runs / recipe.replace("/", "_")
    if not run.exists() and pdl(["train", "-c", recipe, "--run", str(run)]):
        raise SystemExit(f"{recipe} failed")
    return run


def excerpt(report: str, picture: Picture) -> str:
    """The report with only some of its sections."""
    head, _, body = report.partition("<body>")
    head = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", head
    )  # it names the script of the whole page
    found = dict(re.findall(r"(?s)<section><h2>(.*?)</h2>(.*?)</section>", body))
    missing = set(picture.sections) - found.keys()
    if missing:
        raise SystemExit(f"{picture.recipe}: no section {', '.join(missing)}; there are {', '.join(found)}")
    lead = re.split(r'<section>|<div class="beside">', body)[0] if picture.top else ""
    made = "".join(f"<section><h2>{name}</h2>{found[name]}</section>" for name in picture.sections)
    sections = f'<div class="beside">{made}</div>'
    return f"{head}<body style='margin: 16px; max-width: none'>{lead}{sections}</body></html>"


def photograph(html: str, picture: Picture, browser: str) -> np.ndarray:
    """The page as a browser draws it, uint8 [H, W, 3], without the empty part."""
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "page.html", Path(folder) / "page.png"
        page.write_text(html)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={shot}"]
        size = f"--window-size={picture.width},4000"
        subprocess.run([browser, *options, size, page.as_uri()], check=True, capture_output=True)
        image = cv2.imread(str(shot))
    drawn = np.argwhere((image != image[-1, -1]).any(axis=2))
    bottom, right = drawn.max(axis=0) + MARGIN
    return image[:bottom, :right]


def write(image: np.ndarray, path: Path) -> None:
    """A PNG with few colours: the most frequent ones, each pixel the nearest of them."""
    coarse = (image // 8).astype(np.int64)
    keys = coarse[..., 0] << 10 | coarse[..., 1] << 5 | coarse[..., 2]
    values, first, counts = np.unique(keys, return_index=True, return_counts=True)
    order = np.argsort(-counts)
    palette = image.reshape(-1, 3)[first[order[:COLOURS]]].astype(np.int64)
    every = image.reshape(-1, 3)[first].astype(np.int64)
    nearest = palette[((every[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1)]
    small = nearest[np.searchsorted(values, keys)].astype(np.uint8)
    cv2.imwrite(str(path), small, [cv2.IMWRITE_PNG_COMPRESSION, 9])


def main() -> None:
    """Make the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*PICTURES, []], help="pictures; all by default")
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--runs", type=Path, default=Path("runs/gallery"), help="runs are kept here")
    given = parser.parse_args()
    os.chdir(ROOT)  # so that commands in the pictures name no folder of this machine
    folder = ROOT / "docs/gallery"
    folder.mkdir(exist_ok=True)
    for name in given.names or PICTURES:
        picture = PICTURES[name]
        report = (train(picture.recipe, given.runs) / "report.html").read_text()
        path = folder / f"{name}.png"
        write(photograph(excerpt(report, picture), picture, given.browser), path)
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")
    net = folder / "lenet.svg"
    if not given.names and pdl(["graph", "cv/digits_lenet", "-o", str(net)]) == 0:
        print(f"{net.relative_to(ROOT)}  {net.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
