"""Bundles of nets that write: the same words as the model's, options, streams, and what a reader refuses."""

from __future__ import annotations

import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from types import SimpleNamespace

import numpy as np
import pytest

from pdl.errors import CheckError, DataError, UsageError
from pdl.export.bundle import write
from pdl.hub import load_pretrained
from pdl.runtime import bundle, load
from pdl.runtime.bundle import read
from pdl.runtime.decoding.writer import key_of, pieces
from pdl.runtime.info import info
from pdl.runtime.predict import Configured, predict
from pdl.runtime.session import of_bundle
from pdl.runtime.steps import registry
from pdl.workflow.exporting import bundle_to_onnx

from .decoders import Attention, Digits, Prefix, Recurrent, deployment, drawn

NETS = {"recurrent": Recurrent, "attention": Attention, "prefix": Prefix, "prompts": lambda: Attention(sources=False)}
ITEMS = ["3 4 5", "8 8", "9 3 4 5 1 6 7", "10"]


@pytest.fixture(autouse=True)
def _steps(monkeypatch):
    monkeypatch.setitem(registry.OWN, "digits", Digits)


@pytest.fixture(scope="module", params=NETS)
def written(request, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.OWN, "digits", Digits)
        made = deployment(drawn(NETS[request.param]()), max_length=24)
        path = tmp_path_factory.mktemp("bundle") / "model.pdl"
        return made, path, write(path, made)


def test_a_bundle_writes_the_words_of_its_model(written) -> None:
    made, path, report = written
    assert report.comparison.difference < 1e-5
    assert not report.notes
    session = load(path)
    for options in ({}, {"beams": 4, "n_best": 3}, {"sample": True, "seed": 5, "temperature": 0.7, "n_best": 2}):
        ours = [p.to_dict() for p in predict(session.with_options(**options), ITEMS)]
        theirs = [p.to_dict() for p in predict(made.with_options(made.writing.options.but(**options)), ITEMS)]
        assert [a["text"] for a in ours] == [a["text"] for a in theirs]
        assert [len(a.get("others", ())) for a in ours] == [options.get("n_best", 1) - 1] * len(ITEMS)
        alone = [session.with_options(**options)(item) for item in ITEMS]
        assert [a["text"] for a in alone] == [a["text"] for a in ours]
        np.testing.assert_allclose([a["score"] for a in alone], [a["score"] for a in theirs], atol=1e-3)
    whole = session(ITEMS[0])["text"]
    stopped = session.with_options(stop=(whole[3],))(ITEMS[0])
    assert stopped["text"] == whole[: whole.index(whole[3])]
    assert "decoding" in info(path)
    assert str(session)


@pytest.mark.parametrize("kind", [Recurrent, Attention])
def test_a_net_begins_with_the_weights_of_a_bundle(kind, tmp_path) -> None:
    net, other = drawn(kind()), drawn(kind(), seed=1)
    write(tmp_path / "model.pdl", deployment(net))
    load_pretrained(other, tmp_path / "model.pdl")
    theirs = other.state_dict()
    assert all(np.array_equal(value.data, theirs[name].data) for name, value in net.state_dict().items())


def test_text_is_streamed_as_it_is_written(written) -> None:
    made, path, _ = written
    for predictor in (load(path), made):
        for item in ITEMS:
            from pdl.runtime.decoding.writer import streamed

            assert "".join(streamed(predictor, item)) == next(iter(predict(predictor, [item]))).answer.value["text"]
    with pytest.raises(UsageError, match="no token is sure before the end"):
        list(load(path).with_options(beams=2).stream("3 4"))


def test_threads_share_a_session(written) -> None:
    session = load(written[1]).with_options(beams=3)
    wanted = [session(item) for item in ITEMS]
    with ThreadPoolExecutor(4) as pool:
        assert [a["text"] for a in pool.map(session, ITEMS * 8)] == [a["text"] for a in wanted * 8]


