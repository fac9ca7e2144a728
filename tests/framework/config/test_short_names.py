"""Parts by short name, one part in the place of another, and the lists of keys and parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pdl import config, suites
from pdl.config.keys import _arguments, meaning
from pdl.config.parts import KINDS, find, parts
from pdl.errors import ConfigError, PdlError, UsageError
from pdl.train import TrainSettings
from pdl.train.recipe import Loading, Recipe, Schema

NAMES = [
    ("resnet18", "models", "pdl_cv.ResNet"),
    ("LeNet", "models", "pdl_cv.LeNet"),
    ("sasrec", "models", "pdl_rec.SASRec"),
    ("sgd", "optimizers", "pdl.optim.SGD"),
    ("AdamW", "optimizers", "pdl.optim.AdamW"),
    ("adam_w", "optimizers", "pdl.optim.AdamW"),
    ("rmsprop", "optimizers", "pdl.optim.RMSprop"),
    ("one_cycle", "schedules", "pdl.optim.OneCycle"),
    ("random_crop", "transforms", "pdl.data.transforms.RandomCrop"),
    ("cifar10", "datasets", "pdl_cv.data.CIFAR10"),
    ("image-folder", "datasets", "pdl_cv.data.ImageFolder"),
    ("next_item", "tasks", "pdl_rec.NextItem"),
    ("cross_entropy", "losses", "pdl.nn.CrossEntropyLoss"),
    ("mse_loss", "losses", "pdl.nn.MSELoss"),
    ("accuracy", "metrics", "pdl.train.metrics.Accuracy"),
    ("conv2d", "layers", "pdl.nn.Conv2d"),
]


@pytest.mark.parametrize(("word", "kind", "target"), NAMES)
def test_short_names(word: str, kind: str, target: str) -> None:
    assert find(word, kind).target == target


@pytest.mark.parametrize("kind", KINDS)
def test_every_listed_part_is_found_by_its_name(kind: str) -> None:
    listed = config.parts(kind)
    assert len(listed) >= 5
    for part in listed:
        assert suites.locate(part.target)
        assert part.summary, part.target
        same = {each.target for each in listed if each.name == part.name}
        if len(same) == 1 or kind in ("optimizers", "schedules", "transforms", "losses"):  # pdl's own come first
            assert find(part.name, kind).target in same


def test_listed_parts_can_be_chosen_by_a_pattern() -> None:
    assert [each.name for each in config.parts("optimizers", "ada?")] == ["adam"]
    assert {"random_crop", "random_affine"} <= {each.name for each in config.parts("transforms", "random")}
    with pytest.raises(ConfigError, match="did you mean 'optimizers'"):
        config.parts("optimisers")


@pytest.mark.parametrize(
    ("word", "kind", "said"),
    [
        ("sgdd", "optimizers", "did you mean 'sgd'"),
        ("digits", "datasets", "pdl_cv.data.Digits or pdl_quantum.data.Digits"),
        ("zzz", "schedules", "there are: chain"),
        ("zzz", None, "`pdl list`"),
    ],
)
def test_names_that_mean_nothing_or_too_much(word: str, kind: str | None, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find(word, kind)


def checked(*overrides: str, recipe: str = "cv/digits_lenet") -> config.Config:
    return Recipe(config.load(recipe, list(overrides))).config


def test_a_part_takes_the_place_of_another() -> None:
    loaded = checked("model=resnet18", "optim=sgd", "schedule=cosine")
    assert loaded["model"] == {"_target_": "pdl_cv.ResNet", "depth": 18}
    assert loaded["optim"] == {"_target_": "pdl.optim.SGD", "lr": 3e-3, "weight_decay": 0.01}
    assert loaded["schedule"] == {"_target_": "pdl.optim.Cosine"}
    model, optim = loaded.notices
    assert model == "model: pdl_cv.ResNet in the place of pdl_cv.LeNet; without image_size, channels"
    assert optim == "optim: pdl.optim.SGD in the place of pdl.optim.AdamW; keeps lr=0.003, weight_decay=0.01"


PLACED = [
    (["model=resnet18", "model.depth=34"], "model", {"_target_": "pdl_cv.ResNet", "depth": 34}),
    (["model._target_=pdl_cv.ResNet"], "model", {"_target_": "pdl_cv.ResNet"}),
    (["model._target_=resnet50"], "model", {"_target_": "pdl_cv.ResNet", "depth": 50}),
    (["model={_target_: resnet50, groups: 2}"], "model", {"_target_": "pdl_cv.ResNet", "depth": 50, "groups": 2}),
    (["model=pdl_cv.ResNet"], "model", {"_target_": "pdl_cv.ResNet"}),
    (
        ["schedule=one_cycle", "schedule.pct_start=0.1"],
        "schedule",
        {"_target_": "pdl.optim.OneCycle", "pct_start": 0.1},
    ),
    (["model.pretrained=cv/digits_lenet", "model=resnet18"], "model", {"_target_": "pdl_cv.ResNet", "depth": 18}),
    (["optim=adamw"], "optim", {"_target_": "pdl.optim.AdamW", "lr": 3e-3, "weight_decay": 0.01}),
    (
        ["data.transforms.eval=[to_float,{_target_: resize, size: 8}]"],
        "data.transforms.eval",
        [{"_target_": "pdl.data.transforms.ToFloat"}, {"_target_": "pdl.data.transforms.Resize", "size": 8}],
    ),
    (["data.train=cv_digits"], "", "nothing among the datasets is called"),
    (["model=resnet19"], "", "did you mean 'resnet1"),
    (["model=pdl_cv.LeNett"], "", "did you mean 'pdl_cv.LeNet'"),
]


@pytest.mark.parametrize(("overrides", "key", "expected"), PLACED)
def test_parts_on_the_command_line(overrides: list[str], key: str, expected: Any) -> None:
    if not key:
        with pytest.raises(ConfigError, match=expected):
            checked(*overrides)
        return
    loaded = checked(*overrides)
    assert config.tree.plain(loaded.get(key)) == expected


def test_short_names_in_recipes(tmp_path: Path) -> None:
    lines = ["defaults: [/cv/digits_lenet, _self_]", "model: resnet18", "optim: {_target_: sgd}", "schedule: one_cycle"]
    text = "\n".join(lines)
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    loaded = checked(recipe=str(file))
    assert loaded["model"] == {"_target_": "pdl_cv.ResNet", "depth": 18}
    assert loaded["optim"]["_target_"] == "pdl.optim.SGD"
    assert loaded["optim"]["lr"] == 3e-3
    assert loaded.notices == ["model: pdl_cv.ResNet in the place of pdl_cv.LeNet; without image_size, channels"]
    config.dump(loaded, tmp_path)
    assert config.load(tmp_path / "config.yaml").plain() == loaded.plain()


HABITS = [
    ("lr=0.5", "optim.lr", 0.5),
    ("epochs=2", "train.epochs", 2),
    ("batch_size=8", "data.batch_size", 8),
    ("seed=3", "train.seed", 3),
    ("hidden=[7,6]", "model.hidden", [7, 6]),
    ("dropout=0.1", "model.dropout", 0.1),
]


@pytest.mark.parametrize(("override", "key", "value"), HABITS)
def test_keys_of_one_section_stand_alone(override: str, key: str, value: Any) -> None:
    loaded = checked(override)
    assert loaded.get(key) == value
    assert loaded.notices == [f"{override.partition('=')[0]}={value} is read as {key}={value}"]
    assert override in str(loaded.origin(key))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learning_rate=0.1", "no key of the top level; write optim.lr"),
        ("nosuch=1", "unknown key"),
        ("optim.learning_rate=1", "did you mean 'lr'"),
        ("data.num_workers=1", "did you mean 'workers'"),
    ],
)
def test_other_habits_are_answered(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        checked(override)


def test_keys_that_two_sections_take_are_ambiguous() -> None:
    with pytest.raises(ConfigError, match=r"write model.momentum or optim.momentum"):
        checked("model=mobilenet_v3_small", "optim=sgd", "momentum=0.5")


def test_top_level_habits_in_a_file_are_answered(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("defaults: [/cv/digits_lenet, _self_]\nlr: 0.1\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:2: lr: no key of the top level; write optim.lr"):
        checked(recipe=str(file))


# -- keys --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("part", [TrainSettings, Loading])
def test_every_setting_has_a_meaning(part: Any) -> None:
    for name in part.__dataclass_fields__:
        assert meaning(part, name), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_argument_of_every_part_has_a_meaning(kind: str) -> None:
    silent = [
        f"{each.target}.{info.key}"
        for each in parts(kind)
        for info in _arguments({}, suites.locate(each.target), ())
        if not info.meaning
    ]
    assert not silent, "say what they mean in a table of arguments in the docstring of the class"


def test_arguments_that_share_a_line() -> None:
    class Net:
        """Something.

        crosses, more  cross layers;  rank: of their matrices;    width  of all
        """

    assert [meaning(Net, name) for name in ("more", "rank", "width")] == ["cross layers", "of their matrices", "of all"]
    assert "inferred from the data" in meaning(Net, "num_classes")
    assert meaning(Net, "nothing") == ""


def test_keys_of_sections_and_parts() -> None:
    ema, epochs = (config.keys(Schema, [key])[0] for key in ("train.ema", "train.epochs"))
    assert (ema.default, epochs.default) == (None, 10)
    assert str(epochs) == "a whole number >= 1; default 10"
    assert "passes over" in epochs.meaning
    every = {each.key for each in config.keys(Schema)}
    assert {"data.batch_size", "data.transforms.train", "model", "optim", "train.seed"} <= every
    dampening = next(each for each in config.keys(Schema, ["optim"]) if each.key == "optim.dampening")
    assert dampening.meaning.endswith("(of sgd)")
    sgd = {each.key: each for each in config.keys(Schema, ["sgd"])}
    assert "params" not in sgd
    assert sgd["momentum"].default == 0.0
    depth = next(each for each in config.keys(Schema, ["resnet50"]) if each.key == "depth")
    assert (depth.default, depth.given) == (18, 50)
    with pytest.raises(UsageError, match="did you mean 'train'"):
        config.keys(Schema, ["trian"])


def test_keys_of_a_recipe() -> None:
    loaded = checked()
    rows = {each.key: each for each in config.keys(Schema, (), loaded)}
    assert rows["optim"].given == "pdl.optim.AdamW"
    assert rows["optim.lr"].given == 3e-3
    assert rows["model.image_size"].given == 8
    assert rows["data.transforms.eval.0.size"].given == 8
    assert "optim.params" not in rows
    assert {"required", "key", "values", "meaning"} <= rows["model"].to_dict().keys()


def test_a_recipe_with_its_defaults_is_the_same_recipe() -> None:
    loaded = checked()
    whole = config.with_defaults(loaded, Schema)
    assert whole.get("optim.eps") == 1e-8
    assert whole.get("train.log_every") == 50
    assert whole.get("data.transforms.batch") == []
    assert "eps" not in loaded["optim"]
    Recipe(whole)


@pytest.mark.parametrize("key", ["train", "data", "optim.lr", "sgd", "pdl_cv.LeNet", "image_folder"])
def test_keys_can_be_told_to_programs(key: str) -> None:
    import json

    assert json.dumps([each.to_dict() for each in config.keys(Schema, [key])], default=str)


def test_unknown_words_are_no_crash() -> None:
    for word in ("", ".", "..", "_target_", "digits", "pdl", "pdl.config", "os.system"):
        with pytest.raises(PdlError):
            config.keys(Schema, [word])
