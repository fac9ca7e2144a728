"""`bundle_of`: what others publish becomes a bundle, once, on this machine."""

from __future__ import annotations

import importlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import hub, nn, watch
from pdl.errors import DataError, ShapeError, UsageError
from pdl.export import bundle_of
from pdl.runtime import load
from pdl.runtime.bundle import read
from pdl.runtime.weights import to_bytes
from tests.framework.hub.conftest import Offer
from tests.framework.hub.test_pretrained import Net, as_bundle, as_torch

BUILD = importlib.import_module("pdl.export.from_hub")
PIPELINE = {
    "pre": {
        "image": [
            {"step": "image", "mode": "rgb"},
            {"step": "resize", "size": [8, 8]},
            {"step": "normalize", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25]},
        ]
    },
    "post": {"y": [{"step": "softmax"}, {"step": "top", "k": 2}]},
}
PICTURE = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
LABELS = [f"class {i}" for i in range(10)]


@pytest.fixture
def net(demo: None, monkeypatch: pytest.MonkeyPatch) -> Net:
    """A net of the demo suite, as a config may name it."""
    import pdl_demo

    class Small(Net):
        pass

    Small.__module__ = "pdl_demo"
    monkeypatch.setattr(pdl_demo, "Small", Small, raising=False)
    pdl.seed(0)
    made = Small().eval()
    made.bn1.running_mean._data[:] = np.arange(8) / 8
    return made


@pytest.fixture
def offered(offer: Offer, net: Net, tmp_path: Path) -> Any:
    """The entry of the net's weights as torch saves them; keywords change its `build`."""

    def offered(file: str = "net.pth", content: bytes | None = None, **change: Any) -> hub.Entry:
        as_torch(net, tmp_path / "net.pth")
        data = (tmp_path / "net.pth").read_bytes() if content is None else content
        build = {"model": {"_target_": "pdl_demo.Small"}, "pipeline": PIPELINE, "labels": "names.txt"} | change
        build = {key: value for key, value in build.items() if value is not None}
        sources = [{"package": f"weights/{file}"}]
        made = offer(content=data, file=file, build=build or None, sources=sources, card="cards/net.md",
                     metric={"name": "accuracy", "value": 0.5, "data": "few", "protocol": "none"})  # fmt: skip
        for path, text in (("names.txt", "".join(f"{each}\n" for each in LABELS)), ("cards/net.md", "# The card\n")):
            made.inside(path).parent.mkdir(exist_ok=True)
            made.inside(path).write_text(text)
        made.inside("weights").mkdir(exist_ok=True)
        made.inside(f"weights/{file}").write_bytes(data)
        return made

    return offered


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = socket.socket

    def refuse(*arguments: Any, **more: Any) -> Any:
        if threading.current_thread() is threading.main_thread():  # others belong to tests that have ended
            raise AssertionError("a socket was opened")
        return opened(*arguments, **more)

    monkeypatch.setattr(socket, "socket", refuse)


def logits_of(net: nn.Module) -> np.ndarray:
    small = pdl.runtime.images.resize(PICTURE, (8, 8))
    with pdl.no_grad():
        return np.asarray(net(pdl.tensor(((small / 255 - 0.5) / 0.25)[None].astype(np.float32))).data)


def test_weights_become_a_bundle_once(offered: Any, net: Net, cache: Path, no_sockets: None) -> None:
    entry = offered()
    path = bundle_of("net")
    assert path == bundle_of("demo/net")
    assert path.name == "net.pdl"
    assert path.parent.parent == cache / "built"
    assert [each.name for each in (cache / "built").rglob("*") if each.is_file()] == ["net.pdl"]
    session = load(path)
    expected = logits_of(net)[0]
    answer = session(PICTURE)
    assert answer["label"] == LABELS[int(expected.argmax())]
    assert answer["score"] == pytest.approx(float(np.exp(expected).max() / np.exp(expected).sum()), rel=1e-4)
    stored = read(path)
    assert stored.card == "# The card\n"
    assert stored.meta["licence"] == entry.licence
    assert stored.meta["metrics"] == {"accuracy": 0.5}
    assert entry.sha256 in stored.meta["about"]["file"]
    assert str(cache) not in str(stored.meta)
    entry.inside("weights/net.pth").unlink()  # neither the file nor the network is needed any more
    assert bundle_of("net") == path


