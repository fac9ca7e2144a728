"""`pdl package`: a wheel that the hub reads back, byte for byte the same each time, or a reason why there is none."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib
import importlib.metadata
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pdl import config, hub, packages
from pdl.cli import main
from pdl.errors import ConfigError, DataError, UsageError
from pdl.runtime import bundle
from pdl.workflow import train
from pdl.workflow.packaging import Packaged, package
from pdl.workflow.wheel import Wheel
from tests.framework.runtime import made

RECIPE = """\
task: {_target_: pdl_demo.Fit}
data: {test: {_target_: pdl_demo.Points, split: test, n: 9}}
train: {monitor: val/accuracy}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A bundle as a training writes it."""
    program, arrays = made.parts_of("conv")
    given = {
        "pipeline": {
            "pre": {
                "image": [{"step": "image", "mode": "gray"}, {"step": "resize", "size": [8, 8]}, {"step": "to_float"}]
            },
            "post": {"y": [{"step": "softmax"}, {"step": "top", "k": 2}]},
        },
        "labels": ["ant", "bee", "cow", "dog", "elk"],
        "card": "# Insects and more\n\nText.\n\n## Licence\n\nNot stated.\n\n## Use\n\n    old\n",
        "config": RECIPE, "about": {"task": "pdl_demo.LineFit", "weights": "best (epoch 3)"},
        "metrics": {"test/loss": 0.5, "test/accuracy": 0.75, "val/accuracy": 0.9, "train/loss": None},
    }  # fmt: skip
    path = tmp_path / "model.pdl"
    path.write_bytes(bundle.pack(program, arrays, **given))
    return path


def wheel_of(source: Path, **options: Any) -> Packaged:
    given = {"name": "pdl-my-model", "version": "1.0", "licence": "Apache-2.0", "out": source.parent / "dist"}
    return package(source, **{**given, **options})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path for installed wheels, and an empty cache."""
    folder = tmp_path / "site"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(packages, "_reported", set())
    packages.read.cache_clear()
    yield folder
    packages.read.cache_clear()


