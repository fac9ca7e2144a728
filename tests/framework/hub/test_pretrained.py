"""Weights into a model: from every kind of file, with another head or stem, and what does not fit."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from safetensors.numpy import save_file

import pdl
from pdl import config, hub, nn
from pdl.dims import Dim
from pdl.errors import DataError, ShapeError, UsageError
from pdl.export.bundle import write
from pdl.export.deployment import Deployment
from pdl.hub.pretrained import adapt_channels, collected, deferred
from pdl.ops.base import Spec
from pdl.workflow import Run, evaluate, predict, train
from tests.framework.config.broken import GOOD
from tests.framework.hub.conftest import Offer
from tests.framework.hub.torch_made import tensor, zipped


class Net(nn.Module):
    """A net with all that differs between pdl and PyTorch."""

    head: ClassVar[str] = "fc"
    stem: ClassVar[tuple[str, ...]] = ("conv1",)

    def __init__(self, channels: int = 3, classes: int = 10, width: int = 8) -> None:
        self.conv1 = nn.Conv2d(channels, width, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """Logits."""
        return self.fc(pdl.global_avg_pool(self.conv2(self.bn1(self.conv1(x)))))  # type: ignore[no-any-return]


def state(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: np.array(value.data) for name, value in model.state_dict().items()}


def as_bundle(net: nn.Module, path: Path, **about: Any) -> None:
    net.eval()
    rows = [{"x": row} for row in np.random.default_rng(0).random((3, 8, 8, 3), dtype=np.float32)]
    inputs = {"x": Spec((Dim.symbol("n", 3), 8, 8, 3), np.dtype(np.float32))}
    store = about.pop("store", "fp32")
    write(path, Deployment(net, inputs, ("y",), {}, {}, rows, lambda row: row, about=about), store=store)


def as_torch(net: nn.Module, path: Path) -> None:
    entries = {name: tensor(array, f"{number}") for number, (name, array) in enumerate(nn.to_torch(net).items())}
    path.write_bytes(zipped({**entries, "bn1.num_batches_tracked": tensor(np.array(7), "99")}))


WRITERS: dict[str, tuple[str, Callable[[Net, Path], None]]] = {
    "bundle": ("net.pdl", as_bundle),
    "half bundle": ("net.pdl", lambda net, path: as_bundle(net, path, store="fp16")),
    "safetensors of pdl": ("net.safetensors", lambda net, path: save_file(state(net), path)),
    "pdl.Model": ("net.safetensors", lambda net, path: pdl.Model(net).save(path)),
    "safetensors of torch": ("net.safetensors", lambda net, path: save_file(nn.to_torch(net), path, {"format": "pt"})),
    "safetensors that do not say": ("net.safetensors", lambda net, path: save_file(nn.to_torch(net), path)),
    "torch": ("net.pth", as_torch),
}


@pytest.fixture(params=WRITERS)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Net, Path]:
    """What wrote it, the net, and the file."""
    name, writer = WRITERS[request.param]
    net = Net()
    net.bn1.running_var._data[:] = np.arange(8) + 0.25
    writer(net, tmp_path / name)
    return request.param, net, tmp_path / name


def same(a: np.ndarray, b: np.ndarray, kind: str) -> bool:
    return np.array_equal(a, b.astype(np.float16) if kind == "half bundle" and b.ndim > 1 else b)


def test_all_of_it(written: tuple[str, Net, Path]) -> None:
    kind, net, path = written
    model = Net()
    report = hub.load_pretrained(model, path)
    assert all(same(array, state(net)[name], kind) for name, array in state(model).items())
    assert report.loaded == len(state(net))
    assert (report.adapted, report.fresh, report.unused) == ({}, [], [])
    assert bool(report.converted) == ("torch" in kind or kind == "safetensors that do not say")
    assert report.lines()[0].startswith(f"pretrained {path}: {report.loaded} tensors of Net loaded")
    assert len(report.lines()) == 1


def test_another_head_and_stem(written: tuple[str, Net, Path]) -> None:
    kind, net, path = written
    model = Net(channels=1, classes=4)
    before = state(model)
    report = hub.load_pretrained(model, path)
    after, given = state(model), state(net)
    for name in ("fc.weight", "fc.bias"):
        np.testing.assert_array_equal(after[name], before[name])
    for name in ("bn1.weight", "bn1.running_var", "conv2.weight", "conv2.bias"):
        assert same(after[name], given[name], kind), name
    np.testing.assert_allclose(after["conv1.weight"][:, :, 0], given["conv1.weight"].sum(axis=2), rtol=1e-2, atol=1e-3)
    assert report.fresh == ["fc.weight", "fc.bias"]
    assert report.adapted == {"conv1.weight": "3 input channels summed for 1"}
    assert report.loaded == len(given) - 3
    said = str(report)
    assert "RE-INITIALISED fc.weight, fc.bias" in said
    assert "ADAPTED conv1.weight: 3 input channels summed for 1" in said


def test_everything_else_is_refused_at_once_and_changes_nothing(written: tuple[str, Net, Path]) -> None:
    model = Net(width=4, classes=3)
    before = state(model)
    with pytest.raises(ShapeError) as caught:
        hub.load_pretrained(model, written[2])
    said = str(caught.value)
    assert "bn1.weight: (8,), the model has (4,)" in said
    assert "conv2.bias: (16,), the model has (8,)" in said
    assert "conv1.weight: " in said
    assert "fc." not in said
    assert "give the model the arguments that it had" in said
    assert all(np.array_equal(array, before[name]) for name, array in state(model).items())


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (3, 1, [6]),
        (1, 3, [1 / 3, 1 / 3, 1 / 3]),
        (3, 4, [0.75, 1.5, 2.25, 0.75]),
        (3, 6, [0.5, 1, 1.5, 0.5, 1, 1.5]),
        (3, 2, [1.5, 3]),
        (4, 1, [10]),
        (1, 1, [1]),
    ],
)
def test_adapted_channels(old: int, new: int, expected: list[float]) -> None:
    kernels = np.broadcast_to(np.arange(1, old + 1, dtype=np.float32)[:, None], (2, 2, old, 5))
    made = adapt_channels(kernels, new)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, np.broadcast_to(np.array(expected)[:, None], (2, 2, new, 5)), rtol=1e-6)


def test_a_gray_picture_gives_the_same_in_one_channel_and_in_three(tmp_path: Path) -> None:
    """What the rule is for: r = g = b before, one channel after."""
    save_file(state(net := Net()), tmp_path / "net.safetensors")
    gray = np.random.default_rng(0).random((2, 9, 9, 1), dtype=np.float32)
    model = Net(channels=1)
    hub.load_pretrained(model, tmp_path / "net.safetensors")
    with pdl.no_grad():
        one = model.eval()(pdl.tensor(gray)).data
        three = net.eval()(pdl.tensor(np.repeat(gray, 3, axis=-1))).data
    np.testing.assert_allclose(one, three, rtol=1e-4, atol=1e-6)


def test_heads_in_several_layers_and_leftovers_of_a_head(tmp_path: Path) -> None:
    class Two(Net):
        head: ClassVar[tuple[str, ...]] = ("fc", "aux")  # type: ignore[assignment]

        def __init__(self, classes: int = 10, *, bias: bool = True) -> None:
            super().__init__(classes=classes)
            self.aux = nn.Linear(8, 3, bias=bias)

    save_file(state(Two()), tmp_path / "two.safetensors")
    report = hub.load_pretrained(Two(classes=7), tmp_path / "two.safetensors")
    assert report.fresh == ["fc.weight", "fc.bias"]  # aux fits and is taken
    report = hub.load_pretrained(Two(bias=False), tmp_path / "two.safetensors")
    assert report.unused == ["aux.bias"]
    assert "NOT USED from the file: aux.bias" in str(report)
    save_file({name: array for name, array in state(Two()).items() if "aux" not in name}, tmp_path / "one.safetensors")
    assert hub.load_pretrained(Two(), tmp_path / "one.safetensors").fresh == ["aux.weight", "aux.bias"]


def test_nets_that_name_no_head(tmp_path: Path) -> None:
    def plain(width: int, classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, width), nn.Linear(width, classes))

    save_file(state(plain(3, 10)), tmp_path / "net.safetensors")
    assert hub.load_pretrained(plain(3, 7), tmp_path / "net.safetensors").fresh == ["1.weight", "1.bias"]
    with pytest.raises(ShapeError, match=r"0.weight: \(4, 3\), the model has \(4, 5\)(.*\n)*.*names no head"):
        hub.load_pretrained(plain(5, 10), tmp_path / "net.safetensors")
    with pytest.raises(ShapeError, match=r"not in the model: 1.weight"):
        hub.load_pretrained(nn.Sequential(nn.Linear(4, 3)), tmp_path / "net.safetensors")


def test_a_family_s_own_remap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family = types.ModuleType("pdl_family")
    own = type("Own", (Net,), {"__module__": "pdl_family"})
    family.remap = lambda model, given: nn.from_torch(  # type: ignore[attr-defined]
        model, {name.replace("stem.", "conv1."): array for name, array in given.items()}
    )
    monkeypatch.setitem(sys.modules, "pdl_family", family)
    net = Net()
    renamed = {name.replace("conv1.", "stem."): array for name, array in nn.to_torch(net).items()}
    save_file(renamed, tmp_path / "net.safetensors")
    model = own()
    report = hub.load_pretrained(model, tmp_path / "net.safetensors")
    assert report.converted == "PyTorch's layouts, turned by pdl_family.remap"
    np.testing.assert_array_equal(state(model)["conv1.weight"], state(net)["conv1.weight"])

    def fails(model: Any, given: Any) -> Any:
        raise KeyError("blocks.0")

    family.remap = fails  # type: ignore[attr-defined]
    with pytest.raises(ShapeError, match=r"not in the model: stem.weight"):
        hub.load_pretrained(own(), tmp_path / "net.safetensors")


def test_by_name_with_a_hint_of_the_net(offer: Offer, tmp_path: Path) -> None:
    save_file(state(Net()), tmp_path / "net.safetensors")
    content = (tmp_path / "net.safetensors").read_bytes()
    entry = offer(content=content, build={"model": {"_target_": "pdl_demo.Net", "width": 8}})
    entry.inside("weights").mkdir()
    entry.inside("weights/net.safetensors").write_bytes(content)
    assert hub.load_pretrained(Net(), "demo/net").source == "demo/net"
    with pytest.raises(ShapeError, match=r"they were made for pdl_demo.Net\(width=8\): give the model the same"):
        hub.load_pretrained(Net(width=2), "net")
    with pytest.raises(UsageError, match=r"no pretrained model.*did you mean 'demo/net'"):
        hub.load_pretrained(Net(), "demo/nets")


#: an ONNX graph whose tensors have no names of layers
ADDED = '<ir_version: 8, opset_import: ["" : 14]> g (float[N] x) => (float[N] y) { y = Add(x, x) }'


def test_what_is_for_deployment_only(offer: Offer, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    entry = offer(file="net.onnx", sources=[{"url": "https://example.org/net.onnx"}])
    for source in (entry.name, tmp_path / "some.onnx"):
        onnx.save(onnx.parser.parse_model(ADDED), tmp_path / "some.onnx")
        with pytest.raises(UsageError, match=r"an ONNX file is for deployment only.*pdl predict"):
            hub.load_pretrained(Net(), source)
    as_bundle(Net(), tmp_path / "imported.pdl", source="ONNX")
    with pytest.raises(UsageError, match="imported from ONNX is for deployment only"):
        hub.load_pretrained(Net(), tmp_path / "imported.pdl")
    for precision in ("int8", "w8", "w4"):
        as_bundle(Net(), tmp_path / "bytes.pdl", precision=precision)
        with pytest.raises(UsageError, match=f"in {precision} is for deployment only"):
            hub.load_pretrained(Net(), tmp_path / "bytes.pdl")


@pytest.mark.parametrize("name", ["net.safetensors", "net.pth", "net.pdl"])
@pytest.mark.parametrize("content", [b"", b"not this", b"PK\x03\x04 nor this", b"\x10" * 64])
def test_damaged_files(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        hub.load_pretrained(Net(), tmp_path / name)


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "weights.h5").write_bytes(b"x")
    with pytest.raises(DataError, match=r"weights are read from files named \.pdl, \.safetensors, \.pth"):
        hub.load_pretrained(Net(), tmp_path / "weights.h5")


# -- in a training -----------------------------------------------------------------------------------------------------
def test_of_a_run_and_in_a_run(demo: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pdl_demo

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(GOOD)
    first = train(config.load(recipe), run=tmp_path / "first", progress=False)
    assert first.pretrained == []
    model = pdl_demo.Net(width=8)
    with collected() as reports:
        assert hub.load_pretrained(model, first.run) == reports[0]
    assert np.abs(state(model)["layer.bias"]).sum() > 0


@pytest.fixture
def tuned(demo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A recipe with `pretrained`, and the file."""
    import pdl_demo

    class Tuned(pdl_demo.Net):  # type: ignore[misc, name-defined]
        def __init__(self, *, width: int = 8, dropout: float = 0.0, pretrained: str | None = None) -> None:
            super().__init__(width=width, dropout=dropout)
            if pretrained is not None:
                hub.load_pretrained(self, pretrained)

    Tuned.__module__ = "pdl_demo"
    monkeypatch.setattr(pdl_demo, "Tuned", Tuned, raising=False)
    file = tmp_path / "weights.safetensors"
    save_file(state(pdl_demo.Net(width=8)), file)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(GOOD.replace("pdl_demo.Net", "pdl_demo.Tuned").replace("width: 8", f"pretrained: {file}"))
    return recipe, file


