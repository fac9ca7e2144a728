"""A recipe for a folder of images, as `pdl init cv.retrieval --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdl.config.text import flow, quoted
from pdl.data.folders import CUT, splits_there
from pdl.errors import UsageError
from pdl_cv.classification.init import look, planned, transforms
from pdl_cv.data.folder import ImageFolder

FEWEST = 6  # classes: two in each split
FEW = 100  # classes: of fewer, more of them are held out
EACH = 4  # images of a class in a batch
ROOT = '"${data.train.dataset.root}"'


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns to tell the classes in `data` apart, a folder of a folder for each.

    Folders train, val and test above them are used as they are, with classes of their own; otherwise classes are cut
    8:1:1, of few 6:2:2. The net begins with the weights of ImageNet, where these are here or can be fetched. Where
    classes have four images, it learns by ArcFace and triplets, otherwise by ArcFace. DataError and UsageError for
    folders that cannot be used.
    """
    have = splits_there(data)
    roots = {split: data / split for split, there in have.items() if there} or {"train": data}
    if "val" not in roots and len(roots) > 1:
        raise UsageError(f"{data}: it has folders {', '.join(roots)} but none called val; add val, with other classes")
    train = ImageFolder(roots["train"])
    count = len(train.classes)
    if count < (FEWEST if len(roots) == 1 else 2):
        raise UsageError(f"{data}: {count} classes ({', '.join(train.classes)}); at least {FEWEST} are needed")
    looks = look(train)
    plan = planned(looks, count)
    fewest = int(np.bincount(train.labels).min())
    learned = int(count * (0.8 if count >= FEW else 0.6)) if len(roots) == 1 else count
    batch = EACH * int(np.clip(learned, 2, 16 if plan.batch >= 64 else 8))
    triplets = ", triplet: {}" if fewest >= EACH else ""
    lines = [
        f"# {count} classes, {len(train)} images, mostly about {looks.side} pixels a side"
        f"{', gray' if looks.gray else ''}; classes of validation and test are others than those of training.",
        f"# {plan.why}",
        "defaults:",
        "  - /cv/retrieval",
        "  - _self_",
        f"task: {{embedding: 64, loss: {{arcface: {{margin: 0.3, scale: 16}}{triplets}}}}}",
        f"model: {{{plan.model}}}",
        "data:",
        *_splits(roots, count, plan.gray),
        *transforms(looks, plan),
        f"  batch_size: {batch}",
        "  workers: 2",
        f"optim: {{{plan.optim}}}",
        f"train: {{epochs: {int(np.clip(round(plan.seen / len(train)), *plan.epochs))}}}",
    ]
    return "\n".join(lines) + "\n"


def _splits(roots: dict[str, Path], count: int, gray: bool) -> Sequence[str]:
    mode = ", mode: gray" if gray else ""
    if len(roots) > 1:
        return [
            f"  {split}: {{_target_: pdl.data.ByClass, dataset: {{_target_: pdl_cv.data.ImageFolder, "
            f"root: {quoted(root.resolve())}{mode}}}}}"
            for split, root in roots.items()
        ]
    ratios = CUT if count >= FEW else {"train": 0.6, "val": 0.2, "test": 0.2}
    ratios = {"train": 0.34, "val": 0.33, "test": 0.33} if count < 10 else ratios
    where = {split: quoted(roots["train"].resolve()) if split == "train" else ROOT for split in ratios}
    return [
        f"  {split}: {{_target_: pdl.data.ByClass, dataset: {{_target_: pdl_cv.data.ImageFolder, root: {root}{mode}}}, "
        f"split: {split}, ratios: {flow(ratios)}}}"
        for split, root in where.items()
    ]
