"""Weights into a model: from a file, a run, with another head."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pdl import config, hub, nn
from pdl.errors import DataError, ShapeError
from pdl.train import train
from tests.framework.config.broken import GOOD


def net(width: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.Linear(width, classes))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    save_file({name: np.full(value.shape, 0.5, np.float32) for name, value in net(3, 10).state_dict().items()}, path)
    return path


def test_all_of_it(file: Path) -> None:
    model = net(3, 10)
    assert hub.load_pretrained(model, file) == []
    assert all((np.asarray(value.data) == 0.5).all() for value in model.parameters())


def test_another_number_of_classes(file: Path) -> None:
    model = net(3, 7)
    fresh = np.array(model.state_dict()["1.weight"])
    assert hub.load_pretrained(model, file) == ["1.weight", "1.bias"]
    assert (np.asarray(model.state_dict()["0.weight"]) == 0.5).all()
    assert (np.asarray(model.state_dict()["1.weight"]) == fresh).all()


def test_what_does_not_fit_is_listed(file: Path) -> None:
    with pytest.raises(ShapeError, match=r"0.weight: \(4, 3\), the model has \(4, 5\)"):
        hub.load_pretrained(net(5, 10), file)
    with pytest.raises(ShapeError, match=r"not in the model: 1.weight"):
        hub.load_pretrained(nn.Sequential(nn.Linear(4, 3)), file)


def test_of_a_run(demo: None, tmp_path: Path) -> None:
    import pdl_demo

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(GOOD)
    result = train(config.load(recipe), run=tmp_path / "run", progress=False)
    model = pdl_demo.Net(width=8)
    assert hub.load_pretrained(model, result.run) == []
    assert np.abs(np.asarray(model.state_dict()["layer.bias"])).sum() > 0


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"not this")
    with pytest.raises(DataError, match="damaged, or not a safetensors file"):
        hub.load_pretrained(net(3, 10), path)
