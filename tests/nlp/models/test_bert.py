"""Encoders against BERT written down again in NumPy, with the names of HF's checkpoints; folders of such; sizes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.special import erf, softmax

import pdl
from pdl.errors import ConfigError, DataError, ShapeError
from pdl.hub.pretrained import collected
from pdl.nn import init
from pdl.nn.stages import stages
from pdl_nlp import checkpoints
from pdl_nlp.models import BERT, BERTClassifier, BERTForPretraining, BERTReader, SentenceEncoder
from pdl_nlp.models.bert import VARIANTS

CONFIG: dict[str, Any] = {
    "model_type": "bert", "vocab_size": 40, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
    "intermediate_size": 20, "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_act": "gelu",
    "layer_norm_eps": 1e-12, "pad_token_id": 0,
}  # fmt: skip
TOKENS = np.random.default_rng(1).integers(2, 40, (3, 9))
TOKENS[1, 4:] = TOKENS[2, 1:] = 0
SEGMENTS = np.tile(np.arange(9) > 4, (3, 1)).astype(np.int64)
State = dict[str, np.ndarray]


def state_of(config: dict[str, Any], prefix: str = "") -> State:
    """Random weights of an HF checkpoint."""
    rng, d, h = np.random.default_rng(0), config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings": (config["vocab_size"], d),
        "embeddings.position_embeddings": (config["max_position_embeddings"], d),
        "embeddings.token_type_embeddings": (config["type_vocab_size"], d),
        "embeddings.LayerNorm": (d,),
        "pooler.dense": (d, d),
    }
    if config.get("use_task_id"):
        shapes["embeddings.task_type_embeddings"] = (config["task_type_vocab_size"], d)
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            shapes[f"{layer}attention.self.{part}"] = (d, d)
        shapes |= {f"{layer}attention.output.dense": (d, d), f"{layer}attention.output.LayerNorm": (d,)}
        shapes |= {
            f"{layer}intermediate.dense": (h, d),
            f"{layer}output.dense": (d, h),
            f"{layer}output.LayerNorm": (d,),
        }
    state = {f"{name}.weight": rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    with_bias = {name: shape for name, shape in shapes.items() if not name.endswith("_embeddings")}
    state |= {f"{name}.bias": rng.normal(0, 0.4, shape[:1]).astype(np.float32) for name, shape in with_bias.items()}
    return {prefix + name: value for name, value in state.items()}


def restated(
    state: State, config: dict[str, Any], tokens: np.ndarray, segments: np.ndarray, task: int = 0
) -> np.ndarray:
    """States [N, T, d] in float64, as the papers have them."""
    w = {name: value.astype(np.float64) for name, value in state.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + config["layer_norm_eps"]) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    pad, heads = config["pad_token_id"], config["num_attention_heads"]
    first = pad + 1 if config["model_type"] == "roberta" else 0
    n, t = tokens.shape
    x = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.token_type_embeddings.weight"][segments]
    x = x + w["embeddings.position_embeddings.weight"][first + np.arange(t)]
    if config.get("use_task_id"):
        x = x + w["embeddings.task_type_embeddings.weight"][task]
    x = norm(x, "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        q, k, v = (
            linear(x, f"{layer}attention.self.{part}").reshape(n, t, heads, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
        p = softmax(np.where((tokens != pad)[:, None, None], scores, -np.inf), axis=-1)
        y = (p @ v).transpose(0, 2, 1, 3).reshape(n, t, -1)
        x = norm(x + linear(y, f"{layer}attention.output.dense"), f"{layer}attention.output.LayerNorm")
        h = linear(x, f"{layer}intermediate.dense")
        h = np.maximum(h, 0) if config["hidden_act"] == "relu" else h * 0.5 * (1 + erf(h / math.sqrt(2)))
        x = norm(x + linear(h, f"{layer}output.dense"), f"{layer}output.LayerNorm")
    return x


def folder_of(path: Path, config: dict[str, Any], prefix: str = "", name: str = "model.safetensors") -> Path:
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    save_file(state_of(config, prefix), path / name, {"format": "pt"})
    return path


FOLDERS: dict[str, tuple[dict[str, Any], str]] = {
    "bert": ({}, ""),
    "bert with a prefix, relu": ({"hidden_act": "relu"}, "bert."),
    "ernie": ({"model_type": "ernie", "use_task_id": True, "task_type_vocab_size": 3}, "ernie."),
    "roberta": ({"model_type": "roberta", "pad_token_id": 1, "max_position_embeddings": 18}, "roberta."),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_checkpoints_give_the_states_of_the_papers(name: str, tmp_path: Path) -> None:
    changes, prefix = FOLDERS[name]
    config = {**CONFIG, **changes}
    folder = folder_of(tmp_path / "checkpoint", config, prefix)
    sizes, task = checkpoints.sizes(folder), 2 if "ernie" in name else 0
    with collected() as reports:
        net = BERT(**sizes, task=task, pretrained=str(folder)).eval()
    tokens = np.where(TOKENS == 0, config["pad_token_id"], TOKENS)
    with pdl.no_grad():
        found = net(pdl.as_tensor(tokens), pdl.as_tensor(SEGMENTS)).numpy()
    there = TOKENS != 0
    np.testing.assert_allclose(
        found[there], restated(state_of(config), config, tokens, SEGMENTS, task)[there], atol=1e-5
    )
    assert (sorted(reports[0].unused), reports[0].fresh) == (["pooler.bias", "pooler.weight"], [])
    assert sizes["max_length"] == 16


def test_a_classifier_takes_the_pooler_and_draws_its_last_layer(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "checkpoint", CONFIG)
    with collected() as reports:
        net = BERTClassifier(num_classes=3, **checkpoints.sizes(folder), pretrained=str(folder)).eval()
    assert reports[0].fresh == ["classifier.weight", "classifier.bias"]
    state = state_of(CONFIG)
    first = restated(state, CONFIG, TOKENS, SEGMENTS)[:, 0]
    pooled = np.tanh(first @ state["pooler.dense.weight"].T + state["pooler.dense.bias"])
    with pdl.no_grad():
        found = net(pdl.as_tensor(TOKENS), pdl.as_tensor(SEGMENTS)).numpy()
    np.testing.assert_allclose(found, pooled @ net.classifier.weight.data + net.classifier.bias.data, atol=1e-5)
    layers = [[name.split(".")[0] for name in layer] for layer in stages(net)]
    assert [set(layer) for layer in layers] == [{"embeddings"}, {"layers"}, {"layers"}, {"pooler", "classifier"}]


def test_the_head_for_answers_of_a_checkpoint(tmp_path: Path) -> None:
    """As HF's BertForQuestionAnswering names it."""
    folder, rng, state = folder_of(tmp_path / "checkpoint", CONFIG), np.random.default_rng(3), state_of(CONFIG, "bert.")
    shapes: dict[str, tuple[int, ...]] = {"qa_outputs.weight": (2, CONFIG["hidden_size"]), "qa_outputs.bias": (2,)}
    head = {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(state | head, folder / "model.safetensors", {"format": "pt"})
    with collected() as reports:
        net = BERTReader(**checkpoints.sizes(folder), pretrained=str(folder)).eval()
    assert reports[0].fresh == []
    with pdl.no_grad():
        found = net(pdl.as_tensor(TOKENS), pdl.as_tensor(SEGMENTS)).numpy()
    states = restated(state_of(CONFIG), CONFIG, TOKENS, SEGMENTS)
    expected = states @ head["qa_outputs.weight"].T + head["qa_outputs.bias"]
    np.testing.assert_allclose(found[TOKENS != 0], expected[TOKENS != 0], atol=1e-5)


def test_the_head_for_masked_words_of_a_checkpoint(tmp_path: Path) -> None:
    """As HF's BertForMaskedLM names it, whose output table is that of the embeddings."""
    folder, d = folder_of(tmp_path / "checkpoint", CONFIG, "bert."), CONFIG["hidden_size"]
    rng, state = np.random.default_rng(2), state_of(CONFIG, "bert.")
    start = "cls.predictions."
    shapes = {"transform.dense.weight": (d, d), "bias": (40,), "decoder.bias": (40,), "decoder.weight": (40, d)}
    shapes |= dict.fromkeys(("transform.dense.bias", "transform.LayerNorm.weight", "transform.LayerNorm.bias"), (d,))
    head = {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(
        state | {start + name: value for name, value in head.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    with collected() as reports:
        net = BERTForPretraining(**checkpoints.sizes(folder), pretrained=str(folder)).eval()
    assert reports[0].fresh == []
    positions = np.array([[1, 2], [3, 0], [0, 0]])
    with pdl.no_grad():
        found = net(pdl.as_tensor(TOKENS), pdl.as_tensor(positions), pdl.as_tensor(SEGMENTS)).numpy()
    x = np.take_along_axis(restated(state_of(CONFIG), CONFIG, TOKENS, SEGMENTS), positions[..., None], axis=1)
    h = x @ head["transform.dense.weight"].T + head["transform.dense.bias"]
    h = h * 0.5 * (1 + erf(h / math.sqrt(2)))
    h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-12)
    h = h * head["transform.LayerNorm.weight"] + head["transform.LayerNorm.bias"]
    expected = h @ state["bert.embeddings.word_embeddings.weight"].T + head["bias"]
    np.testing.assert_allclose(found, expected, atol=3e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("normalised", [True, False])
def test_vectors_of_texts(pooling: str, normalised: bool, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "checkpoint", CONFIG)
    made: Any = {"pooling": pooling, "normalised": normalised}
    net = SentenceEncoder(**checkpoints.sizes(folder), **made, pretrained=str(folder)).eval()
    with pdl.no_grad():
        found = net(pdl.as_tensor(TOKENS)).numpy()
    states = restated(state_of(CONFIG), CONFIG, TOKENS, np.zeros_like(TOKENS))
    counts = np.count_nonzero(TOKENS, axis=1)
    expected = np.stack([x[: n if pooling == "mean" else 1].mean(axis=0) for x, n in zip(states, counts, strict=True)])
    if normalised:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"model_type": "distilbert"}, r"model_type='distilbert' is of neither BERT's nor GPT's kind"),
    "relative positions": ({"position_embedding_type": "relative_key"}, "expected 'absolute'"),
    "another activation": ({"hidden_act": "gelu_new"}, "hidden_act='gelu_new' is not known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_nets_are_refused(name: str, tmp_path: Path) -> None:
    changes, said = REFUSED[name]
    with pytest.raises(DataError, match=said):
        checkpoints.sizes(folder_of(tmp_path / "checkpoint", {**CONFIG, **changes}))


def test_faults_of_folders(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "parts", CONFIG, name="model-00001-of-00002.safetensors")
    with pytest.raises(DataError, match=r"neither model.safetensors nor pytorch_model.bin .*model-00001-of-00002"):
        BERT(**checkpoints.sizes(folder), pretrained=str(folder))
    folder = folder_of(tmp_path / "other", CONFIG)
    with pytest.raises(ShapeError, match=r"layers.0.linear1.weight: \(12, 20\), the model has \(12, 24\)"):
        BERT(**{**checkpoints.sizes(folder), "hidden": 24}, pretrained=str(folder))
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02cposix\nsystem\nq\x00X\x02\x00\x00\x00ls\x85R.")
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"pytorch_model\.bin"):
        BERT(**checkpoints.sizes(folder), pretrained=str(folder))
    (folder / "config.json").write_text("{}")
    with pytest.raises(DataError, match="model_type=None"):
        checkpoints.sizes(folder)


def test_rotary_positions_are_no_weights_and_reach_every_layer() -> None:
    pdl.seed(0)
    net = BERT(40, dim=12, heads=3, layers=2, positions="rotary", segments=0, dropout=0.0)
    assert not any("positions" in name for name, _ in net.named_parameters())
    for p in net.parameters():
        init.normal_(p, std=0.4)
    again = BERT(40, dim=12, heads=3, layers=2, positions="rotary", segments=0, max_length=4).eval()
    again.load_state_dict(net.state_dict())
    tokens = pdl.as_tensor(TOKENS)
    np.testing.assert_allclose(again(tokens).data, net.eval()(tokens).data)
    swapped = pdl.as_tensor(TOKENS[:1, [0, 2, 1, 3, 4, 5, 6, 7, 8]])
    assert np.abs(net(swapped).data[:, 0] - net(tokens[:1]).data[:, 0]).max() > 1e-3


def test_faults_of_arguments() -> None:
    with pytest.raises(ConfigError, match="needs vocab_size"):
        BERT()
    with pytest.raises(ConfigError, match="heads=5 must divide dim=12"):
        BERT(9, dim=12, heads=5)
    with pytest.raises(ConfigError, match="task=3 is none of the 3 tasks"):
        BERT(9, dim=12, heads=3, tasks=3, task=3)
    with pytest.raises(ShapeError, match=r"9 tokens, there are vectors for 8 positions; .*max_length=8"):
        BERT(40, dim=12, heads=3, layers=1, max_length=8)(pdl.as_tensor(TOKENS))


#: bert-base-uncased and MiniLM-L6 exactly as HF counts the encoder with its pooler
EXACT = {"bert_base": (30_522, 109_482_240), "minilm_l6": (30_522, 22_713_216)}
#: in millions: BERTs with the layers that pretraining has behind them (google-research/bert, README), ERNIE 3.0 without
#: (PaddleNLP, model_zoo/ernie-3.0)
ROUNDED = {
    "bert_tiny": 4.4, "bert_mini": 11.3, "bert_small": 29.1, "bert_medium": 41.7, "bert_base": 110.1,
    "ernie_3_base": 118, "ernie_3_medium": 75, "ernie_3_mini": 27, "ernie_3_micro": 23, "ernie_3_nano": 18,
}  # fmt: skip


def count(name: str, vocab: int) -> int:
    """Parameters of the encoder with its pooler."""
    settings = {key: value for key, value in VARIANTS[name].items() if key != "_target_"}
    with init.skipped():
        net = BERTClassifier(vocab, 2, **settings)
    return sum(p.size for p in net.parameters()) - sum(p.size for p in net.classifier.parameters())


def test_published_numbers_of_parameters() -> None:
    assert {name: count(name, vocab) for name, (vocab, _) in EXACT.items()} == {k: v for k, (_, v) in EXACT.items()}
    for name, expected in ROUNDED.items():
        bert, dim = name.startswith("bert"), VARIANTS[name]["dim"]
        vocab = 30_522 if bert else 40_000
        pretraining = dim * dim + 3 * dim + vocab + 2 * dim + 2 if bert else 0
        assert round((count(name, vocab) + pretraining) / 1e6, 1 if bert else 0) == expected, name
