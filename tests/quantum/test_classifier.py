"""Classifiers on the shared trainer: data, scaling, questions, and what is said of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pdl
import pdl.runtime
from pdl.config import load
from pdl.errors import ConfigError, DataError, UsageError
from pdl.workflow import predict, train
from pdl.workflow.new_recipe import init
from pdl_quantum import AmplitudeEncoding, AngleEncoding, BasisEncoding, Encoding, IQPEncoding, VariationalClassifier
from pdl_quantum.classifier.scaling import fitted
from pdl_quantum.data import Circle, Digits, Moons, TableFile
from pdl_quantum.models import VSQL

RADIUS = np.sqrt(2 / np.pi)


def test_points_of_the_circle_keep_their_distance() -> None:
    data = Circle(samples=60, gap=0.4, seed=3)
    radii = np.hypot(*data.arrays["features"].T)
    assert (radii[data.labels == 0] <= RADIUS - 0.2).all()
    assert (radii[data.labels == 1] >= RADIUS + 0.2).all()
    assert np.bincount(data.labels).tolist() == [30, 30]
    again, other = Circle(samples=60, gap=0.4, seed=3), Circle(samples=60, gap=0.4, seed=3, split="test")
    np.testing.assert_array_equal(data.arrays["features"], again.arrays["features"])
    assert not np.array_equal(data.arrays["features"], other.arrays["features"])


def test_moons_lie_on_their_half_circles() -> None:
    data = Moons(samples=50, noise=0.0)
    centres = np.where(data.labels[:, None] == 0, [-0.5, -0.25], [0.5, 0.25])
    np.testing.assert_allclose(np.hypot(*(data.arrays["features"] - centres).T), 1, atol=1e-6)


def test_digits_number_the_classes_that_are_asked_for() -> None:
    parts = [Digits(split=split, classes=["3", "1"]) for split in ("train", "val", "test")]
    assert parts[0].classes == ["3", "1"]
    assert sum(map(len, parts)) == len(Digits(split="all", classes=["1", "3"])) == 365
    with pytest.raises(ConfigError, match="two or more different"):
        Digits(classes=["1"])


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_files_of_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,a,b,kind\n1,0.5,2,cat\n2,1.5,3,dog\n3,2.5,4,cat\n")
    data = TableFile(path=path, label="kind", columns=["b", "a"])
    assert (data.classes, data.columns, data.labels.tolist()) == (["cat", "dog"], ["b", "a"], [0, 1, 0])
    np.testing.assert_array_equal(data.arrays["features"][0], [2, 0.5])
    wrong = {
        "no column 'label'": {"path": path},
        "no column 'c'": {"path": path, "label": "kind", "columns": ["c"]},
        r"a.csv:2: 'cat' in column 'kind' is no number": {"path": path, "label": "id"},
        "there is no file": {"path": str(tmp_path / "none.csv")},
        "1 classes": {"path": write(tmp_path / "one.csv", "a,label\n1,x\n2,x\n")},
    }
    for said, settings in wrong.items():
        with pytest.raises(DataError, match=said):
            TableFile(**settings)


def test_scaling_knows_only_the_training_data() -> None:
    data = Circle(samples=40)
    values = data.arrays["features"]
    standard, angle = (fitted(scale, data, 2)(values) for scale in ("standard", "angle"))
    np.testing.assert_allclose([standard.mean(0), standard.std(0)], [[0, 0], [1, 1]], atol=1e-6)
    np.testing.assert_allclose([angle.min(0), angle.max(0)], [[0, 0], [np.pi, np.pi]], atol=1e-6)


def test_vsql_has_the_weights_that_the_paper_counts() -> None:
    model = VSQL(64, 2, width=2, depth=1)
    sizes = sorted(p.size for p in model.parameters())
    assert sizes == [2, 8, 10]  # bias; 3 width + depth width; (6 - 2 + 1) features by 2 classes


ROWS = {
    "model": {"_target_": "pdl_quantum.VariationalClassifier", "layers": 1, "uploads": 2},
    "task": {"_target_": "pdl_quantum.QuantumClassifier", "scale": "angle"},
    "data": {"train": {"_target_": "pdl_quantum.data.Moons", "samples": 40}, "val": None, "batch_size": 20},
    "optim": {"_target_": "pdl.optim.Adam", "lr": 0.05},
    "train": {"epochs": 2},
}


def test_a_run_and_its_bundle_say_the_same_of_rows(tmp_path: Path) -> None:
    recipe = tmp_path / "rows.yaml"
    recipe.write_text(json.dumps(ROWS | {"data": {**ROWS["data"], "val": {**ROWS["data"]["train"], "split": "val"}}}))
    train(load(recipe), run=tmp_path / "run", progress=False)
    rows = ["x=0.5,y=-0.25", '{"x": -1, "y": 0.1}']
    found = predict(tmp_path / "run", rows)
    session = pdl.runtime.load(tmp_path / "run" / "model.pdl")
    for row, answer in zip(rows, found, strict=True):
        said = session(row)
        assert answer["label"] == said["label"]
        assert answer["score"] == pytest.approx(said["score"], abs=1e-6)
    with pytest.raises(DataError, match="says nothing of 'y'; the model reads x, y"):
        predict(tmp_path / "run", ["x=1"])
    with pytest.raises(DataError, match="'far', which is no number"):
        session("x=1,y=far")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count("The plane")
    assert page.count("<svg") > 3


def test_splits_of_other_columns_are_refused(tmp_path: Path) -> None:
    other = write(tmp_path / "b.csv", "u,v,label\n1,2,upper\n3,4,lower\n")
    recipe = tmp_path / "rows.yaml"
    recipe.write_text(json.dumps(ROWS | {"data": {**ROWS["data"], "val": {"_target_": "pdl_quantum.data.TableFile",
                                                                         "path": other}}}))  # fmt: skip
    with pytest.raises(DataError, match=r"data.val: classes \['lower', 'upper'\] and columns \['u', 'v'\]"):
        train(load(recipe), run=tmp_path / "run", progress=False)


@pytest.mark.parametrize("ansatz", ["basic_entangler", "hardware_efficient", "real_amplitudes", "strongly_entangling"])
@pytest.mark.parametrize("encoding", [AmplitudeEncoding(), AngleEncoding(axes="xz"), BasisEncoding(), IQPEncoding()])
def test_every_encoding_goes_with_every_ansatz(ansatz: str, encoding: Encoding) -> None:
    model = VariationalClassifier(3, 4, encoding=encoding, ansatz=ansatz, layers=1)
    made = model(pdl.as_tensor(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]], np.float32)))
    assert made.shape == (2, 4)
    made.sum().backward()
    assert all(np.isfinite(p.grad.data).all() for p in model.parameters())


def test_a_recipe_for_a_table_trains_unedited(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for width in (2, 10):
        values = rng.normal(0, 0.1, (60, width)) + (np.arange(60) % 2)[:, None]
        rows = [",".join([*(f"{v:.3f}" for v in each), "ab"[k % 2]]) for k, each in enumerate(values)]
        path = Path(write(tmp_path / f"{width}.csv", "\n".join([",".join([*map(str, range(width)), "kind"]), *rows])))
        made = init("quantum.classifier", data=path, out=tmp_path / f"{width}.yaml")
        result = train(load(made, ["train.epochs=2", "train.report=false"]), run=tmp_path / str(width),
                       progress=False)  # fmt: skip
        assert set(result.metrics) >= {"val/accuracy", "test/accuracy"}
    with pytest.raises(UsageError, match="the rarest class of column 'kind' has 1 rows"):
        init("quantum.classifier", data=write(tmp_path / "few.csv", "a,kind\n1,x\n2,y\n"), out=tmp_path / "few.yaml")
