"""A recipe for a folder of clips, as `pdl init cv.video --data DIR` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pdl.data.faults import DataFault
from pdl.data.folders import ratios_for, splits_there
from pdl.errors import DataError, UsageError
from pdl.hub import obtainable
from pdl_cv.classification.init import PRETRAINED, SMALL, split_lines
from pdl_cv.data.clips import Clip
from pdl_cv.data.video_folder import VideoFolder
from pdl_cv.steps.clips import places

LOOKED_AT = 16  # clips whose size and colours are looked at
FRAMES = 8
SEEN = 4_000  # clips in all
EPOCHS = (15, 60)


@dataclass(frozen=True)
class Looks:
    """What some clips look like: the median of the shorter side, and whether all are gray."""

    side: int
    gray: bool


def write_recipe(data: Path) -> str:
    """The text of a recipe that trains on the class folders in `data`, of video files, folders of frames or *.npy.

    Split folders are used as they are, the rest is cut by ratio. The net is TSM of 8 frames spread over each clip, with
    the weights of ImageNet, where these are here or can be fetched, or else, and for small pictures, with random ones.
    Nothing mirrors clips, as that changes which way things move. Raises DataError for a folder that cannot be used.
    """
    have = splits_there(data)
    ratios = ratios_for(have)
    train = VideoFolder(data, split="train" if have["train"] or ratios else None, ratios=ratios or None)
    if len(train.classes) < 2:
        raise UsageError(
            f"{data}: {len(train.classes)} class folder ({', '.join(train.classes)}); at least 2 are needed"
        )
    looks = look(train)
    problem = obtainable(PRETRAINED)
    small = looks.side <= SMALL
    size = int(np.clip(4 * round(looks.side / 4), 16, SMALL)) if small else 112
    gray = looks.gray and (small or problem is not None)
    if small:
        net, lr, why = "pdl_cv.CifarResNet, depth: 20", "4.0e-3", "Small pictures are learned from random weights."
    elif problem is None:
        net, lr = f"pdl_cv.MobileNetV2, pretrained: {PRETRAINED}", "5.0e-4"
        why = f"It begins with the weights of {PRETRAINED}; model.net.pretrained=null learns from random ones (longer)."
    else:
        net, lr = "pdl_cv.MobileNetV2", "2.0e-3"
        why = f"From random weights: {problem}. Then `pdl init` again: far fewer clips are enough."
    mean, std = ("0.5", "0.25") if small or gray else ("[0.485, 0.456, 0.406]", "[0.229, 0.224, 0.225]")
    normalize = f"_target_: pdl.data.transforms.Normalize, mean: {mean}, std: {std}"
    lines = [
        f"# {len(train.classes)} classes, {len(train)} clips for training, mostly about {looks.side} pixels a side"
        f"{', gray' if looks.gray else ''}.",
        f"# {why} Clips are not mirrored, as that changes which way things move.",
        "defaults:",
        "  - /cv/video",
        "  - _self_",
        f"model: {{_target_: pdl_cv.TSM, frames: {FRAMES}, net: {{_target_: {net}}}}}",
        "data:",
        *split_lines("pdl_cv.data.VideoFolder", data, have, ratios, gray),
        "  transforms:",
        "    train:",
        *_transforms(size, small, normalize, training=True),
        "    eval:",
        *_transforms(size, small, normalize, training=False),
        f"  batch_size: {16 if len(train) >= 160 else 8}",
        "  workers: 2",
        f"optim: {{lr: {lr}}}",
        f"train: {{epochs: {int(np.clip(round(SEEN / len(train)), *EPOCHS))}}}",
    ]
    return "\n".join(lines) + "\n"


def look(train: VideoFolder) -> Looks:
    """What a few clips look like."""
    sides, gray = [], True
    for index in np.unique(np.linspace(0, len(train) - 1, LOOKED_AT).astype(int)).tolist():
        try:
            frames = Clip(train.path_of(index), "rgb").read(lambda have: places(have, 2)[0])
        except DataFault:  # `pdl check` and training report it, with its path
            continue
        sides.append(min(frames.shape[1:3]))
        gray = gray and bool((np.ptp(frames.astype(np.int16), axis=-1) <= 2).all())
    if not sides:
        raise DataError(f"{train.root}: none of the clips looked at can be read; see pdl check")
    return Looks(int(np.median(sides)), gray)


def _transforms(size: int, small: bool, normalize: str, *, training: bool) -> list[str]:
    """The lines of the transforms of a stage."""
    t = "_target_: pdl.data.transforms."
    resize = f"{t}Resize, size: {size}"
    crop = [resize, f"{t}RandomCrop, size: {size}, padding: {size // 10}"] if small else []
    crop = crop or [f"{t}RandomResizedCrop, size: {size}, scale: [0.5, 1.0]"]
    random = ", random: true" if training else ""
    return [
        f'      - {{_target_: pdl_cv.data.transforms.Segments, frames: "${{model.frames}}"{random}}}',
        "      - _target_: pdl_cv.data.transforms.EachFrame",
        "        transforms:",
        *(f"          - {{{each}}}" for each in (*(crop if training else [resize]), normalize)),
    ]