def test_the_log_and_the_result_tell_of_it(tuned: tuple[Path, Path], tmp_path: Path, capsys: Any) -> None:
    recipe, file = tuned
    result = train(config.load(recipe), run=tmp_path / "run")
    said = capsys.readouterr().err
    assert f"pretrained {file}: 2 tensors of Tuned loaded" in said
    assert said.index("pretrained") < said.index("epoch 1/")
    (report,) = result.pretrained
    assert report["source"] == str(file)
    assert report["loaded"] == 2
    assert ("pretrained", f"{file}: 2 tensors") in result.rows()
    assert hub.Report(**report).lines()


def test_a_run_no_longer_needs_what_it_began_with(tuned: tuple[Path, Path], tmp_path: Path) -> None:
    """Going on, evaluating and predicting take the run's own weights; the file may be gone."""
    recipe, file = tuned
    train(config.load(recipe), run=tmp_path / "run", progress=False)
    file.unlink()
    run = tmp_path / "run"
    evaluate(run, split="val")
    Run.open(run)
    longer = config.load(run / "config.yaml")
    result = train(longer, run=run, resume=True, progress=False)
    assert result.pretrained[0]["source"] == str(file)
    with pytest.raises(UsageError):
        predict(run, [1])  # the demo's task has none, which is what is said: not that a file is missing
    with deferred():
        assert hub.load_pretrained(Net(), "nowhere").loaded == 0
    with pytest.raises(UsageError, match="no pretrained model"):
        train(config.load(recipe), run=tmp_path / "again", progress=False)
