"""What of a classifier goes into a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.data.image import Mode, change_mode
from pdl.data.pipeline import deployed_steps, prepares
from pdl.dims import Dim
from pdl.dtype import as_dtype
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.train import Recipe
from pdl.train.task import first_samples

if TYPE_CHECKING:
    from pdl_cv.classification.task import Classification

SAMPLES = 8


def deployment(
    task: Classification,
    model: Module,
    recipe: Recipe,
    *,
    dataset: Any = None,
    metrics: Mapping[str, float | None] | None = None,
    licence: str = "",
) -> Deployment:
    """Logits of pictures [N, H, W, C], prepared as for evaluation; softmax and the five best classes afterwards."""
    mode: Mode = task.mode or "rgb"
    transforms = recipe.data.transforms(training=False)
    steps = [{"step": "image", "mode": mode}, *deployed_steps(transforms)]
    samples = [change_mode(image, mode) for image in _pictures(dataset, mode)]
    prepare = prepares(transforms)
    first = prepare(samples[0])["image"]
    sizes = (Dim.symbol("n", 3), Dim.symbol("h", first.shape[0]), Dim.symbol("w", first.shape[1]))
    about = {**recipe.identity(), "parameters": _count(model)}
    return Deployment(
        module=model,
        inputs={"image": Spec((*sizes, first.shape[2]), as_dtype(first.dtype))},
        outputs=("logits",),
        pre={"image": steps},
        post={"logits": [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]},
        samples=samples,
        prepare=prepare,
        labels=task.classes,
        card=card(task, model, recipe, metrics or {}, licence),
        licence=licence,
        about=about,
    )


def _pictures(dataset: Any, mode: Mode) -> list[np.ndarray]:
    """A few pictures of the data, or noise where there is none."""
    if dataset is not None:
        few = first_samples(dataset, min(SAMPLES, len(dataset))) if isinstance(dataset, Dataset) else dataset
        return [sample["image"] for sample in islice(iter(few), SAMPLES)]
    rng, channels = np.random.default_rng(0), 1 if mode == "gray" else 3
    sides = [(96, 128), (240, 200), (33, 47), (256, 256)]
    return [rng.integers(0, 256, (h, w, channels), dtype=np.uint8) for h, w in sides]


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())


def card(task: Classification, model: Module, recipe: Recipe, metrics: Mapping[str, float | None], licence: str) -> str:
    """The model card, in markdown."""
    source = recipe.data.source
    measured = {name: value for name, value in metrics.items() if name.startswith(("test/", "val/"))}
    rows = [f"| {name} | {'-' if value is None else f'{value:.4f}'} |" for name, value in measured.items()]
    how = "One pass over each split, single crop, in float32."
    table = [how, "| metric | value |", "|---|---|", *rows]
    named = ", ".join(task.classes[:20]) + (", ..." if len(task.classes) > 20 else "")
    parts = [
        f"# {type(model).__name__}, {len(task.classes)} classes",
        f"An image classifier ({recipe.model.target}, {_count(model):,} parameters). Classes: {named}.",
        "## Data",
        f"Trained on {source.target if source else 'data that the recipe names'}; config.yaml in this bundle holds the "
        "whole recipe, with splits and preparation.",
        "## Metrics",
        *(table if rows else ["Not measured."]),
        "## Licence",
        licence or "Not stated: ask whoever gave you this file.",
        "## Use",
        "    session = pdl.runtime.load('model.pdl')",
        "    session(picture)          # uint8 [H, W, 3] RGB, a path, or the bytes of a file",
        "or `pdl predict model.pdl photo.jpg`.",
    ]
    return _spaced(parts)


def _spaced(parts: Sequence[str]) -> str:
    """Blank lines around headings and paragraphs, none inside tables."""
    lines: list[str] = []
    for part in parts:
        inside = part.startswith(("|", "    ")) and lines and lines[-1].startswith(("|", "    "))
        if lines and not inside:
            lines.append("")
        lines.append(part)
    return "\n".join(lines) + "\n"
