"""Every data set of every suite can be dealt out to folds, or says why not."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import suites
from pdl.config import load
from pdl.config.parts import parts
from pdl.data import Dataset, Few, Fold, IterableDataset, StandIn
from pdl.data.folding import pooled
from pdl.data.splits import grouped_folds
from pdl.errors import ConfigError, UsageError
from pdl.train.recipe import Recipe
from pdl.workflow.folds import folded, protocol
from pdl_graph.data import Molecules
from pdl_ocr.data import TextLines
from pdl_rec.data import Adult, Atomic, AtomicSessions, ClickFile, InteractionFile, PairFile, SessionFile
from pdl_rec.data.interactions import interactions_of
from pdl_rec.data.sessions import bind, sessions_of, vocabulary_of
from pdl_rec.data.tags import ItemTags

SPLITS = ("train", "val", "test")
RATIOS = {"train": 0.6, "val": 0.2, "test": 0.2}
WRAPPERS = {"ArrayDataset", "ConcatDataset", "Few", "Fold", "Subset", "TupleDataset"}


def by_itself(cls: type[Dataset]) -> bool:
    """Whether a class takes the number of a fold itself."""
    return {"fold", "folds"} <= inspect.signature(cls).parameters.keys()


@pytest.mark.parametrize("target", sorted({each.target for each in parts("datasets")}))
def test_every_data_set_is_dealt_out_or_says_why_not(target: str) -> None:
    cls = suites.locate(target)
    if cls.__name__ in WRAPPERS or issubclass(cls, IterableDataset):
        return
    own = cls.dealing is not Dataset.dealing or cls.foldable or by_itself(cls)
    assert own or cls.unfoldable != Dataset.unfoldable, "define dealing, set foldable, or say why not (unfoldable)"


def splits_of(cls: Any, folder: Path, **settings: Any) -> list[Any]:
    """The three splits of a stand-in."""
    made: StandIn | None = cls.stand_in(folder, settings)
    assert made is not None
    return [cls(**{**settings, **made.settings}, split=split) for split in SPLITS]


def molecules(folder: Path, **settings: Any) -> list[Any]:
    pytest.importorskip("rdkit", reason="needs RDKit")
    return splits_of(Molecules, folder, targets=["y"], **settings)


#: data sets: the splits, and what tells a sample of one from another
CASES: dict[str, tuple[Callable[[Path], Sequence[Any]], Callable[[Any], list[Any]]]] = {
    "SessionFile": (
        lambda folder: splits_of(SessionFile, folder, ratios=RATIOS), lambda data: data.raw.names.tolist()
    ),
    "PairFile": (lambda folder: splits_of(PairFile, folder, ratios=RATIOS), lambda data: data.raw.names.tolist()),
    "AtomicSessions": (
        lambda folder: splits_of(AtomicSessions, folder, ratios=RATIOS), lambda data: data.raw.names.tolist()
    ),
    "Atomic": (
        lambda folder: splits_of(Atomic, folder, ratios=RATIOS), lambda data: list(zip(*events(data.raw), strict=True))
    ),
    "InteractionFile": (
        lambda folder: splits_of(InteractionFile, folder, ratios=RATIOS, time="timestamp", by_user=False),
        lambda data: list(zip(*events(data.raw), strict=True)),
    ),
    "ClickFile": (
        lambda folder: [ClickFile(rows_of(folder), ratios=RATIOS, split=split) for split in SPLITS],
        lambda data: data.table["id"].texts(),
    ),
    "ClickFile, three files": (
        lambda folder: [ClickFile(rows_of(folder, split)) for split in SPLITS],
        lambda data: [(a, b) for a, b in zip(data.table["id"].texts(), data.table["of"].texts(), strict=True)],
    ),
    "Molecules, scaffold": (molecules, lambda data: list(data.rows)),
    "Molecules, random": (lambda folder: molecules(folder, splitting="random"), lambda data: list(data.rows)),
}  # fmt: skip


def test_the_lines_of_a_page_stay_together(tmp_path: Path) -> None:
    rows = []
    for page in range(40):
        (tmp_path / f"{page}.png").write_bytes(b"")
        points = [[[x, 0], [x + 9, 0], [x + 9, 5], [x, 5]] for x in range(0, 30, 10)]
        lines = [{"transcription": f"{page} {i}", "points": box} for i, box in enumerate(points)]
        rows.append(f"{page}.png\t{json.dumps(lines)}")
    (tmp_path / "Label.txt").write_text("\n".join(rows))
    data = [TextLines(tmp_path / "Label.txt", split=split, ratios=RATIOS) for split in SPLITS]
    folds = dealt(data)
    pages = [{text.split()[0] for text in fold.dataset.texts} for fold in folds["test"]]
    assert [len(some) for some in pages] == [10] * 4
    assert len(set.union(*pages)) == 40
    assert all(len(fold.dataset.widths) == len(fold) == 30 for fold in folds["test"])


def events(raw: Any) -> tuple[list[Any], ...]:
    return tuple(column.tolist() for column in (raw.users, raw.items, raw.times))


def rows_of(folder: Path, of: str = "") -> Path:
    """90 rows of which a third are clicks."""
    file = folder / f"rows{of}.csv"
    lines = [f"{i},{of},{'no' if i % 3 else 'yes'}" for i in range(90)]
    file.write_text("\n".join(["id,of,clicked", *lines, ""]))
    return file


def dealt(data: Sequence[Any], by: str | None = None, **options: Any) -> dict[str, list[Any]]:
    return {
        split: [Fold(list(data), split=split, fold=k, folds=4, by=by, **options) for k in range(4)]  # type: ignore[arg-type]
        for split in SPLITS
    }


@pytest.mark.parametrize("name", CASES)
def test_each_sample_is_tested_once(name: str, tmp_path: Path) -> None:
    make, keys = CASES[name]
    data = make(tmp_path)
    every = sorted(key for each in data for key in keys(each))
    folds = dealt(data)
    assert sorted(key for fold in folds["test"] for key in keys(fold.dataset)) == every
    for k in range(4):
        own = [keys(folds[split][k].dataset) for split in SPLITS]
        assert sorted(key for some in own for key in some) == every, "train, val and test are all, each once"
        assert all(len(folds[split][k]) == len(some) for split, some in zip(SPLITS, own, strict=True))
    prints = {fold.fingerprint for fold in (*folds["train"], *folds["test"])}
    assert len(prints) == 8
    assert Fold(list(data), split="test", fold=1, folds=4).fingerprint == folds["test"][1].fingerprint


def test_molecules_of_a_scaffold_stay_together(tmp_path: Path) -> None:
    folds = dealt(molecules(tmp_path))
    rings = [set(fold.dataset.scaffolds) for fold in folds["test"]]
    assert sum(map(len, rings)) == len(set.union(*rings))
    assert all(fold.dataset.targets.shape == (len(fold), 1) for fold in folds["test"])


def test_rows_are_stratified_by_the_column_that_is_learned(tmp_path: Path) -> None:
    data = CASES["ClickFile"][0](tmp_path)
    assert pooled(data).dealing("clicked").how == "stratified by the 2 values of clicked"
    assert pooled(data).dealing("id").how == "stratified by the 90 values of id"
    assert pooled(data).dealing().how == "cut at random"
    for fold in dealt(data, "clicked")["test"]:
        share = fold.dataset.table["clicked"].texts().count("yes")
        assert 7 <= share <= 8, "of 30 in 4 folds"


def test_official_splits_are_dealt_out_again() -> None:
    data: list[Any] = [Adult(split=split) for split in SPLITS]  # type: ignore[arg-type]
    fold: Any = Fold(data, split="test", fold=0, folds=5, by="income")
    assert len(fold) in (9768, 9769)
    assert len(next(fold.dataset.blocks(["income"]))["income"]) == len(fold), "tasks read rows of the fold alone"


def test_what_came_before_is_known(tmp_path: Path) -> None:
    make, keys = CASES["Atomic"]
    data = make(tmp_path)
    folds = dealt(data)
    assert folds["train"][0].dataset.raw.known is None
    trained = keys(folds["train"][0].dataset)
    val, test = (folds[split][0].dataset for split in ("val", "test"))
    assert sorted(zip(*events(val.raw.known), strict=True)) == sorted(trained)
    assert sorted(zip(*events(test.raw.known), strict=True)) == sorted([*trained, *keys(val)])
    held = dealt(data, validate="held_out")["val"][0].dataset
    assert len(held.raw.known) + len(held) == len(pooled(data))
    fold = folds["test"][0]
    numbers = {kind: vocabulary_of(folds["train"][0], kind) for kind in ("users", "items")}
    bind(fold, numbers)
    assert 0 < len(interactions_of(fold)) <= len(fold)
    users = [np.bincount(each.dataset.raw.users, minlength=9) for each in folds["test"]]
    assert np.ptp(users, axis=0).max() <= 1, "each user's events in equal shares"


def test_sessions_of_a_fold_have_numbers(tmp_path: Path) -> None:
    folds = dealt(CASES["SessionFile"][0](tmp_path))
    items = vocabulary_of(folds["train"][0])
    for split in SPLITS:
        bind(folds[split][0], {"items": items})
    assert sessions_of(folds["train"][0]).items.min() > 0
    assert len(sessions_of(folds["test"][0])) <= len(folds["test"][0])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda f: splits_of(SessionFile, f, holdout={"val": "1h", "test": "1h"}), "they are cut in time"),
        (lambda f: splits_of(AtomicSessions, f, leave_one_out=True), "each session is in every split"),
        (lambda f: splits_of(Atomic, f), "they are cut in time, and a fold would learn from what came later"),
        (lambda f: splits_of(Atomic, f, ratios=RATIOS, order="time"), "cut events at random: ratios, and order"),
        (lambda f: splits_of(ItemTags, f), "the texts of each split are numbered for themselves"),
        (lambda f: [Few(ClickFile(rows_of(f)), 4)], "the samples of Few cannot be dealt out to folds: they belong"),
    ],
)
def test_what_cannot_be_dealt_out_says_why(make: Callable[[Path], list[Any]], says: str, tmp_path: Path) -> None:
    for data in make(tmp_path):
        with pytest.raises(UsageError, match=says):
            data.dealing()


def test_splits_that_do_not_fit_together(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, lines in ((one, "1 2\n2 3\n"), (two, "7 8\n8 9\n")):
        folder.mkdir()
        (folder / "pairs.txt").write_text(lines)
    given = [PairFile(one / "pairs.txt"), PairFile(two / "pairs.txt")]
    with pytest.raises(UsageError, match=r"the splits are files of their own \(.*one.*, .*two.*\), not cut from one"):
        pooled(given)
    with pytest.raises(UsageError, match=r"some sessions of .* are in two splits"):
        pooled([given[0], given[0]])
    rows = ClickFile(rows_of(tmp_path))
    with pytest.raises(UsageError, match="two splits of the recipe are the same rows"):
        pooled([rows, ClickFile(rows_of(tmp_path))])
    with pytest.raises(UsageError, match="samples of PairFile and ClickFile do not make one data set"):
        pooled([given[0], rows])


def test_groups_stay_whole_and_folds_alike() -> None:
    groups = np.random.default_rng(0).integers(0, 40, 300)
    found = grouped_folds(groups, 5)
    assert all(len(set(found[groups == group].tolist())) == 1 for group in range(40))
    assert np.ptp(np.bincount(found, minlength=5)) <= 5
    assert (grouped_folds(groups, 5, 1) != found).any()
    with pytest.raises(ConfigError, match="groups of samples cannot be cut into 99 folds"):
        Fold([Grouped()], split="test", fold=0, folds=99)


class Grouped(Dataset):
    def __len__(self) -> int:
        return 200

    def dealing(self, by: str | None = None) -> Any:
        from pdl.data.dataset import Dealing

        return Dealing("in pairs", groups=np.arange(200) // 4)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        return datasets[0]  # type: ignore[no-any-return]


def test_a_recipe_of_rows_is_folded() -> None:
    recipe = Recipe(load("rec/synthetic_lr"))
    assert protocol(recipe, 3, "inner").startswith(
        "3 folds of the 2,000 samples of data.train and data.val and data.test, stratified by the 2 values of label."
    )
    one = folded(recipe, 1, 3, "inner")
    assert one.config["data"]["test"]["by"] == "label"
    assert len(one.data.datasets(("test",))["test"]) in (666, 667)
