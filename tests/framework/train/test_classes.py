"""What tasks look at before training: the classes of all splits, and whether a net takes the images."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pdl_cv
from pdl.errors import ConfigError, DataError
from pdl.train.classes import agreed
from pdl.train.images import answer

RECIPE: Any = SimpleNamespace(model=SimpleNamespace(target="pdl_cv.LeNet"))


def test_names_are_those_of_all_splits() -> None:
    assert agreed([], ["cat", "dog"], split="train") == ["cat", "dog"]
    assert agreed(["cat", "dog"], [], split="val") == ["cat", "dog"]
    with pytest.raises(DataError, match=r"data.val: has 1 points \(cat\), expected 2 \(cat, dog\); all splits"):
        agreed(["cat", "dog"], ["cat"], split="val", what="points")


def test_a_net_learns_on_whether_images_fit_it_or_not() -> None:
    net = pdl_cv.LeNet(num_classes=3, in_channels=1)
    assert answer(net, np.zeros((1, 28, 28, 1), np.float32), "data.train", RECIPE).shape == (1, 3)
    with pytest.raises(ConfigError, match=r"pdl_cv.LeNet does not take the images of data.train, shape \(28, 28, 3\)"):
        answer(net, np.zeros((1, 28, 28, 3), np.float32), "data.train", RECIPE)
    assert all(module.training for module in net.modules())
