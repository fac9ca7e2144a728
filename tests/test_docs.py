"""The documents: every command and every Python example runs, every link and every name leads somewhere."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pdl.cli import main
from pdl_ocr.data.standin import write_list as write_words
from pdl_ocr.data.standin import write_pages, write_receipts
from pdl_speech.data.standin import write_folders as write_recordings
from tests.cv.models import published

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SUITES = sorted((ROOT / "docs/suites").glob("*.md"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EVERY = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(document: Path, language: str) -> list[str]:
    """The code blocks of a language; those that need the network are marked `sh` and `py`."""
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def commands(document: Path, language: str = "bash") -> list[str]:
    """The `pdl` lines of the shell examples, without their comments, in order."""
    lines = [line.strip() for block in blocks(document, language) for line in block.splitlines()]
    return [re.split(r"\s+#", line)[0] for line in lines if line.startswith("pdl ")]


def shortened(command: str, document: Path) -> list[str]:
    """The arguments of a command; trainings take one epoch here, those of suites two batches."""
    words = shlex.split(command)[1:]
    if words[0] == "train" and document in SUITES and not {"--profile", "--resume", "--overfit"} & {*words}:
        words.append("--fast-dev-run")
    elif (words[0] == "train" and "--profile" not in words) or (words[0] == "leaderboard" and "--seeds" in words):
        words = [w for w in words if not w.startswith("train.epochs=")] + ["train.epochs=1"]
    return words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the reader of the documents has: the recipes, photos, a file of clicks, graphs, a table, a page."""
    import cv2

    from pdl_rec.data import standin

    place = tmp_path_factory.mktemp("docs")
    (place / "configs").symlink_to(ROOT / "configs")
    rng = np.random.default_rng(0)
    for number, name in enumerate(["cat", "dog"]):
        (place / "photos" / name).mkdir(parents=True)
        for i in range(20):
            image = rng.integers(0, 60, (64, 80, 3), dtype=np.uint8)
            image[:, :, number] += 150
            cv2.imwrite(str(place / f"photos/{name}/{i}.png"), image)
    clicks = ["visitor,product,time"]
    for number, items, times in standin.draw("clicks", sessions=300):
        clicks += [f"v{number},p{item},{time}" for item, time in zip(items, times, strict=True)]
    (place / "clicks.csv").write_text("\n".join(clicks) + "\n")
    _write_friends(place / "friends")
    points = rng.normal(0, 0.3, (80, 2)) + (np.arange(80) % 2)[:, None]
    rows = [f"{x:.3f},{y:.3f},{'ab'[i % 2]}" for i, (x, y) in enumerate(points)]
    (place / "plan.yaml").write_text("prune: {left: 0.5}\ntune: {set: [train.epochs=1]}\nint8: {}\n")
    (place / "points.csv").write_text("\n".join(["x,y,label", *rows]) + "\n")
    _write_texts(place)
    (place / "streets.csv").write_text("source,target\na,b\nb,c\nc,d\nd,a\na,c\n")
    page = np.full((240, 480, 3), 255, np.uint8)
    cv2.putText(page, "TEXT 3457", (128, 114), cv2.FONT_HERSHEY_SIMPLEX, 1.0, (0, 0, 0), 2, cv2.LINE_AA)
    cv2.imwrite(str(place / "page.png"), page)
    cv2.imwrite(str(place / "line.png"), page[80:128, 120:350])
    _write_objects(place)
    for split in ("train", "val", "test"):
        write_words(place / "words", split)
        write_pages(place / "pages", split)
    write_receipts(place, "train").rename(place / "receipts")
    write_recordings(place / "recordings", ["no", "yes"], splits=False)
    return place


def _write_texts(place: Path) -> None:
    """Texts with classes, pairs, names, and questions."""
    from pdl_nlp.data import standin

    standin.write_lines(place, {"path": "corpus.txt"})
    standin.write_file(place, {"path": "reviews.csv"})
    standin.write_file(place, {"path": "pairs.tsv", "pair": "pair"})
    standin.write_tagged(place, {"path": "names.conll"})
    standin.write_questions(place, {"path": "questions.json"})
    standin.write_mistakes(place, {"path": "mistakes.tsv"})
    standin.write_dialogues(place, {"path": "talk.txt"})
    standin.write(place / "turns.txt", ["hello .\thow was the room ?", "how was the plot ?"])
    standin.write_parallel(place, {"path": "translations.tsv"})
    texts = [text for text, _ in standin.draw("alike", 240)]
    others = [" ".join(text.split()[1:]) if i % 2 else texts[i - 1] for i, text in enumerate(texts)]
    rows = [f"{text}\t{other}\t{i % 2}" for i, (text, other) in enumerate(zip(texts, others, strict=True))]
    standin.write(place / "alike.tsv", ["text\tpair\tscore", *rows])


