"""The whole way of filling slots: data in both forms, a recipe, its check, training, report, bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config import from_dict
from pdl.data import ConcatDataset, Fold
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl_speech.audio import wav
from pdl_speech.data import SpokenOrders
from pdl_speech.data.orders import slots_of
from pdl_speech.slots.check import check_recipe

RATE = 8000
HERTZ = {"low": 300, "middle": 900, "high": 2500}
SPLITS = {"train": 150, "val": 12, "test": 12}
RATIOS = {"train": 0.75, "val": 0.25}


def order(values: tuple[str, ...], rng: np.random.Generator) -> np.ndarray:
    """A tone for each value that is said, the second one an octave higher, and silence between."""
    parts = [np.zeros(int(rng.uniform(0.05, 0.15) * RATE))]
    for k, value in enumerate(values):
        time = np.arange(int(rng.uniform(0.15, 0.25) * RATE)) / RATE
        tone = np.sin(2 * np.pi * HERTZ.get(value, 0) * 2**k * rng.uniform(0.95, 1.05) * time)
        parts += [0.3 * tone, np.zeros(400)]
    wave = np.concatenate(parts)
    return wave + 0.003 * rng.standard_normal(len(wave))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("orders"), np.random.default_rng(0)
    lines = ["file,first,second,split"]
    for split, count in SPLITS.items():
        for number in range(count):
            values = tuple(str(rng.choice(["low", "high"])) if k == 0 else str(rng.choice(["", "low", "middle"]))
                           for k in range(2))  # fmt: skip
            wav.write(folder / f"{split}{number}.wav", order(values, rng), RATE)
            lines.append(f"{split}{number}.wav,{values[0]},{values[1]},{split}")
    (folder / "orders.csv").write_text("\n".join(lines) + "\n")
    return folder / "orders.csv"


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of what `pdl init` writes, with a smaller net."""
    folder = tmp_path_factory.mktemp("run")
    recipe = folder / "orders.yaml"
    assert main(["init", "speech.slots", "--data", str(table), "--out", str(recipe)]) == 0
    assert main(["check", "-c", str(recipe)]) == 0
    words = ["train.epochs=12", "data.batch_size=8", "model.width=24", "model.blocks=2", "model.hidden=12"]
    words += ["data.transforms.train=[]", "train.eval_every=4", "task.label_smoothing=0.05", "optim.lr=0.01"]
    assert main(["train", "-c", str(recipe), *words, "--run", str(folder / "run")]) == 0
    return folder / "run"


def test_it_learns_and_the_report_has_slots(run: Path) -> None:
    found = json.loads((run / "result.json").read_text())
    assert found["metrics"]["test/whole"] >= 0.75
    assert {"test/accuracy", "test/accuracy@first", "test/accuracy@second", "test/f1"} <= found["metrics"].keys()
    assert set(found["baselines"]) == {"most frequent values", "nearest recording"}
    assert found["baselines"]["most frequent values"]["test/whole"] < found["metrics"]["test/whole"]
    page = (run / "report.html").read_text()
    assert all(title in page for title in ("Slots (test)", "Most confused values (test)"))


def test_run_and_bundle_answer_alike(run: Path, table: Path) -> None:
    session: Any = pdl.runtime.load(run / "model.pdl")
    for name in ("test0.wav", "test1.wav"):  # of different lengths
        (ours,), theirs = workflow.predict(run, [str(table.parent / name)]), session(str(table.parent / name))
        assert ours["slots"] == theirs["slots"]
        assert ours["scores"] == pytest.approx(theirs["scores"], abs=1e-4)
        assert list(theirs["scores"]) == ["first", "second"]
    measured = json.loads((run / "result.json").read_text())["metrics"]["test/whole"]
    assert workflow.evaluate(run / "model.pdl").metrics["test/whole"] == pytest.approx(measured)


# -- data --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def coffee(tmp_path: Path) -> Path:
    """A folder of the form of the speech-to-intent benchmark, with an order that is in no list."""
    (tmp_path / "audio").mkdir()
    labels = {}
    for number in range(21):
        slots = {"size": ("small", "large")[number % 2], **({"roast": "dark"} if number % 3 else {})}
        labels[f"o{number}"] = {"intent": "order", "slots": slots}
        wav.write(tmp_path / f"audio/o{number}.wav", np.full(800 + number, 0.1), RATE)
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    (tmp_path / "train.txt").write_text("".join(f"o{n}\n" for n in range(16)))
    (tmp_path / "test.txt").write_text("".join(f"o{n}\n" for n in range(16, 20)))
    return tmp_path