def test_options_of_the_command_line(written) -> None:
    _, path, _ = written
    session = load(path)
    words = {"--beam": ["3"], "--n-best": ["2"], "--max-length": ["6"], "--length-penalty": ["0.5"]}
    made = Configured.of(session, words)
    assert made.writing.options == session.writing.options.but(beams=3, n_best=2, max_length=6, length_penalty=0.5)
    assert len(made.run(made.pipeline.collate([made.pipeline.prepare("3 4")]))["tokens"][0]) == 2
    drawing = {"--sample": ["yes"], "--top-k": ["3"], "--top-p": ["0.9"], "--seed": ["4"], "--stop": ["x", "y"]}
    options = Configured.of(session, drawing).writing.options
    assert (options.sample, options.top_k, options.top_p, options.seed, options.stop) == (True, 3, 0.9, 4, ("x", "y"))
    with pytest.raises(UsageError, match="--seed says how tokens are drawn: add --sample"):
        Configured.of(session, {"--seed": ["1"]})
    with pytest.raises(UsageError, match="leave out one of them"):
        Configured.of(session, {"--sample": ["yes"], "--beam": ["3"]})
    with pytest.raises(UsageError, match="--seed says how tokens are drawn: leave out --beam"):
        Configured.of(session.with_options(sample=True), {"--seed": ["1"], "--beam": ["3"]})
    with pytest.raises(UsageError, match="--beam two: expected a whole number"):
        Configured.of(session, {"--beam": ["two"]})


def test_a_bundle_that_does_not_agree_is_not_written(tmp_path, monkeypatch) -> None:
    made = deployment(drawn(Recurrent()), max_length=8)
    real = bundle.pack

    def damaged(program, arrays, **more):
        arrays = {name: a * np.float32(1.01) if name == "net.out.weight" else a for name, a in arrays.items()}
        return real(program, arrays, **more)

    monkeypatch.setattr(bundle, "pack", damaged)
    with pytest.raises(CheckError, match="differ from the model's by"):
        write(tmp_path / "model.pdl", made)
    assert not (tmp_path / "model.pdl").exists()


def changed(path, change) -> bytes:
    """The bundle with another program.json, sizes and hashes made right."""
    stored = read(path)
    program = deepcopy(stored.program)
    change(program)
    program.pop("format")
    return bundle.pack(program, stored.weights, pipeline=stored.pipeline, labels=stored.labels)


CHANGES = {
    "the end is no token": (lambda p: p["writing"].update(ends=[11]), "ends has the token 11 of 11"),
    "an option is unknown": (lambda p: p["writing"]["options"].update(speed=2), "no option 'speed'"),
    "an option is out of range": (lambda p: p["writing"]["options"].update(beams=10**6), "beams=1000000 must be"),
    "a key is missing": (lambda p: p["writing"].pop("pad"), "expected ends, begin, prompt, pad and options"),
    "a state is of another width": (lambda p: p["state"].__setitem__(0, WIDER), "expected f32|keys and values"),
    "a state begins with nothing": (lambda p: p["state"].__setitem__(0, NOWHERE), "begins with memory 99|expected"),
    "caches begin with nothing": (
        lambda p: p["state"].__setitem__(slice(2), [FIRST] * 2), "there is not|keys and values|expected"
    ),
    "caches begin apart": (lambda p: p["state"].__setitem__(slice(2), [FIRST, EMPTY]), "all keys and values|expected"),
    "too many positions ahead": (lambda p: p["state"].__setitem__(0, AHEAD), "state: .*'ahead': 1000|expected"),
    "a state is left out": (lambda p: p["state"].pop(), "step: .* inputs"),
    "encode is left out": (lambda p: p.update(encode=None, inputs=[]), "inputs|reads"),
    "the outputs are others": (lambda p: p.update(outputs=["tokens"]), "reads the output|outputs"),
    "scores are a state": (lambda p: p["step"]["outputs"].reverse(), "makes the state|its scores"),
    "a state is no output": (lambda p: p["step"]["outputs"].pop(), "outputs"),
    "tokens are floats": (lambda p: p["step"]["inputs"][0].update(dtype="float32"), "float32|f32|its tokens"),
}
WIDER = {"key_values": 9, "dtype": "float32"}
EMPTY = {"key_values": 16, "dtype": "float32"}
FIRST, AHEAD = EMPTY | {"memory": 99, "lengths": 0, "ahead": 1}, EMPTY | {"ahead": 1000}
NOWHERE = {"carried": [4], "dtype": "float32", "memory": 99}