def _write_objects(place: Path) -> None:
    """Images with annotated objects: for boxes, masks and keypoints; things to be found
    again; a large image, and a video of it."""
    import cv2

    from pdl.runtime.videos import VideoWriter
    from pdl_cv.data import moving_digits, standin

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(standin.SCENES, "train", 24)
        for name, classes in {"street": ["car", "person"], "cells": ["cell"], "people": ["person"]}.items():
            standin.write_objects(place / name, classes, splits=False)
    street = cv2.imread(str(place / "street/images/all/0.png"))
    cv2.imwrite(str(place / "street.jpg"), np.tile(street, (4, 4, 1)))
    cv2.imwrite(str(place / "cells.png"), np.full((64, 64), 20, np.uint8))
    cv2.imwrite(str(place / "road.jpg"), street)
    for name in ("images", "masks"):
        (place / "roads" / name).mkdir(parents=True)
    for number in range(12):
        image, mask = np.full((64, 96, 3), 90, np.uint8), np.zeros((64, 96), np.uint8)
        mask[30 + number :], mask[40:50, 4 * number : 4 * number + 20] = 1, 2
        image[mask > 0], image[mask == 2] = 160, 230
        cv2.imwrite(str(place / f"roads/images/{number}.jpg"), image)
        cv2.imwrite(str(place / f"roads/masks/{number}.png"), mask)
    (place / "roads/classes.txt").write_text("sky\nroad\ncar\n")
    for number in range(8):
        (place / f"mugs/mug-{number}").mkdir(parents=True)
        for shift in range(4):
            mug = np.full((64, 64, 3), 60, np.uint8)
            mug[20 + shift : 50 + shift, 20:44] = 25 * number + 40
            cv2.imwrite(str(place / f"mugs/mug-{number}/{shift}.jpg"), mug)
    cv2.imwrite(str(place / "mug.jpg"), mug)
    for number in range(12):
        sketch = np.zeros((64, 96, 3), np.uint8)
        sketch[20:44, 4 * number : 4 * number + 20] = 255
        for name, picture in (("A", sketch), ("B", sketch // 2 + 40)):
            (place / "couples" / name).mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(place / f"couples/{name}/{number}.png"), picture)
    cv2.imwrite(str(place / "sketch.png"), sketch)
    moving_digits.write_folders(place / "ways", moving_digits.CLASSES, splits=False, count=16)
    (place / "way.avi").write_bytes(next((place / "ways/up").glob("*.avi")).read_bytes())
    film = VideoWriter(place / "traffic.mp4", 25.0)
    for shift in range(3):
        film.write(np.roll(street, shift, axis=1)[:96, :96].copy())
    film.close()


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


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder for all documents, so that a run which two of them train is trained once."""
    monkeypatch.chdir(folder)
    return folder


#: entry point groups, which look like names of modules
GROUPS = ("pdl.suites", "pdl.steps", "pdl.ops", "pdl.systems", "pdl.models")
DONE: set[str] = set()  # commands that ran in `folder`


@EVERY
def test_commands_and_python_examples_run(
    document: Path,
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for block in blocks(document, "yaml"):
        if named := re.match(r"# ([\w.]+\.yaml)\n", block):  # a file of the reader's
            (place / named[1]).write_text(block)
    for command in commands(document):
        if command in DONE:
            continue
        code = main(shortened(command, document))
        said = capsys.readouterr()
        assert code == 0, f"{command}\n{said.out[-2000:]}\n{said.err[-2000:]}"
        DONE.add(command)
    example = place / "example.py"  # a file, as readers have it: `to_static` needs the source
    for block in blocks(document, "python"):
        example.write_text(block)
        ran = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr[-2000:]


def test_the_documents_show_commands() -> None:
    assert all(commands(document) for document in (README, *SUITES))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", dict.fromkeys(command for document in DOCUMENTS for command in commands(document, "sh"))
)
def test_commands_that_need_the_network(command: str, place: Path) -> None:
    env = {**os.environ, "PDL_CACHE": str(place / "cache")}
    words = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(words, cwd=place, env=env, capture_output=True, text=True, check=False)
    if "is not to be had" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_two_commands_are_what_ci_runs() -> None:
    script = (ROOT / ".ci/run").read_text()
    first, second = re.findall(r"^    (pip install .*)$", README.read_text(), re.MULTILINE)[:2]
    for command in (*first.split(" && "), *second.split(" && ")):
        core = command.replace("pip install ", "pip install --quiet ")
        assert core in script, f"{core!r} is not in .ci/run"
    assert os.access(ROOT / ".ci/run", os.X_OK)


@EVERY
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


@EVERY
def test_names_of_modules_classes_and_functions_exist(document: Path) -> None:
    if document.name != "CHANGELOG.md":
        for name in re.findall(r"`(pdl(?:_\w+)?(?:\.\w+)+)(?:\(.*?\))?`", document.read_text()):
            if not name.endswith((".pdl", ".py")) and name not in GROUPS:
                assert found(name), f"{document.name}: {name}"


@EVERY
def test_files_of_the_tree_exist(document: Path) -> None:
    inside = ("", "framework/pdl", "framework/pdl/kernels/src", "suites/cv/pdl_cv", "docs")
    for name in re.findall(r"`([\w/.]+\.(?:py|h|cpp|pyx|yaml|md|toml))`", document.read_text()):
        if document.name != "CHANGELOG.md" and "/" in name:
            assert any((ROOT / place / name).exists() for place in inside), f"{document.name}: {name}"


def found(name: str) -> bool:
    """Whether a dotted name can be imported."""
    words = name.split(".")
    value: Any = import_module(words[0])
    for number, word in enumerate(words[1:], 2):
        try:
            value = getattr(value, word)
        except AttributeError:
            try:
                value = import_module(".".join(words[:number]))
            except ModuleNotFoundError:
                return False
    return True


@pytest.mark.parametrize("page", SUITES, ids=lambda path: path.stem)
def test_pages_of_suites_name_every_recipe(page: Path) -> None:
    said = set(re.findall(r"`(\w+)`", page.read_text()))
    assert {path.stem for path in (ROOT / "configs" / page.stem).glob("*.yaml")} <= said


def test_every_suite_has_a_page() -> None:
    assert {path.stem for path in SUITES} >= {path.name for path in (ROOT / "suites").iterdir() if path.is_dir()}


def test_parameters_of_detectors_are_those_published() -> None:
    said = dict(re.findall(r"`(\w+)` (\d+\.\d\d)\b", (ROOT / "docs/suites/detection.md").read_text()))
    known = {task: published.facts(task) for task in ("detection", "instance", "keypoints")}
    facts = {name: fact for each in known.values() for name, (_, fact) in each.items()}
    assert said == {name: f"{fact.parameters / 1e6:.2f}" for name, fact in facts.items()}


def test_the_table_of_environment_variables_is_what_the_code_reads() -> None:
    sources = [
        *(ROOT / "framework").rglob("*.py"),
        *(ROOT / "framework").rglob("*.cpp"),
        *(ROOT / "suites").rglob("*.py"),
    ]
    reads = re.compile(r"(?:environ\S*?[\[(]|getenv\()\"(PDL_\w+)\"")
    read = {name for path in sources for name in reads.findall(path.read_text())}
    assert set(re.findall(r"^\| `(PDL_\w+)` \|", README.read_text(), re.MULTILINE)) == read


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 150


REFERENCE = re.findall(r"- reference/(\S+)\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def public(module: ModuleType) -> dict[str, Any]:
    """The classes and functions of `__all__`, or else those that the module defines, or a package imports of its
    distribution, without an underscore."""
    home = module.__name__.partition(".")[0] + "." if hasattr(module, "__path__") else module.__name__
    own = [name for name, value in vars(module).items() if str(getattr(value, "__module__", "")).startswith(home)]
    names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    values = {name: getattr(module, name) for name in names}
    return {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}


@pytest.mark.parametrize("module", REFERENCE)
def test_what_the_reference_documents_can_be_imported_and_has_docstrings(module: str) -> None:
    package = import_module(module)
    assert package.__doc__
    assert public(package)
    assert [name for name, value in public(package).items() if not value.__doc__] == []


def test_the_reference_has_every_public_name_and_every_module_that_examples_import() -> None:
    documented = {value for module in REFERENCE for value in public(import_module(module)).values()}
    left_out = {
        f"{name}.{key}"
        for name in packages()
        for key, value in public(import_module(name)).items()
        if value not in documented
    }
    assert left_out == set()
    imports = re.compile(r"^\s*(?:from|import) (pdl\S*)", re.MULTILINE)
    assert {name for page in DOCUMENTS for name in imports.findall(page.read_text())} <= {*REFERENCE}


def packages() -> list[str]:
    """The packages of the framework that declare public names, and all of the suites."""
    found = [
        ".".join(path.parent.relative_to(base).parts)
        for base in (ROOT / "framework", *(ROOT / "suites").iterdir())
        for path in base.glob("pdl*/**/__init__.py")
        if (base.parent.name == "suites" or "__all__" in path.read_text()) and "template" not in path.parts
    ]
    assert {"pdl", "pdl.nn", "pdl_cv.models", "pdl_quantum.templates"} <= set(found)
    return sorted(found)