def install(wheel: Path, site: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    packages.read.cache_clear()
    importlib.invalidate_caches()


def test_the_wheel_is_used_by_name(file: Path, site: Path) -> None:
    done = wheel_of(file)
    assert done.path.name == "pdl_my_model-1.0-py3-none-any.whl"
    install(done.path, site)
    entry = hub.entry("my-model")
    assert (entry.name, entry.task, entry.summary) == ("my-model", "line_fit", "Insects and more")
    assert (entry.licence, entry.pdl) == ("Apache-2.0", ">=0.1,<0.2")
    assert re.fullmatch(r"trained with pdl \S+, \d{4}-\d\d-\d\d", entry.origin)
    assert entry.metric is not None
    assert (entry.metric.name, entry.metric.value, entry.metric.data) == (
        "test/accuracy",
        0.75,
        "pdl_demo.Points, test",
    )
    assert "best (epoch 3)" in entry.metric.protocol
    path = hub.resolve("my-model")
    given, stated = bundle.read(file), bundle.read(path)
    assert stated.meta["licence"] == "Apache-2.0"
    assert stated.program == given.program
    assert stated.meta["created"] == given.meta["created"]
    assert {k: v.tobytes() for k, v in stated.weights.items()} == {k: v.tobytes() for k, v in given.weights.items()}
    card = stated.card
    assert card == entry.inside(str(entry.card)).read_text()
    assert card.startswith(
        "# Insects and more\n\nText.\n\n## Licence\n\nApache-2.0 (SPDX).\n\n## Use\n\n    pdl predict my-"
    )
    assert "Not stated" not in card
    assert "old" not in card


def test_the_command_in_the_entry_finds_the_recipe(file: Path, site: Path) -> None:
    """`unzip -p FILE config.yaml` is what the entry says; the member is there, under that name."""
    install(wheel_of(file).path, site)
    assert hub.entry("my-model").command == "unzip -p my-model.pdl config.yaml > recipe.yaml; pdl train -c recipe.yaml"
    with zipfile.ZipFile(hub.resolve("my-model")) as archive:
        assert archive.read("config.yaml").decode() == RECIPE


def test_the_wheel_is_valid(file: Path, site: Path) -> None:
    """Every member is in RECORD with its hash; the metadata say what pip must bring."""
    done = wheel_of(file)
    with zipfile.ZipFile(done.path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        record = list(csv.reader(io.StringIO(archive.read("pdl_my_model-1.0.dist-info/RECORD").decode())))
        assert [row[0] for row in record] == names
        for name, digest, size in record[:-1]:
            data = archive.read(name)
            assert int(size) == len(data)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        assert record[-1][1:] == ["", ""]
        compile(archive.read("pdl_my_model/__init__.py"), "__init__", "exec")
    install(done.path, site)
    distribution = importlib.metadata.distribution("pdl-my-model")
    assert distribution.version == "1.0"
    assert distribution.requires == ["pdl-core[train]>=0.1,<0.2"]
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    assert distribution.metadata["Summary"] == "Insects and more"
    assert [(e.group, e.name, e.value) for e in distribution.entry_points] == [
        ("pdl.models", "my-model", "pdl_my_model")
    ]


def test_the_same_content_gives_the_same_bytes(file: Path) -> None:
    first = wheel_of(file)
    assert wheel_of(file).path.read_bytes() == first.path.read_bytes()
    with pytest.raises(UsageError, match=r"pdl_my_model-1\.0-py3-none-any\.whl exists with other content; .* --force"):
        wheel_of(file, summary="Another")
    assert wheel_of(file, summary="Another", force=True).path == first.path
    again = wheel_of(file, name="PDL_my.Model", version="v1.0", licence="apache-2.0", force=True)
    assert (again.path, again.model, again.entry["licence"]) == (first.path, "my-model", "Apache-2.0")


def test_storing_in_halves(file: Path, site: Path, tmp_path: Path) -> None:
    """A run is exported anew, and the entry states what the stored bundle reaches; a bundle is taken as it is."""
    cfg = config.load("cv/digits_lenet", ["train.epochs=1", "train.report=false", "train.export=false"])
    train(cfg, run=tmp_path / "run", progress=False)
    done = wheel_of(tmp_path / "run", store="bf16", out=tmp_path / "dist")
    install(done.path, site)
    entry, stored = hub.entry("my-model"), bundle.read(hub.resolve("my-model"))
    assert entry.metric is not None
    assert entry.metric.value == stored.meta["metrics"]["test/accuracy"]
    assert entry.metric.protocol.endswith("in bf16")
    assert any(line.startswith("test/accuracy: ") and "as bf16" in line for line in done.notes)
    assert not (tmp_path / "run/model.pdl").exists()
    with pytest.raises(UsageError, match=r"--store bf16 belongs to runs; .* pdl export RUN --store bf16"):
        wheel_of(file, store="bf16")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "my-model"}, "begin with pdl-; write --name pdl-my-model"),
        ({"name": "numpy"}, "write --name pdl-numpy"),
        ({"name": "pdl"}, "write --name pdl-pdl"),
        ({"name": "../x"}, "letters, digits"),
        ({"name": "pdl-"}, "letters, digits"),
        ({"name": "pdl_core"}, "--name pdl-core: that is the framework itself; choose another"),
        ({"name": "pdl-cv"}, r"that is the suite 'cv' \(pdl-cv\); choose another"),
        ({"version": "one"}, "--version 'one' is no version; write one such as 1.0"),
        ({"version": ""}, "is no version"),
        ({"licence": None}, "does not state a licence; .* --licence Apache-2.0"),
        ({"licence": "do what you like"}, "licence 'do what you like': .* SPDX"),
        ({"summary": "two\nlines"}, "one line of text"),
    ],
)
def test_refused(options: dict[str, Any], says: str, file: Path, site: Path) -> None:
    with pytest.raises(UsageError, match=says):
        wheel_of(file, **options)
    assert not (file.parent / "dist").exists()