@pytest.mark.parametrize("name", CHANGES)
def test_programs_that_do_not_fit_are_refused(written, name) -> None:
    change, said = CHANGES[name]
    with pytest.raises(DataError, match=said):
        of_bundle(read(changed(written[1], change)))


def test_the_same_source_draws_the_same_whatever_it_is_padded_to() -> None:
    rows = np.array([[3, 4, 0, 0], [3, 4, 5, 0]])
    keys = key_of([rows, rows[..., None] * np.ones(2, np.float32)], 0)
    assert keys[0] == key_of([rows[:1, :2], rows[:1, :2, None] * np.ones(2, np.float32)], 0)[0]
    assert keys[0] != keys[1]


def test_pieces_wait_for_what_may_change() -> None:
    parts = {1: "a", 2: "ST", 3: "OP", 4: "b", 5: "\ufffd", 6: "x"}

    def text(tokens):
        return "".join(parts[t] for t in tokens).replace("\ufffdx", "é")

    assert list(pieces(iter([1, 2, 4, 5, 6, 1]), text, ["STOP"])) == ["a", "STb", "é", "a"]
    assert list(pieces(iter([1, 4, 2, 3]), text, ["STOP"])) == ["a", "b"]


def test_the_file_names_nothing_but_arrays_and_programs(written) -> None:
    with zipfile.ZipFile(written[1]) as archive:
        program = json.loads(archive.read("program.json"))
    assert program["kind"] == "decoder"
    names = [c["name"] for part in ("encode", "step") if program[part] for c in program[part]["captures"]]
    assert len(names) == len(set(names)) + sum(names.count(n) > 1 for n in set(names))


class Onnx:
    """A `Decoding` of ONNX files in ONNX Runtime: the caches are fed back as its users would."""

    def __init__(self, files, kinds):
        import onnxruntime

        self.kinds = kinds
        self.step_, *self.encode_ = [onnxruntime.InferenceSession(str(each.path)) for each in reversed(files)]

    def encode(self, inputs):
        return tuple(self.encode_[0].run(None, {"words": inputs[0]})) if self.encode_ else ()

    def step(self, run, tokens, counts):
        feed = {"tokens": tokens, "counts": counts, "lengths": run.lengths}
        feed |= {f"state.{i}": each for i, each in enumerate(run.state)}
        feed |= {f"memory.{i}": each for i, each in enumerate(run.memory)}
        taken = {each.name for each in self.step_.get_inputs()}
        scores, *run.state = self.step_.run(None, {name: x for name, x in feed.items() if name in taken})
        return scores


def test_onnx_writes_the_same_words(written, tmp_path) -> None:
    pytest.importorskip("onnxruntime")
    made, path, _ = written
    exported = bundle_to_onnx(path, tmp_path / "net.onnx")
    names = ["encode", "step"] if read(path).program["encode"] else ["step"]
    files = [SimpleNamespace(path=tmp_path / f"net_{name}.onnx") for name in names]
    assert exported.path == files[-1].path
    session = load(path)
    for options in ({}, {"beams": 3, "max_length": 40}):
        ours = session.with_options(**options)
        theirs = copy(ours.engine)
        theirs.decoding = Onnx(files, ours.engine.decoding.kinds)
        arrays = [ours.pipeline.collate([ours.pipeline.prepare(item) for item in ITEMS])[name] for name in made.inputs]
        for a, b in zip(ours.engine(arrays), theirs(arrays), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-3)
