"""Nets of the zoo against PyTorch's, weights and inputs random."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl_cv.models.detector import Detector
from tests.cv.models.published import facts, families
from tests.cv.models.test_zoo import make


def torch_python() -> str | None:
    """A Python that has torch: this one, `python3`, or the one that PDL_TORCH_PYTHON names."""
    for candidate in (os.environ.get("PDL_TORCH_PYTHON"), sys.executable, shutil.which("python3")):
        if (
            candidate
            and subprocess.run([candidate, "-c", "import torch"], capture_output=True, check=False).returncode == 0
        ):
            return candidate
    return None


@pytest.mark.slow
def test_outputs_equal_torch_s(tmp_path: Path) -> None:
    python = torch_python()
    if python is None:
        pytest.skip("no Python with torch was found (PDL_TORCH_PYTHON may name one)")
    script = Path(__file__).with_name("torch_nets")
    subprocess.run([python, str(script), str(tmp_path)], check=True)
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) > len(list(script.glob("[!_]*.py")))
    wrong = {file.stem: error for file in files if not (error := difference(file)) < 1e-4}
    assert not wrong


def difference(file: Path) -> float:
    """Largest difference from torch's output, of the largest output; the weights pass through the family's `remap`."""
    data = np.load(file)
    assert np.ptp(data["y"], axis=0).max() > 1e-3 * np.abs(data["y"]).max(), "the answer does not depend on the image"
    with nn.init.skipped():
        net = make(file.stem).eval()
    state = {name.removeprefix("state/"): data[name] for name in data.files if name.startswith("state/")}
    net.load_state_dict(families(None)[facts(None)[file.stem][0]].remap(net, state))
    with pdl.no_grad():
        if isinstance(net, Detector):  # boxes in pixels and scores up to 1, side by side
            y = np.concatenate([each.data for each in net.dense(pdl.tensor(data["x"]))], axis=2)
            return float((np.abs(y - data["y"]).max((0, 1)) / np.abs(data["y"]).max((0, 1))).max())
        y = net(pdl.tensor(data["x"])).data
    return float(np.abs(y - data["y"]).max() / np.abs(data["y"]).max())
