"""Detectors against torchvision's, weights and images random."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import nn
from tests.cv.models.published import facts, families
from tests.cv.models.test_torch import torch_python
from tests.cv.models.test_zoo import make


@pytest.mark.slow
def test_answers_equal_torchvision_s(tmp_path: Path) -> None:
    python = torch_python()
    if python is None or subprocess.run([python, "-c", "import importlib.util as i; assert i.find_spec('torchvision')"],
                                        capture_output=True, check=False).returncode:  # fmt: skip
        pytest.skip("no Python with torch and torchvision was found (PDL_TORCH_PYTHON may name one)")
    subprocess.run([python, str(Path(__file__).with_name("torchvision_nets")), str(tmp_path)], check=True)
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) == 3
    wrong = {file.stem: error for file in files if not (error := difference(file)) < 1e-4}
    assert not wrong


def difference(file: Path) -> float:
    """The largest difference from torchvision's answers, each divided by the largest of its kind."""
    data, (family, _) = np.load(file), facts(None)[file.stem]
    with nn.init.skipped():
        net = make(file.stem, num_classes=5, **({"proposals": 150} if "rcnn" in file.stem else {})).eval()
    state = {name.removeprefix("state/"): data[name] for name in data.files if name.startswith("state/")}
    net.load_state_dict(families(None)[family].remap(net, state))
    x = pdl.tensor(data["x"])
    with pdl.no_grad():
        found = said_by_ssd(net, x) if family == "ssd" else said_by_rcnn(net, x)
    for name in found:
        assert found[name].shape[: data[name].ndim] == data[name].shape, name
    return max(float(np.abs(y - data[name]).max() / np.abs(data[name]).max()) for name, y in found.items())


def said_by_ssd(net: Any, x: pdl.Tensor) -> dict[str, Any]:
    anchors, logits, shifts = net.predictions(x)
    return {"anchors": anchors, "logits": logits.data, "shifts": shifts.data}


def said_by_rcnn(net: Any, x: pdl.Tensor) -> dict[str, Any]:
    size = x.shape[1:3]
    proposals, used = net.rpn.propose(net.rpn(net.pyramid(net.backbone(x)), size), size, net.proposals)
    found = net(x)
    kept = found.labels.data[0] >= 0
    answers = {
        "proposals": proposals.data[used.data], "boxes": found.boxes.data[0][kept],
        "scores": found.scores.data[0][kept], "labels": found.labels.data[0][kept] + 1,
    }  # fmt: skip
    return answers if found.masks is None else answers | {"masks": found.masks.data[0][kept][:, None]}
