"""Every command and every Python example in the README is run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands(language: str = "bash") -> list[str]:
    """The `pdl` lines of the shell examples, without their comments, in order; those marked `sh` need the network."""
    lines = [line.strip() for block in blocks(language) for line in block.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith("pdl ")]


def shortened(command: str) -> list[str]:
    """A command as words; trainings take one epoch here."""
    words = shlex.split(command)
    if words[1] in ("train", "leaderboard") and "--resume" not in words:
        words = [w for w in words if not w.startswith("train.epochs=")] + ["train.epochs=1"]
    return words


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with what the reader of the README has: the recipes, photos, a file of clicks, a graph, a table."""
    import cv2

    from pdl_rec.data import standin

    (tmp_path / "configs").symlink_to(ROOT / "configs")
    rng = np.random.default_rng(0)
    for number, name in enumerate(["cat", "dog"]):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(20):
            image = rng.integers(0, 60, (64, 80, 3), dtype=np.uint8)
            image[:, :, number] += 150
            cv2.imwrite(str(tmp_path / f"photos/{name}/{i}.png"), image)
    clicks = ["visitor,product,time"]
    for number, items, times in standin.draw("clicks", sessions=300):
        clicks += [f"v{number},p{item},{time}" for item, time in zip(items, times, strict=True)]
    (tmp_path / "clicks.csv").write_text("\n".join(clicks) + "\n")
    _write_friends(tmp_path / "friends")
    points = rng.normal(0, 0.3, (80, 2)) + (np.arange(80) % 2)[:, None]
    rows = [f"{x:.3f},{y:.3f},{'ab'[i % 2]}" for i, (x, y) in enumerate(points)]
    (tmp_path / "points.csv").write_text("\n".join(["x,y,label", *rows]) + "\n")
    page = np.full((240, 480, 3), 255, np.uint8)
    cv2.putText(page, "TEXT 3457", (128, 114), cv2.FONT_HERSHEY_SIMPLEX, 1.0, (0, 0, 0), 2, cv2.LINE_AA)
    cv2.imwrite(str(tmp_path / "page.png"), page)
    cv2.imwrite(str(tmp_path / "line.png"), page[80:128, 120:350])
    return tmp_path


def _write_friends(folder: Path) -> None:
    """Two circles of friends, with what they like."""
    names = ["ann", "bob", *(f"n{i}" for i in range(58))]
    rng = np.random.default_rng(0)
    liked = (rng.random((60, 4)) < 0.2) | (np.arange(4) // 2 == np.arange(60)[:, None] % 2)
    nodes = [f"{n},{'xy'[i % 2]},{','.join(map(str, liked[i].astype(int)))}" for i, n in enumerate(names)]
    edges = [f"{names[i]},{names[j]}" for i in range(60) for j in range(i % 2, i, 2) if rng.random() < 0.2]
    folder.mkdir()
    (folder / "nodes.csv").write_text("\n".join(["id,label,tea,chess,film,sport", *nodes]) + "\n")
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")


def test_commands_of_the_readme(place: Path) -> None:
    assert len(commands()) > 8
    for command in commands():
        words = shortened(command)
        assert words[0] == "pdl"
        done = subprocess.run([sys.executable, "-m", *words], cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.parametrize("command", commands("sh"))
def test_commands_that_need_the_network(command: str, place: Path) -> None:
    env = {**os.environ, "PDL_CACHE": str(place / "cache")}
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, check=False)
    if "is not to be had" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr[-2000:]


def test_python_examples_of_the_readme(place: Path) -> None:
    assert blocks("python")
    example = place / "example.py"  # a file, as readers have it: `to_static` needs the source
    for block in blocks("python"):
        example.write_text(block)
        done = subprocess.run([sys.executable, example], cwd=place, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]


def test_the_two_commands_are_what_ci_runs() -> None:
    script = (ROOT / ".ci/run").read_text()
    first, second = re.findall(r"^    (pip install .*)$", README, re.MULTILINE)[:2]
    for command in (*first.split(" && "), *second.split(" && ")):
        core = command.replace("pip install ", "pip install --quiet ")
        assert core in script, f"{core!r} is not in .ci/run"


def documents() -> list[Path]:
    """The Markdown files of the checkout that people read."""
    return [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        name, _, anchor = target.partition("#")
        if "://" in target:
            continue
        place = document if not name else document.parent / name
        assert place.exists(), f"{document.name} links to {name}"
        if anchor:
            assert anchor in anchors(place), f"{document.name}: {place.name} has no heading #{anchor}"


def anchors(document: Path) -> set[str]:
    """What headings are linked by, as on GitHub."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_ci_can_be_started() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK)
