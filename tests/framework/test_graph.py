"""Pictures of programs: what the boxes say, what is folded, and that the layout is one."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path

import pytest

import pdl
from pdl import nn
from pdl.cli import main
from pdl.program import trace
from pdl.report.drawing import _layers, _order, _place, _rows, draw
from pdl.report.graph import Graph, fold, graph_of

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return pdl.relu(x + self.norm(self.conv(x)))


class Net(nn.Module):
    """Five equal residual blocks, another, and a head."""

    def __init__(self) -> None:
        self.blocks = nn.Sequential(*(Block(4) for _ in range(5)))
        self.widen, self.last, self.fc = nn.Conv2d(4, 8, 1, stride=2), Block(8), nn.Linear(8, 2)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        return self.fc(self.last(self.widen(self.blocks(x))).mean(axis=(1, 2)))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return graph_of(trace(Net(), pdl.zeros((2, 6, 6, 4))))


def test_boxes_say_what_a_node_is(graph: Graph) -> None:
    widen = next(box for box in graph.boxes if box.module == "widen")
    assert (widen.title, widen.family) == ("Conv", "product")
    assert widen.lines == ("widen", "stride 2", "weight 1×1×4×8", "bias 8", "→ 2×3×3×8")  # noqa: RUF001
    assert [graph.boxes[i].title for i in widen.inputs] == ["Relu"]
    assert (graph.boxes[0].title, graph.boxes[-1].title) == ("x0", "output")
    assert "RunningAverage" not in {box.title for box in graph.boxes}


def test_equal_neighbours_are_folded(graph: Graph) -> None:
    short = fold(graph)
    assert short.folded == {"blocks.0": 5}
    modules = {box.module for box in short.boxes}
    assert "blocks.0.conv" in modules
    assert not any(module.startswith("blocks.1") for module in modules)
    each = sum(box.module.startswith("blocks.0") for box in graph.boxes)
    assert len(graph.boxes) - len(short.boxes) == 4 * each
    widen = next(box for box in short.boxes if box.module == "widen")
    assert short.boxes[widen.inputs[0]].module == "blocks.0"
    assert all(i < n for n, box in enumerate(short.boxes) for i in box.inputs)
    assert fold(graph, above=1000) is graph


def test_what_differs_is_not_folded() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))
    assert fold(graph_of(trace(net, pdl.zeros((1, 3))))).folded == {"0": 2}


def test_boxes_do_not_overlap_and_edges_go_down(graph: Graph) -> None:
    spots, edges = _layers(graph)
    rows = _rows([*spots, *(s for path in edges for s in path[1:-1])])
    links = [(a, b) for path in edges for a, b in pairwise(path)]
    _order(rows, links)
    _place(rows, links)
    for a, b in combinations(spots, 2):
        apart = a.left + a.width <= b.left or b.left + b.width <= a.left
        assert apart or a.y + a.height < b.y or b.y + b.height < a.y
    assert all(a.layer + 1 == b.layer and a.y + a.height < b.y for a, b in links)


def test_the_picture_is_an_svg_of_all_boxes(graph: Graph) -> None:
    root = ET.fromstring(draw(fold(graph)))
    texts = ["".join(t.itertext()) for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(text.startswith("Conv") for text in texts) == 3
    assert "blocks.0 to 4: 5 times" in texts
    assert draw(graph) == draw(graph)


def test_an_empty_program_has_a_picture() -> None:
    ET.fromstring(draw(Graph("nothing", [])))


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = str(ROOT / "configs/cv/digits_lenet.yaml")
    assert main(["graph", recipe, "--text"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("program LeNet(")
    assert re.search(r"= Conv\{.*\}\(x00, conv1.weight, conv1.bias\)", text)
    assert "MatMul" not in text
    assert main(["graph", recipe, "--step", "--text"]) == 0
    assert "MatMul" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert main(["graph", recipe, "-o", "pictures/lenet.svg", "data.batch_size=8"]) == 0
    assert "LeNet" in capsys.readouterr().out
    assert "8×8×8×1" in Path("pictures/lenet.svg").read_text()  # noqa: RUF001
    assert main(["graph", "nowhere"]) == 2


def test_info_states_what_a_step_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = str(ROOT / "configs/cv/digits_lenet.yaml")
    assert main(["train", "-c", recipe, "--run", "run", "--fast-dev-run", "train.report=false"]) == 0
    capsys.readouterr()
    assert main(["info", "run", "--json"]) == 0
    step = json.loads(capsys.readouterr().out)["step"]
    assert step["parameters"] * 4 == step["parameter_bytes"]
    assert step["peak_bytes"] >= step["arena_bytes"] + step["parameter_bytes"]
    forward = 8 * 8 * 16 * 9 + 4 * 4 * 32 * 16 * 9 + 128 * 120 + 120 * 84 + 84 * 10
    assert step["flops"] == 2 * 32 * (3 * forward - 8 * 8 * 16 * 9)  # no gradient of the images
    assert main(["info", "run"]) == 0
    assert re.search(r"step.peak_memory +\d+\.\d\d MiB", capsys.readouterr().out)


def test_info_of_a_run_without_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> None:
    from pdl.workflow import info, train
    from tests.framework.config.broken import GOOD

    monkeypatch.chdir(tmp_path)
    Path("points").mkdir()
    Path("recipe.yaml").write_text(GOOD)
    train(pdl.config.load("recipe.yaml"), run="run", progress=False)
    config = Path("run/config.yaml")
    config.write_text(config.read_text().replace("split: train", "split: train\n    root: nowhere", 1))
    facts = info("run")
    assert "nowhere: no such folder" in facts["step"]["program"]
    assert facts["status"] == "finished"
