"""A kind of input that only a suite knows: a package on disk adds it, and no file of pdl does."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pdl
from pdl import nn, packages
from pdl.cli import main
from pdl.dims import Dim
from pdl.dtype import float32
from pdl.errors import CheckError, DataError, PackageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.ops.base import Spec
from pdl.runtime import load
from pdl.runtime.info import info
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import Resources

Capture = pytest.CaptureFixture[str]

TUNES = '''
"""Tunes in, the likeliest chords out."""

import numpy as np

from pdl.errors import DataError
from pdl.runtime import tables
from pdl.runtime.steps import Drawing, Flag, Input, InputStep, Labelled, Ranking, ranked_alike

NOTES = "C D E F G A B".split()
compared = []


class Tune(InputStep):
    """Notes between blanks -> how often each occurs, float32 [7]."""

    name = "tune"
    takes, metavar, about = "tune", "'NOTE NOTE ...'", "notes between blanks, or a file of tunes"

    @property
    def flags(self):
        return (*super().flags, Flag("--scale", "NOTE", "the scale of a note"))

    def from_flags(self, values):
        scales = [NOTES[NOTES.index(note):] + NOTES[:NOTES.index(note)] for note in values.get("--scale", ())]
        return [*values.get("--tune", ()), *(Input(f"scale of {scale[0]}", " ".join(scale)) for scale in scales)]

    def parse(self, item, sample):
        known = [NOTES.index(note) for note in item.split() if note in NOTES]
        sample.note_unknown([note for note in item.split() if note not in NOTES])
        if not known:
            raise DataError(f"{item!r} has no note that the model knows")
        return np.bincount(known, minlength=7).astype(np.float32)

    def file(self, path):
        return (Input(name, line) for name, line in tables.text_lines(path, "tune"))

    def draw(self, item, caption, marks):
        return Drawing(svg=f"<svg><title>{item}: {caption}</title></svg>")


class Chords(Labelled, Ranking):
    """{"chords": [{"chord", "score"}]}, best first."""

    name = "chords"

    def __init__(self, k=2):
        self.k = k

    def __call__(self, value, sample):
        order = np.argsort(-value, kind="stable")[: self.k]
        return {"chords": [{"chord": self.label(int(i)), "score": float(value[i])} for i in order]}

    def rows(self, answer):
        return answer["chords"]

    def agrees(self, ours, theirs, tolerance, sample):
        compared.append(sample.inputs["x"].tolist())
        return ranked_alike(ours["chords"], theirs["chords"], "chord", tolerance)

    def caption(self, answer):
        return answer["chords"][0]["chord"]
'''

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """`install(name)` puts a distribution of the steps on the path."""
    site = tmp_path / "site"
    (site / "pdl_tunes").mkdir(parents=True)
    (site / "pdl_tunes" / "__init__.py").write_text("")
    (site / "pdl_tunes" / "steps.py").write_text(TUNES)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.chdir(tmp_path)

    def make(name: str = "pdl-tunes", tune: str = "pdl_tunes.steps:Tune") -> None:
        about = site / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        chords = "chords = pdl_tunes.steps:Chords\n" if name == "pdl-tunes" else ""
        (about / "entry_points.txt").write_text(f"[pdl.steps]\ntune = {tune}\n{chords}")
        packages.read.cache_clear()
        importlib.invalidate_caches()

    yield make
    packages.read.cache_clear()
    for name in [each for each in sys.modules if each.partition(".")[0] == "pdl_tunes"]:
        del sys.modules[name]


def deployment() -> Deployment:
    with pdl.random.fork_seed(0):
        net = nn.Linear(7, 3).eval()
    return Deployment(
        module=net,
        inputs={"x": Spec((Dim.symbol("n", 3), 7), float32)},
        outputs=("y",),
        pre={"x": [{"step": "tune"}]},
        post={"y": [{"step": "chords"}]},
        samples=["C E G", "A A", "F G A"],
        labels=["major", "minor", "diminished"],
    )


@pytest.fixture
def tunes(install: Install) -> Path:
    """A bundle of the suite, which is installed."""
    install()
    return write("tunes.pdl", deployment(), name="tunes").path


def test_a_bundle_is_held_to_its_model_by_its_own_step(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    made = write("tunes.pdl", deployment())
    steps = importlib.import_module("pdl_tunes.steps")
    assert [sum(counts) for counts in steps.compared] == [3, 2, 3] * 2, "one by one, and together"
    assert made.comparison.samples == 3
    monkeypatch.setattr(steps.Chords, "agrees", lambda *_: False)
    with pytest.raises(CheckError, match=r"the bundle answers {'chords': .* where the model answers"):
        write("other.pdl", deployment())
    assert not Path("other.pdl").exists()


def test_it_answers(tunes: Path) -> None:
    session = load(tunes)
    alone = session("C E G")
    assert [each["chord"] in ("major", "minor", "diminished") for each in alone["chords"]] == [True, True]
    assert session("C E X G") == {**alone, "unknown": ["X"]}
    assert session.batch(["C E G", "A A"]) == [alone, session("A A")]
    with pytest.raises(DataError, match="'X' has no note that the model knows"):
        session("X")
    assert session.bundle.meta["requires"] == ["pdl-tunes"]
    assert info(tunes)["requires"] == "pdl-tunes"


def test_the_command_line_knows_its_options(tunes: Path, capsys: Capture) -> None:
    assert main(["predict", "tunes.pdl", "--help"]) == 0
    said = capsys.readouterr().out
    assert "--scale NOTE" in said
    assert "the scale of a note" in said
    assert main(["predict", "tunes.pdl", "C E G", "--scale", "E", "--tune=A A", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["input"] for each in found] == ["C E G", "A A", "scale of E"]
    assert found[0] == {"input": "C E G", **load(tunes)("C E G")}
    assert main(["predict", "tunes.pdl", "C E G", "--topk", "1", "--save", "drawn"]) == 0
    best = found[0]["chords"][0]["chord"]
    assert Path("drawn/C E G.svg").read_text() == f"<svg><title>C E G: {best}</title></svg>"
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["predict", "tunes.pdl", "--row", "x=1"]) == 2
    assert "no option --row; it takes notes between blanks, or a file of tunes, or --tune" in capsys.readouterr().err
    Path("many.txt").write_text("C E G\nX\nA A\n")
    assert main(["predict", "tunes.pdl", "many.txt", "--out", "answers.csv"]) == 0
    assert "1 of 3 inputs have no answer" in capsys.readouterr().err
    lines = Path("answers.csv").read_text().splitlines()
    assert lines[0] == "tune,rank,chord,score"
    assert [line.split(",")[:2] for line in lines[1:]] == [["C E G", "1"], ["C E G", "2"], ["A A", "1"], ["A A", "2"]]


def test_a_run_answers_by_the_same_steps(install: Install) -> None:
    install()
    made = deployment()
    (found,) = pdl.workflow.predict(made, ["C E G"], topk=1)
    write("tunes.pdl", made)
    theirs = load("tunes.pdl")("C E G")["chords"][0]
    assert found["chords"][0]["chord"] == theirs["chord"]
    assert found["chords"][0]["score"] == pytest.approx(theirs["score"], rel=1e-6)


def test_where_it_is_not_installed(tunes: Path, tmp_path: Path, capsys: Capture) -> None:
    shutil.rmtree(tmp_path / "site")
    packages.read.cache_clear()
    importlib.invalidate_caches()
    says = "tunes.pdl needs the step 'tune' of pdl-tunes, which is not installed: pip install pdl-tunes"
    with pytest.raises(PackageError, match=says):
        load("tunes.pdl")
    assert main(["predict", "tunes.pdl", "C E G"]) == 2
    assert capsys.readouterr().err == f"{says}\n"
    assert info("tunes.pdl")["requires"] == "pdl-tunes (not installed)"


def test_two_distributions_with_one_step(tunes: Path, install: Install) -> None:
    install("other-tunes", "other.steps:Tune")
    with pytest.raises(PackageError, match=r"the step 'tune' .* is left out: its name is claimed by other-tunes 1\.0"):
        load(tunes)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("pdl_tunes.nowhere:Tune", "import pdl_tunes.nowhere:Tune failed: ModuleNotFoundError"),
        ("pdl_tunes.steps:Chords", "pdl_tunes.steps:Chords is no step of that name"),
        ("pdl_tunes.steps:NOTES", "pdl_tunes.steps:NOTES is no step of that name"),
        ("pdl_tunes.steps", "its entry point is 'pdl_tunes.steps', expected module:Class"),
    ],
)
def test_entry_points_that_lead_nowhere(value: str, says: str, tunes: Path, tmp_path: Path, install: Install) -> None:
    shutil.rmtree(tmp_path / "site" / "pdl_tunes-1.0.dist-info")
    install(tune=value)
    with pytest.raises(PackageError, match="the step 'tune' ") as caught:
        load(tunes)
    assert says in str(caught.value)


def test_a_step_that_nobody_has_is_told_with_those_there_are(install: Install) -> None:
    install()
    with pytest.raises(DataError, match=r"x.pdl: .*unknown step 'tunE'; .*tune"):
        Pipeline.read({"pre": {"x": [{"step": "tunE"}]}, "post": {}}, Resources(), "x.pdl")
