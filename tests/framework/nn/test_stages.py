"""The layers of a model in order: from its tree, or as the model says."""

from __future__ import annotations

import pytest

import pdl
from pdl import nn
from pdl.errors import UsageError
from pdl.nn.stages import head_of, within


class Block(nn.Module):
    """A block that holds a plain container; it is one layer all the same."""

    def __init__(self) -> None:
        self.conv, self.shortcut = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))


class Net(nn.Module):
    head = ("classifier.1", "extra")

    def __init__(self) -> None:
        self.scale = nn.LayerNorm(3)  # a vector before all layers
        self.extra = nn.Linear(4, 2)  # set first, yet an output
        self.stem = nn.Linear(3, 4)
        self.norm = nn.LayerNorm(4)
        self.blocks = nn.Sequential(Block(), nn.Sequential(Block(), nn.LayerNorm(4)))
        self.classifier = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        self.position = nn.Parameter(pdl.zeros((4, 4)))


def tops(layers: list[list[str]]) -> list[list[str]]:
    """The modules that the parameters of each layer lie in, each once."""
    return [list(dict.fromkeys(name.rpartition(".")[0] for name in layer)) for layer in layers]


def test_layers_come_from_the_tree() -> None:
    found = nn.stages(Net())
    assert sorted(name for layer in found for name in layer) == sorted(name for name, _ in Net().named_parameters())
    assert tops(found) == [
        ["", "scale", "stem", "norm"],
        ["blocks.0.conv", "blocks.0.shortcut.0", "blocks.0.shortcut.1"],
        ["blocks.1.0.conv", "blocks.1.0.shortcut.0", "blocks.1.0.shortcut.1", "blocks.1.1"],
        ["classifier.0"],
        ["extra", "classifier.1"],
    ]


def test_a_model_may_declare_its_layers() -> None:
    net = Net()
    net.stages = [["scale", "stem", "norm", "position"], "blocks", ["classifier", "extra"]]  # type: ignore[assignment]
    assert [len(layer) for layer in nn.stages(net)] == [7, 14, 6]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (["scale", "blocks"], "position is in 0 stages"),
        (["*", "blocks"], "blocks.0.conv.weight is in 2 stages"),
        (["*", "nothing"], "'nothing' matches no parameter"),
    ],
)
def test_a_wrong_declaration(declared: list[str], words: str) -> None:
    net = Net()
    net.stages = declared  # type: ignore[assignment]
    with pytest.raises(UsageError, match=words):
        nn.stages(net)


def test_children_called_head_and_stages_are_layers_like_others() -> None:
    net = nn.Sequential({"stages": nn.Linear(2, 2), "head": nn.Linear(2, 2)})
    assert head_of(net) == ("head",)
    assert nn.stages(net) == [["stages.weight", "stages.bias"], ["head.weight", "head.bias"]]
    assert head_of(nn.Linear(2, 2)) == ()


def test_within() -> None:
    assert within("layer1.0.weight", "layer1")
    assert within("layer1.0.weight", ["fc", "*.weight"])
    assert within("layer1.0.weight", "layer?.0")
    assert not within("layer10.weight", "layer1")
