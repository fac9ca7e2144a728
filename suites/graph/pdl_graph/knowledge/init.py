"""A recipe for the facts of a knowledge graph, as `pdl init graph.knowledge --data facts.tsv` writes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.errors import UsageError
from pdl.runtime.tables import cells
from pdl.train.task import SPLITS
from pdl_graph.data.triples import Triples
from pdl_graph.data.triples_file import read_triples

NAMES = (("head", "subject", "source", "from"), ("relation", "predicate", "rel", "type"),
         ("tail", "object", "target", "to"))  # fmt: skip
RATIOS = "{train: 0.8, val: 0.1, test: 0.1}"
FEWEST = 50  # facts
SEEN = 700_000  # facts to learn from, over all epochs
ASKED = 1_000  # facts of val, while it trains


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns which facts hold: a file of `head relation tail` lines, or a folder or archive
    of train, valid and test (see `pdl_graph.data.Triples`).

    The model is ComplEx with a softmax over sampled tails, N3 and reciprocal relations: of what was tried on WN18RR and
    FB15k-237 it learns fastest.
    """
    columns = _columns(data) if data.is_file() else None
    file = read_triples(data, columns=columns)
    single = "" in file.parts
    if not single and "train" not in file.parts:
        raise UsageError(f"{data}: has no train.txt, only {', '.join(file.parts)}")
    facts = sum(map(len, file.parts.values()))
    if facts < FEWEST:
        raise UsageError(f"{data}: {facts} facts; at least {FEWEST} are needed")
    more = f", columns: [{', '.join(map(quoted, columns))}]" if columns else ""
    more += f", ratios: {RATIOS}" if single else ""
    have = [split for split in SPLITS if single or split in file.parts]
    train = Triples(data, columns=columns, ratios={"train": 0.8, "val": 0.1, "test": 0.1} if single else None)
    path = {split: quoted(data.resolve()) if split == "train" else '"${data.train.path}"' for split in have}
    few = {"val": f", few: {ASKED}"}
    batch = next((size for size in (1024, 512, 256, 128, 64) if len(train) >= 20 * size), 32)
    epochs = int(np.clip(SEEN // len(train), 8, 100))
    lines = [
        f"# {facts:,} facts, {len(file.entities):,} entities, {len(file.relations):,} relations"
        f"{', cut by ratio' if single else ''}.",
        "defaults:",
        "  - /graph/knowledge",
        "  - _self_",
        "model: {_target_: pdl_graph.ComplEx, dim: 200, scale: 1.0e-3, reciprocal: true}",
        f"task: {{loss: softmax, num_negatives: {min(256, len(file.entities))}, n3: 0.1}}",
        "schedule: {_target_: pdl.optim.Cosine}",
        "data:",
        *(
            f"  {split}: {{_target_: pdl_graph.data.Triples, path: {path[split]}, split: {split}{more}"
            f"{few.get(split, '')}}}"
            for split in have
        ),
        f"  batch_size: {batch}",
        f"train: {{epochs: {epochs}, eval_every: {max(epochs // 10, 2)}}}",
    ]
    return "\n".join(lines) + "\n"


def _columns(data: Path) -> tuple[str, str, str] | None:
    """The columns of head, relation and tail, where the first line names them."""
    try:
        with data.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline(1 << 16)
    except UnicodeDecodeError:  # an archive
        return None
    separator = max("\t,;|", key=line.count)
    names = [each.strip() for each in cells(line, str(data), separator)]
    plain = {each.lower(): each for each in names}
    found = [next((plain[word] for word in words if word in plain), None) for words in NAMES]
    head, relation, tail = found
    return None if head is None or relation is None or tail is None else (head, relation, tail)
