"""Texts that CTC finds, judged by an attention decoder: the decoder, what is chosen, and the bundle of both."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config.compose import load
from pdl.errors import UsageError
from pdl.nn.module import evaluating
from pdl.runtime import load as opened
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.session import of_bundle
from pdl.runtime.steps.base import Resources
from pdl.workflow.run import Run
from pdl_speech.data import standin
from pdl_speech.models.attention_decoder import SMOOTHING, AttentionDecoder
from pdl_speech.models.speech_net import Real
from pdl_speech.rescoring import Rescorer

CLASSES = 5


def decoder() -> AttentionDecoder:
    pdl.seed(3)
    return AttentionDecoder(CLASSES, 16, 2, 2, 0.1)


def log_softmax(x: np.ndarray) -> np.ndarray:
    made: np.ndarray = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return made


def test_a_decoder_sees_what_was_written_and_what_is_real() -> None:
    net, rng = decoder(), np.random.default_rng(0)
    heard = rng.standard_normal((2, 7, 16)).astype(np.float32)
    texts = rng.integers(1, CLASSES, (2, 3, 6))
    real = Real(pdl.as_tensor(np.array([7, 4])))
    with evaluating(net):
        whole = net(pdl.as_tensor(heard), pdl.as_tensor(texts), real).numpy()
        for text in range(3):
            for length in (1, 4):
                given = pdl.as_tensor(texts[1:, text : text + 1, :length])
                alone = net(pdl.as_tensor(heard[1:, :4]), given).numpy()[0, 0]
                assert alone == pytest.approx(whole[1, text, :length], abs=1e-5)
        later = texts.copy()
        later[0, 0, 4] = later[0, 0, 4] % (CLASSES - 1) + 1
        changed = net(pdl.as_tensor(heard), pdl.as_tensor(later), real).numpy()
        assert np.array_equal(changed[0, 0, :4], whole[0, 0, :4])
        assert not np.allclose(changed[0, 0, 4:], whole[0, 0, 4:])
        labels, lengths = np.array([[2, 1, 4], [3, -1, -1]]), np.array([3, 1])
        loss = float(net.loss(pdl.as_tensor(heard), pdl.as_tensor(labels), pdl.as_tensor(lengths), real).numpy())
        total = 0.0
        for row, written in enumerate(([2, 1, 4, 0], [3, 0])):
            given = pdl.as_tensor(np.array([[[0, *written[:-1]]]]))
            memory = pdl.as_tensor(heard[row : row + 1, : [7, 4][row]])
            logs = log_softmax(net(memory, given).numpy()[0, 0].astype(float))
            picked = logs[np.arange(len(written)), written]
            total -= float(((1 - SMOOTHING) * picked + SMOOTHING * logs.mean(axis=1)).sum())
    assert loss == pytest.approx(total / 2, rel=1e-5)


def built(judged: Any, **arguments: Any) -> Rescorer:
    """Of a listener that hears `UNCLEAR` at any sound, and a judge that gives these logits for texts."""
    resources = Resources(labels=["a", "b"])
    pipeline = {"pre": {"features": [{"step": "frames", "channels": 1}]}, "post": {"logits": [{"step": "ctc"}]}}
    read = Pipeline.read(pipeline, resources, "here", ["pdl-speech"])
    unclear = np.array([[[0.1, 0.5, 0.4], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8]]])
    heard = {"logits": unclear, "encoded": np.zeros((1, 3, 2), np.float32)}
    logits, encoded = (SimpleNamespace(name=name, shape=heard[name].shape) for name in heard)
    listener: Any = SimpleNamespace(pipeline=read, run=lambda inputs: heard, outputs=[logits, encoded])
    judge: Any = SimpleNamespace(
        run=lambda inputs: {"logits": judged(inputs["texts"])},
        inputs=[encoded, SimpleNamespace(name="texts")],
        outputs=[SimpleNamespace(name="logits", shape=("n", "b", "l", 3))],
    )
    return Rescorer(listener, judge, **arguments)


def test_the_text_with_the_largest_sum_is_said() -> None:
    """CTC says ab rather than bb, the judge bb; who is heard depends on its share, and where it changes is known."""

    def judged(texts: np.ndarray) -> np.ndarray:
        logits = np.zeros((*texts.shape, 3))
        logits[:, :, 0] = [0, 0, 1]  # first a b
        return logits

    made = built(judged)
    ctc = {"".join("ab"[c - 1] for c in f.classes): f.score for f in made._judged(*listened(made))[1]}
    logs = {text: made.log_p(np.zeros((3, 2), np.float32), [["ab".index(c) + 1 for c in text]])[0] for text in ctc}
    e = math.e
    assert logs["bb"] == pytest.approx(math.log(e / (2 + e)) - 2 * math.log(3))
    assert logs["ab"] == pytest.approx(math.log(1 / (2 + e)) - 2 * math.log(3))
    lead, behind = ctc["ab"] - ctc["bb"], logs["bb"] - logs["ab"]
    turns = float(lead / (lead + behind))
    sound = np.zeros((3, 1), np.float32)
    for share, text in ((0.0, "ab"), (turns - 0.01, "ab"), (turns + 0.01, "bb")):
        assert built(judged, attention=share)(sound)["text"] == text
    flag = made.pipeline.configured({"--attention": ["0"]}, made)
    assert flag.answers([sound], made.run)[0].value["text"] == "ab"
    assert built(judged, attention=0.9, texts=1)(sound)["text"] == "ab", "bb is not judged"
    with pytest.raises(UsageError, match="--attention x: expected a number from 0 to 1"):
        made.pipeline.configured({"--attention": ["x"]}, made)
    with pytest.raises(UsageError, match="texts=0 must be a number from 1 to"):
        built(judged, texts=0)


def listened(made: Rescorer) -> tuple[Any, Any]:
    found = made.listener.run({})
    return found["logits"][0], found["encoded"][0]


def test_one_bundle_of_listener_and_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the bundle's judge says of texts is what the net's decoder does; and the bundle is measured."""
    path, recipe, run, out = standin.write_cepstra(tmp_path), tmp_path / "r.yaml", tmp_path / "run", tmp_path / "r.pdl"
    data = "".join(f"  {s}: {{_target_: pdl_speech.data.AN4, path: {path}, split: {s}}}\n" for s in ("train", "val"))
    recipe.write_text(
        "defaults: [/speech/recognition, _self_]\n"
        "model:\n  _target_: pdl_speech.Conformer\n  features: {_target_: pdl_speech.features.Given, channels: 13}\n"
        "  dim: 16\n  heads: 2\n  layers: 1\n  kernel: 3\n  decoder: 2\n"
        f"data:\n{data}  workers: 0\ntrain: {{epochs: 1}}\n"
    )
    workflow.train(load(recipe), run=run, progress=False)
    assert main(["export", str(run), "--form", "rescoring", "--attention", "0.9", "-o", str(out)]) == 0
    session, net = opened(out), Run.open(run).opened(None).model
    assert session.bundle is not None
    assert session.bundle.program["arguments"] == {"attention": 0.9}
    parts = {name: opened_part(session, name) for name in ("listener", "judge")}
    rescorer = Rescorer(parts["listener"], parts["judge"])
    sound = np.random.default_rng(1).standard_normal((90, 13)).astype(np.float32)
    made = parts["listener"].run({"features": sound[None]})
    texts = [[3, 1, 2], [], [5, 5]]
    found = rescorer.log_p(made["encoded"][0], texts)
    with evaluating(net):
        heard, _ = net.encoded(pdl.as_tensor(sound[None]))
        for text, log_p in zip(texts, found, strict=True):
            logs = log_softmax(net.decoder(heard, pdl.as_tensor(np.array([[[0, *text]]]))).numpy()[0, 0].astype(float))
            assert log_p == pytest.approx(logs[np.arange(len(text) + 1), [*text, 0]].sum(), rel=1e-4)
    with pytest.raises(UsageError, match="reads features, does not fit a listener that gives logits, encoded"):
        Rescorer(parts["listener"], parts["listener"])
    assert set(session(sound)) == {"text", "score", "words"}
    assert workflow.evaluate(out, split="val").metrics["val/wer"] > 0
    assert main(["export", str(run), "--form", "rescoring", "--to", "onnx"]) == 2
    assert "--form rescoring is of several programs" in capsys.readouterr().err


def opened_part(session: Any, name: str) -> Any:
    return of_bundle(session.bundle.parts[name])
