"""A recipe for a folder of pictures, as `pdl init cv.generation --data DIR` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.data.folders import ratios_for, splits_there
from pdl_cv.classification.init import batch_size, look, split_lines
from pdl_cv.data.folder import ImageFolder

SEEN = 400_000  # images in a training: as many as the recipe of Fashion-MNIST sees, about
STEP = 8  # sizes are multiples of it
MOST = 64  # pixels a side: a picture of twice as many takes four times as long


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to draw pictures like those in `data`, a folder of a folder for each class; of
    one class alone they are drawn without one.

    Split folders are used as they are, the rest is cut by ratio. Pictures are squares of the size that most have, of 64
    pixels at most; data.transforms says another. DataError for a folder that cannot be used.
    """
    have = splits_there(data)
    ratios = ratios_for(have)
    train = ImageFolder(data, split="train" if have["train"] or ratios else None, ratios=ratios or None)
    looks, count = look(train), len(train)
    side = int(np.clip(looks.side // STEP * STEP, STEP, MOST))
    steps = [f"ResizeShort, size: {side}", f"CenterCrop, size: {side}", "Normalize, mean: 0.5, std: 0.5"]
    prepared = [f"      - {{_target_: pdl.data.transforms.{step}}}" for step in steps]
    epochs = int(np.clip(round(SEEN / count), 8, 400))
    classes = f"{len(train.classes)} classes" if len(train.classes) > 1 else "pictures without classes"
    lines = [
        f"# {classes}, {count} images for training, mostly about {looks.side} pixels a side"
        f"{', gray' if looks.gray else ''}.",
        "# Longer trainings draw better (train.epochs); task.judge=model.pdl, a classifier, measures more.",
        "defaults:",
        "  - /cv/generation",
        "  - _self_",
        "model: {_target_: pdl_cv.DDPM, width: 48, multipliers: [1, 2], patch: 2}",
        "data:",
        *split_lines("pdl_cv.data.ImageFolder", data, have, ratios, looks.gray),
        "  transforms:",
        "    train:",
        *prepared,
        "    eval:",
        *prepared,
        f"  batch_size: {batch_size(count)}",
        "  workers: 2",
        "schedule: {_target_: pdl.optim.OneCycle}",
        f"train: {{epochs: {epochs}, eval_every: {max(1, epochs // 5)}}}",
    ]
    return "\n".join(lines) + "\n"