def test_a_bundle_holds_the_vocabularies_of_its_entry(offered: Any) -> None:
    entry = offered(vocabularies={"words": "words.txt"})
    entry.inside("words.txt").write_text("one\n\\\\\n")
    path = bundle_of("net")
    assert {name: each.names for name, each in read(path).vocabularies.items()} == {"words": ["one", "\\"]}
    entry.inside("words.txt").write_text("two\n")
    assert bundle_of("net") != path
    assert read(bundle_of("net")).vocabularies["words"].names == ["two"]


def test_tensors_of_a_graph_and_arrays_beside_it_fill_a_net(
    offered: Any, net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an entry of an ONNX file names a net, that net takes the graph's tensors by its family's `remap`."""
    import pdl_demo

    helper = pytest.importorskip("onnx").helper
    own = {name: np.array(value.data) for name, value in net.state_dict().items()}
    here = {name: array for name, array in own.items() if not name.startswith("bn1")}
    beside = {name: array for name, array in own.items() if name.startswith("bn1")}
    ports = [helper.make_tensor_value_info(name, 1, [1]) for name in ("x", "y")]
    tensors = [helper.make_tensor(f"theirs.{name}", 1, array.shape, array.ravel()) for name, array in here.items()]
    reads = [helper.make_node("Max", [each.name], [f"{each.name}.kept"]) for each in tensors]
    total = helper.make_node("Concat", ["x", *(f"{each.name}.flat" for each in tensors)], ["y"], axis=0)
    flat = [helper.make_node("Reshape", [f"{e.name}.kept", "all"], [f"{e.name}.flat"]) for e in tensors]
    every = helper.make_tensor("all", 7, [1], [-1])
    graph = helper.make_graph([*reads, *flat, total], "g", ports[:1], ports[1:], [*tensors, every])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])

    def remap(model: Any, arrays: Any) -> dict[str, np.ndarray]:
        return {name.removeprefix("theirs."): array for name, array in arrays.items() if name != "all"}

    monkeypatch.setattr(pdl_demo, "remap", remap, raising=False)
    entry = offered("net.onnx", model.SerializeToString(), arrays="more.safetensors")
    entry.inside("more.safetensors").write_bytes(to_bytes(beside))
    answer = load(bundle_of("net"))(PICTURE)
    expected = logits_of(net)[0]
    assert answer["score"] == pytest.approx(float(np.exp(expected).max() / np.exp(expected).sum()), rel=1e-4)
    entry.inside("more.safetensors").write_bytes(to_bytes({**beside, "another": np.ones(1, np.float32)}))
    with pytest.raises(ShapeError, match="not in the model: another"):
        bundle_of("net")


def test_a_bundle_can_be_learned_on(offered: Any) -> None:
    """What was built of PyTorch's file carries pdl's own names and layouts."""
    offered()
    report = hub.load_pretrained(Net(classes=3), bundle_of("net"))
    assert report.fresh == ["fc.weight", "fc.bias"]
    assert report.converted == ""


def test_what_goes_into_it_decides_which_one_it_is(offered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = offered()
    first = bundle_of("net")
    entry.inside("names.txt").write_text("".join(f"{each}!\n" for each in LABELS))
    second = bundle_of("net")
    offered(pipeline={**PIPELINE, "post": {"y": [{"step": "softmax"}]}})
    third = bundle_of("net")
    monkeypatch.setattr(BUILD, "__version__", "9.9")
    assert len({first, second, third, bundle_of("net")}) == 4
    assert read(second).labels[0] == "class 0!"


def test_a_damaged_one_is_built_again(offered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(watch, "note", said.append)
    offered()
    path = bundle_of("net")
    good = path.read_bytes()
    path.write_bytes(good[:-100])
    assert bundle_of("net") == path
    assert len(read(path).weights) == len(Net().state_dict())
    assert "building it again" in said[0]


def test_several_at_once_build_it_once(offered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    offered()
    built, before = [], BUILD._build
    monkeypatch.setattr(watch, "note", lambda line: None)
    monkeypatch.setattr(BUILD, "_build", lambda *given: (built.append(1), before(*given)))
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(bundle_of, ["net"] * 4))) == 1
    assert len(built) == 1


def test_a_build_that_fails_leaves_nothing(offered: Any, cache: Path) -> None:
    for change, error, said in [
        ({"model": {"_target_": "pdl_demo.Small", "width": 4}}, DataError, "bn1.weight: (8,), the model has (4,)"),
        ({"model": {"_target_": "pdl_demo.Small", "classes": 5}}, DataError, "do not fill:\npretrained"),
        ({"pipeline": None}, UsageError, "weights need build.pipeline"),
        ({"model": None}, UsageError, "does not say of which net"),
        ({"labels": "nowhere.txt"}, DataError, "nowhere.txt is missing, which hub.yaml names"),
        ({"pipeline": {"pre": {"image": [{"step": "odd"}]}}}, DataError, "unknown step 'odd'"),
    ]:
        offered(**change)
        with pytest.raises((error, pdl.errors.ShapeError)) as caught:
            bundle_of("net")
        assert said in str(caught.value)
        assert not list(cache.rglob("*.pdl*"))


def test_graphs(offered: Any, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    weight = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    pooled = [h.make_node("GlobalAveragePool", ["image"], ["mean"]), h.make_node("Flatten", ["mean"], ["flat"])]
    graph = h.make_graph(
        [*pooled, h.make_node("MatMul", ["flat", "w"], ["y"])],
        "net",
        [h.make_tensor_value_info("image", 1, ["n", 3, "h", "w"])],
        [h.make_tensor_value_info("y", 1, ["n", 4])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    entry = model.metadata_props.add()
    entry.key, entry.value = "names", "ant\nbee\ncow\ndog"
    pre = [*PIPELINE["pre"]["image"], {"step": "layout", "order": "chw"}]
    steps = {"pre": {"image": pre}, "post": PIPELINE["post"]}
    offered("net.onnx", model.SerializeToString(), model=None, pipeline=steps, labels="metadata:names", sizes={"h": 8})
    path = bundle_of("net")
    small = (pdl.runtime.images.resize(PICTURE, (8, 8)) / 255 - 0.5) / 0.25
    assert load(path)(PICTURE)["label"] == ["ant", "bee", "cow", "dog"][int((small.mean((0, 1)) @ weight).argmax())]
    assert read(path).card == "# The card\n"
    assert read(path).meta["about"]["source"] == "ONNX"
    with pytest.raises(UsageError, match="deployment only"):
        hub.load_pretrained(Net(), path)


def test_paths_and_bundles(offer: Offer, tmp_path: Path) -> None:
    as_bundle(Net(), tmp_path / "own.pdl")
    assert bundle_of(tmp_path / "own.pdl") == tmp_path / "own.pdl"
    content = (tmp_path / "own.pdl").read_bytes()
    entry = offer(content=content, file="own.pdl", sources=[{"package": "weights/own.pdl"}])
    entry.inside("weights").mkdir()
    entry.inside("weights/own.pdl").write_bytes(content)
    assert bundle_of("net") == entry.inside("weights/own.pdl")
    for name, said in (
        ("net.onnx", "pdl import"),
        ("net.pth", "model.pretrained="),
        ("net.safetensors", "cannot be run"),
    ):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(UsageError, match=said):
            bundle_of(tmp_path / name)
    with pytest.raises(UsageError, match=r"'nets'.*did you mean 'net'"):
        bundle_of("nets")
