"""What the training race measures: nets, inputs, optimisers. Imports no framework, so every side reads the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Side(NamedTuple):
    """A workload made ready by one framework: what to time, and what to compare."""

    step: Callable[[], Any]
    parameters: int


@dataclass(frozen=True)
class Workload:
    """A net, a batch and an optimiser. Images where `image` is set (H, W, C), else token numbers below `vocabulary`.

    text           characters of a label, which is written by CTC (class 0 is the blank); 0: a label is a class
    pixels         every pixel has a label
    bf16, sparse   whether the mixed precision modes and those with sparse gradients of the embedding are run
    """

    batch: int
    classes: int
    optimizer: str
    image: tuple[int, int, int] | None = None
    vocabulary: int = 0
    length: int = 0
    text: int = 0
    pixels: bool = False
    bf16: bool = True
    sparse: bool = False

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Images [N, H, W, C] float32 or tokens [N, length] int64, and labels [N], [N, text] or [N, H, W] int64;
        the same for everyone."""
        rng = np.random.default_rng(0)
        if self.image is not None:
            x = rng.standard_normal((self.batch, *self.image), dtype=np.float32)
        else:
            x = rng.integers(0, self.vocabulary, (self.batch, self.length))
        if self.text:
            return x, rng.integers(1, self.classes, (self.batch, self.text))
        return x, rng.integers(0, self.classes, x.shape[:3] if self.pixels else self.batch)


#: the transformer's sizes: width, heads, hidden width of its feed-forward part, layers, dropout
WIDTH, HEADS, FEED, LAYERS, DROPOUT = 312, 12, 1200, 4, 0.1
#: embedding and hidden size of GRU4Rec
SESSION = 100
#: channels of the U-Net at the full size, half of the paper's
UNET = 32

WORKLOADS = {
    "lenet": Workload(128, 10, "adam", (28, 28, 1), bf16=False),
    "resnet20": Workload(128, 10, "sgd", (32, 32, 3)),
    "resnet18": Workload(32, 10, "sgd", (32, 32, 3)),
    "resnet50": Workload(8, 1000, "sgd", (224, 224, 3)),
    "mobilenetv2": Workload(8, 1000, "sgd", (224, 224, 3)),
    "transformer": Workload(16, 2, "adam", vocabulary=18_000, length=128),
    "crnn": Workload(64, 63, "adam", (32, 128, 3), text=8),
    "svtr_lcnet": Workload(64, 63, "adam", (32, 128, 3), text=8),
    "unet": Workload(8, 11, "adam", (192, 240, 3), pixels=True),
    "deeplab_v3_plus": Workload(8, 11, "adam", (192, 240, 3), pixels=True),
    "gru4rec": Workload(64, 37_000, "adam", vocabulary=37_000, length=20, bf16=False, sparse=True),
}
ADAM = {"lr": 1e-4}
SGD: dict[str, Any] = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4, "nesterov": True}
