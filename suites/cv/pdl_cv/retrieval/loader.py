"""From images of classes to batches: of several images of each class for training, where a loss compares these."""

from __future__ import annotations

from typing import Any

from pdl.data import DataLoader
from pdl.train.open_set import OpenSet, grouped
from pdl.train.recipe import Data

KEY = "task.images_per_class"
MORE = "leave classes of few images out, or ask for fewer of each"


def retrieval_loader(images: OpenSet, data: Data, *, training: bool, seed: int, each: int | None) -> DataLoader:
    """Batches {"image" [N, H, W, C], "label", "name", "index"}.

    each  in training: so many images of each class in a batch, one class after another; None: at random
    """
    sampler: Any = None
    if training:
        sampler = data.sampler(images, seed=seed)
        if each is not None:
            sampler = grouped(images.labels, data, each, seed, key=KEY, more=MORE)
    given = each is not None and training
    return DataLoader(
        images,
        batch_size=None if given else data.size(training=training),
        shuffle=training and sampler is None,
        sampler=sampler,
        transforms=data.transforms(training=training),
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
        on_error=data.on_error,
        cache=data.cache if training else 0,
    )
