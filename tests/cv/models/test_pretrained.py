"""Every family takes weights that were made for other classes and other channels, its own and PyTorch's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from pdl import nn
from pdl.hub.pretrained import adapt_channels, collected
from pdl.nn.stages import head_of, within
from tests.cv.models.test_zoo import FACTS, VARIANTS, make


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("layout", ["pdl", "torch"])
def test_another_head_and_stem(name: str, layout: str, tmp_path: Path) -> None:
    options = dict(FACTS[name][1].options)
    with nn.init.skipped():
        net = make(name, in_channels=3, num_classes=4, **options)
    rng = np.random.default_rng(0)
    state = {key: rng.random(value.shape, dtype=np.float32) for key, value in net.state_dict().items()}
    net.load_state_dict(state)
    written = state if layout == "pdl" else {key: np.ascontiguousarray(a) for key, a in nn.to_torch(net).items()}
    save_file(written, tmp_path / "net.safetensors", None if layout == "pdl" else {"format": "pt"})
    with nn.init.skipped(), collected() as reports:
        other = make(name, in_channels=1, num_classes=5, pretrained=str(tmp_path / "net.safetensors"), **options)
    (report,) = reports
    stem = other.stem if isinstance(other.stem, tuple) else (other.stem,)
    assert {head for head in head_of(other) if any(within(key, head) for key in report.fresh)} == set(head_of(other))
    assert {each for each in stem if any(within(key, each) for key in report.adapted)} == set(stem)
    assert bool(report.converted) == (layout == "torch")
    for key, value in other.state_dict().items():
        if key in report.adapted:
            assert within(key, stem)
            np.testing.assert_allclose(value.data, adapt_channels(state[key], 1), rtol=1e-6)
        elif key in report.fresh:
            assert within(key, head_of(other))
        else:
            np.testing.assert_array_equal(value.data, state[key], err_msg=key)