def test_a_folder_of_orders(coffee: Path) -> None:
    every = SpokenOrders(coffee, rate=RATE)
    assert every.slots == {"size": ["", "large", "small"], "roast": ["", "dark"]}
    assert (len(every), every[5]["slots"].tolist(), len(every[5]["audio"])) == (21, [1, 1], 805)
    assert every[3]["slots"].tolist() == [1, 0]
    assert every.lengths[5] == 805
    test = SpokenOrders(coffee, rate=RATE, split="test", ratios=RATIOS)
    assert [Path(test.path_of(i)).stem for i in range(len(test))] == ["o16", "o17", "o18", "o19"]
    parts = [SpokenOrders(coffee, rate=RATE, split=split, ratios=RATIOS) for split in RATIOS]
    assert [len(part) for part in parts] == [12, 4]
    assert {order.path.stem for part in parts for order in part.orders} == {f"o{n}" for n in range(16)}
    assert [np.bincount(part.targets[:, 0]).tolist() for part in parts] == [[0, 6, 6], [0, 2, 2]]
    folds = [Fold([*parts, test], split="test", fold=k, folds=4, by="roast") for k in range(4)]
    assert sorted(fold.path_of(i) for fold in folds for i in range(5)) == sorted(
        each.path_of(i) for each in (*parts, test) for i in range(len(each))
    )
    assert slots_of(folds[0]) == slots_of(ConcatDataset(parts)) == every.slots


def test_several_intents_are_a_slot(coffee: Path) -> None:
    labels = json.loads((coffee / "labels.json").read_text())
    labels["o0"]["intent"] = "pay"
    (coffee / "labels.json").write_text(json.dumps(labels))
    assert SpokenOrders(coffee, rate=RATE).slots["intent"] == ["", "order", "pay"]
    chosen = SpokenOrders(coffee, rate=RATE, slots=["roast"], values={"roast": ["light", "dark"]})
    assert chosen.slots == {"roast": ["", "light", "dark"]}
    assert set(chosen.targets.ravel().tolist()) == {0, 2}


def test_speakers_are_in_one_split(tmp_path: Path) -> None:
    rows = [f"{n}.wav,s{n % 10},please,{n % 2 or ''}" for n in range(40)]
    (tmp_path / "a.csv").write_text("\n".join(["file,speaker,text,one", *rows]))
    parts = [SpokenOrders(tmp_path / "a.csv", rate=RATE, split=split, ratios=RATIOS) for split in RATIOS]
    assert parts[0].slots == {"one": ["", "1"]}
    assert not set(parts[0].speakers) & set(parts[1].speakers)
    assert sum(map(len, parts)) == 40
    assert parts[0].dealing().groups is not None


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("labels.json", "[]", "holds no orders by ID"),
        ("labels.json", "{", "is no JSON"),
        ("labels.json", '{"a": {"slots": {"size": 3}}}', "'a' has no slots with texts"),
        ("labels.json", '{"a": {"slots": {"intent": "b"}}}', "has a slot called intent"),
        ("test.txt", "o1\n", r"test\.txt:1: 'o1' is in train.txt, too"),
        ("test.txt", "x\n", "'x' is not in labels.json"),
    ],
)
def test_faults_name_their_place(coffee: Path, name: str, text: str, match: str) -> None:
    (coffee / name).write_text(text)
    with pytest.raises(DataError, match=match):
        SpokenOrders(coffee, rate=RATE)


def test_arguments_that_do_not_fit(coffee: Path) -> None:
    for arguments, match in (
        ({"split": "val"}, "no recordings for split 'val', only for test, train"),
        ({"slots": ["milk"]}, "'milk' is none of its slots"),
        ({"values": {"size": ["small"]}}, "the slot size has the value 'large'"),
    ):
        with pytest.raises(DataError, match=match):
            SpokenOrders(coffee, rate=RATE, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ratios are given but no split"):
        SpokenOrders(coffee, rate=RATE, ratios=RATIOS)


def recipe(coffee: Path, **changes: Any) -> Recipe:
    orders = {"_target_": "pdl_speech.data.SpokenOrders", "path": str(coffee), "rate": RATE}
    features = {"_target_": "pdl_speech.features.LogMel", "rate": RATE, "n_mels": 12, "pad_mode": "constant"}
    return Recipe(from_dict({
        "task": {"_target_": "pdl_speech.SlotFilling"},
        "model": {"_target_": "pdl_speech.SlotNet", "features": features, **changes.pop("model", {})},
        "data": {"train": {**orders, "split": "train"}, "test": {**orders, "split": "test", **changes}},
        "optim": {"_target_": "pdl.optim.AdamW"},
    }))  # fmt: skip


def test_splits_that_do_not_fit(coffee: Path) -> None:
    wrong = recipe(coffee, slots=["roast"])
    with pytest.raises(DataError, match=r"data\.test: has the slots roast \(2: dark\), expected size"):
        wrong.task.build().prepare(wrong, wrong.data.datasets())
    own = recipe(coffee, model={"sizes": [3, 3]})
    task, datasets = own.task.build(), own.data.datasets()
    task.prepare(own, datasets)
    with pytest.raises(ConfigError, match=r"model\.sizes=\[3, 3\]"):
        task.check_model(task.model(own), datasets, own)


def test_values_that_training_does_not_hear_are_told(coffee: Path) -> None:
    labels = json.loads((coffee / "labels.json").read_text())
    labels["o17"]["slots"]["size"] = "huge"
    (coffee / "labels.json").write_text(json.dumps(labels))
    own = recipe(coffee)
    found = [each for each in check_recipe(own, own.task.build()) if "train has none of" in each.what]
    assert [each.what for each in found] == ["1 of 4 orders have a value of size that train has none of: huge"]
