"""Galleries: vectors by name, made of a folder, kept in a file, and what an input is most like."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Configured, answers
from pdl.runtime.sample import Sample
from pdl.runtime.steps.gallery import Gallery
from pdl.runtime.steps.inputs import InputStep


class Numbers(InputStep):
    """Numbers in a text file, as a vector."""

    def parse(self, item: Any, sample: Sample) -> np.ndarray:
        return np.array(Path(item).read_text().split() if isinstance(item, str | Path) else item, np.float32)

    def expand(self, given: Any, number: int) -> Any:
        from pdl.runtime.steps.inputs import Input

        path = Path(given)
        yield from (Input(str(each), each) for each in ([path] if path.is_file() else sorted(path.rglob("*.txt"))))

    def samples(self, rng: np.random.Generator) -> list[Any]:
        return [[3.0, 4.0]]


class Model:
    """Answers with its input times a matrix."""

    def __init__(self, threshold: float | None, matrix: Any = ((1, 0), (0, 1))) -> None:
        self.pipeline: Pipeline | None = Pipeline({"x": [Numbers()]}, {"y": [Gallery(threshold)]})
        self.matrix = np.array(matrix, np.float32)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return {"y": inputs["x"] @ self.matrix}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    folder = tmp_path / "people"
    (folder / "anna" / "deep").mkdir(parents=True)
    (folder / "anna" / "1.txt").write_text("10 0")
    (folder / "anna" / "deep" / "2.txt").write_text("0.6 0.8")
    (folder / "bob.txt").write_text("0 -1")
    return folder


def of(model: Model, **values: Any) -> Configured:
    return Configured.of(model, {f"--{name}": [str(value)] for name, value in values.items()})


def test_who_it_is(people: Path, tmp_path: Path) -> None:
    model, kept = Model(0.5), tmp_path / "kept.npz"
    assert answers(model, [[3, 4]]) == [{"vector": [3.0, 4.0]}]
    anna, nobody = answers(of(model, enrolled=people, keep=kept), [[2, 1], [-1, 0.1]])
    assert anna["label"] == "anna"  # the direction of (1, 0) + (0.6, 0.8), which is (2, 1)
    assert anna["score"] == pytest.approx(1)
    assert [each["label"] for each in anna["top"]] == ["anna", "bob"]
    assert nobody["label"] == "nobody"
    assert nobody["score"] == pytest.approx(-0.1 / 1.01**0.5, abs=1e-6)
    again = of(Model(0.5), enrolled=kept)
    assert answers(again, [[2, 1]])[0] == anna
    for least, label in ((0.94, "anna"), (0.96, "nobody")):  # the cosine is 0.949
        pipeline = again.pipeline.above(least).limited(1)
        assert [row["label"] for row in pipeline.rows(pipeline.answers([[1, 1]], model.run)[0])] == [label]
    assert answers(of(Model(None), enrolled=kept), [[-1, 0.1]])[0]["label"] == "bob"  # no threshold: the nearest one


def test_what_cannot_be_enrolled(people: Path, tmp_path: Path) -> None:
    kept, model = tmp_path / "kept.npz", Model(0.5)
    of(model, enrolled=people, keep=kept)
    with pytest.raises(DataError, match="enrolled by another model"):
        of(Model(0.5, ((0, 1), (1, 0))), enrolled=kept)
    with pytest.raises(DataError, match="no such file or folder"):
        of(model, enrolled=tmp_path / "gone")
    with pytest.raises(UsageError, match=r"add --enrolled FOLDER"):
        of(model, keep=kept)
    with pytest.raises(UsageError, match=r"a file \*\.npz"):
        of(model, enrolled=people, keep=tmp_path / "kept.txt")
    (people / "anna.txt").write_text("1 1")
    with pytest.raises(DataError, match="there is another 'anna'"):
        of(model, enrolled=people)
    (people / "anna.txt").rename(people / "nobody.txt")
    with pytest.raises(UsageError, match="'nobody' is the answer for none"):
        of(model, enrolled=people)
    np.savez(kept, names=np.array(["a"]), vectors=np.array([[np.nan, 1]], np.float32), probe=np.zeros(2, np.float32))
    with pytest.raises(DataError, match="no file of enrolled vectors"):
        of(model, enrolled=kept)
    kept.write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(DataError, match="no file of enrolled vectors"):
        of(model, enrolled=kept)