def test_names_that_are_taken(file: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(wheel_of(file).path, site)
    assert wheel_of(file, version="2.0").path.name == "pdl_my_model-2.0-py3-none-any.whl", "a newer one of its own"
    (site / "pdl_my_model-1.0.dist-info/entry_points.txt").write_text("[pdl.models]\nother = pdl_my_model\n")
    packages.read.cache_clear()
    with pytest.raises(UsageError, match="pdl-my-model has a model 'other'; choose another"):
        wheel_of(file, name="pdl-other")
    index = site / "pdl_my_model/hub.yaml"
    index.write_text(index.read_text().replace("  my-model:", "  the_net:"))
    with pytest.raises(UsageError, match="'the-net' would be taken for other/the_net; choose another"):
        wheel_of(file, name="pdl-the-net")


def test_a_run(file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(UsageError, match="not a run folder"):
        wheel_of(run)
    (run / "config.yaml").write_text(RECIPE)
    with pytest.raises(UsageError, match=r"the run has no bundle \(model\.pdl\); write it first: pdl export .*run"):
        wheel_of(run)
    (run / "model.pdl").write_bytes(file.read_bytes())
    assert wheel_of(run).model == "my-model"
    (run / "model.pdl").write_bytes(file.read_bytes()[:-7])
    with pytest.raises(DataError, match=r"model\.pdl: archive"):
        wheel_of(run)


def test_a_bundle_that_says_little_of_itself(tmp_path: Path) -> None:
    """An imported one: no recipe, no card, no metric; what cannot be guessed is asked for."""
    bare = tmp_path / "net.pdl"
    bare.write_bytes(bundle.pack(*made.parts_of("conv"), name="squares"))
    with pytest.raises(UsageError, match="does not say what its model is for; give it: --task"):
        wheel_of(bare)
    done = wheel_of(bare, task="regression", origin="Acme, https://example.org/squares")
    assert (done.entry["summary"], done.entry["origin"]) == ("squares", "Acme, https://example.org/squares")
    assert not {"metric", "command"} & done.entry.keys()
    assert done.notes == ["the bundle holds no measured metric, so the index names none"]


def test_steps_of_a_suite_make_it_a_dependency(
    file: Path, demo: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A step that a suite defines is known only where the suite is: the wheel asks for its series."""
    monkeypatch.setattr(bundle.registry, "requires", lambda steps: ["pdl-demo"])
    own = tmp_path / "own.pdl"
    own.write_bytes(bundle.pack(*made.parts_of("conv"), pipeline=bundle.read(file).pipeline))
    assert bundle.read(own).meta["requires"] == ["pdl-demo"]
    with zipfile.ZipFile(wheel_of(own, task="sharpness", name="pdl-sharp").path) as archive:
        metadata = archive.read("pdl_sharp-1.0.dist-info/METADATA").decode()
    assert "Requires-Dist: pdl-core[train]>=0.1,<0.2\nRequires-Dist: pdl-demo>=1.0,<2\n" in metadata


def test_what_the_index_would_not_take_is_not_written(file: Path) -> None:
    with pytest.raises(ConfigError, match="task: expected a word"):
        wheel_of(file, task=" ")
    assert not (file.parent / "dist").exists()


def test_metadata_stay_one_line_each() -> None:
    with pytest.raises(UsageError, match="Summary of a wheel is one line of text"):
        Wheel("a", "1", "x\nRequires-Dist: evil", "MIT", (), {}).to_bytes()


def test_the_command(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dist = tmp_path / "my wheels"
    words = ["package", str(file), "--name", "pdl-my-model", "--version", "1.0", "--licence", "MIT", "--out", str(dist)]
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["next"] == [f"pip install '{facts['wheel']}'", "pdl predict my-model INPUT"]
    assert facts["entry"]["metric"]["value"] == 0.75
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-2].split(maxsplit=1) == ["next", facts["next"][0]]
    assert said[-1].strip() == facts["next"][1]
    assert main(words[:-4]) == 2
    assert "--licence Apache-2.0" in capsys.readouterr().err
