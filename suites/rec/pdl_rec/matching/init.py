"""A recipe for a table of who had what, as `pdl init rec.matching --data purchases.csv` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import UsageError
from pdl.train.task import SPLITS
from pdl_rec.data.guessing import ITEM, RATING, USER, missing, named, sample, time_column, unit_of
from pdl_rec.data.interaction_file import InteractionFile
from pdl_rec.data.tables import read, source

RATIOS = "{train: 0.8, val: 0.1, test: 0.1}"
FEWEST = 100  # interactions


def write_recipe(data: Path) -> str:
    """The text of a recipe that finds items for users, from a csv or tsv file (gzipped or not) with a line for each
    purchase, rating or loan.

    Columns are found by their names, times also by what they hold. Of each user's items the newest tenth is the test
    and the tenth before val; without times they are drawn. Every line counts, whatever its rating (min_rating). The
    model is BPR-MF with the settings that did best on the validation data of MovieLens-100k (recall@10 0.262; item-kNN
    0.207).
    """
    if data.is_dir():
        raise UsageError(f"{data}: a folder; name the file of interactions itself: --data {data}/purchases.csv")
    held = sample(source(data))
    have = list(held)
    user, item = named(have, USER), named(have, ITEM)
    if user is None or item is None:
        raise UsageError(
            f"{missing(data, have, users=user, items=item)}; name columns such as user_id and item_id there, or write "
            "the recipe by hand (user=, item=, time= of pdl_rec.data.InteractionFile)"
        )
    rating = named(have, RATING)
    time = time_column(held, (user, item, *([rating] if rating else ())))
    unit = "s" if time is None else unit_of(read(source(data), {time: "time"})[time])
    found = InteractionFile(data, user=user, item=item)
    events, users, items = len(found), len(found.names["users"]), len(found.names["items"])
    if events < FEWEST:
        raise fault(data, f"{events} interactions; at least {FEWEST} are needed", "give more")
    columns = f"user: {quoted(user)}, item: {quoted(item)}" + (f", rating: {quoted(rating)}" if rating else "")
    columns += "" if time is None else f", time: {quoted(time)}" + (f", unit: {unit}" if unit != "s" else "")
    rule = f"ratios: {RATIOS}" + ("" if time is None else ", order: time")
    path = {split: quoted(data.resolve()) if split == "train" else '"${data.train.path}"' for split in SPLITS}
    batch = next((size for size in (2048, 1024, 512, 256, 128) if events >= 40 * size), 64)
    lines = [
        f"# {events:,} interactions of {users:,} users ({user}) and {items:,} items ({item}), "
        f"{'without times' if time is None else f'times {time} ({unit})'}.",
        "defaults:",
        "  - /rec/matching",
        "  - _self_",
        "model: {_target_: pdl_rec.BPRMF, dim: 128}",
        "task: {num_negatives: 8, l2: 5.0e-3}",
        "data:",
        *(
            f"  {split}: {{_target_: pdl_rec.data.InteractionFile, path: {path[split]}, {columns}, split: {split}, "
            f"{rule}}}"
            for split in SPLITS
        ),
        f"  batch_size: {batch}",
        "optim: {lr: 2.0e-3}",
        f"train: {{epochs: {int(np.clip(8_000_000 // events, 5, 100))}}}",
    ]
    return "\n".join(lines) + "\n"
