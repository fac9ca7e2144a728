"""GPTs against GPT-2 and Llama written down again in NumPy, with the names of HF's checkpoints; folders of such; sizes;
steps against all tokens at once."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.special import softmax

import pdl
from pdl.errors import ConfigError, DataError, ShapeError
from pdl.nn import init
from pdl_nlp import checkpoints
from pdl_nlp.models.gpt import GPT, VARIANTS, inverse_frequencies

State = dict[str, np.ndarray]
TOKENS = np.random.default_rng(1).integers(0, 40, (3, 9))
GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 40, "n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 16,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "model_type": "llama", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 20, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "rope_theta": 500.0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
FOLDERS: dict[str, dict[str, Any]] = {
    "gpt2": GPT2,
    "llama": {**LLAMA, "rope_scaling": LLAMA3},
    "mistral": {**LLAMA, "model_type": "mistral", "head_dim": 6, "sliding_window": 16},
    "qwen2": {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True, "rms_norm_eps": 1e-6},
    "qwen3": {**LLAMA, "model_type": "qwen3", "head_dim": 8, "rope_parameters": {"rope_theta": 99.0}},
}


def state_of(config: dict[str, Any]) -> State:
    """Random weights of an HF checkpoint."""
    shapes = gpt2_shapes(config) if config["model_type"] == "gpt2" else llama_shapes(config)
    rng = np.random.default_rng(0)
    return {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def gpt2_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    d, norm = config["n_embd"], {"ln_1": (), "ln_2": ()}
    found: dict[str, tuple[int, ...]] = {
        "transformer.wte.weight": (config["vocab_size"], d), "transformer.wpe.weight": (config["n_positions"], d),
        "transformer.ln_f.weight": (d,), "transformer.ln_f.bias": (d,),
    }  # fmt: skip
    for i in range(config["n_layer"]):
        layer = f"transformer.h.{i}."
        for name, shape in {
            "attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, 4 * d), "mlp.c_proj": (4 * d, d),
            **dict.fromkeys(norm, (d,)),
        }.items():  # fmt: skip
            found |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[-1:]}
    return found


def llama_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    d, h = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim", d // config["num_attention_heads"])
    q, kv = (config[name] * size for name in ("num_attention_heads", "num_key_value_heads"))
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], d),
        "model.norm.weight": (d,),
    }
    if not config.get("tie_word_embeddings"):
        found["lm_head.weight"] = (config["vocab_size"], d)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        for name, out in (("q", q), ("k", kv), ("v", kv)):
            found[f"{layer}self_attn.{name}_proj.weight"] = (out, d)
            if config["model_type"] == "qwen2":
                found[f"{layer}self_attn.{name}_proj.bias"] = (out,)
            if config["model_type"] == "qwen3" and name != "v":
                found[f"{layer}self_attn.{name}_norm.weight"] = (size,)
        found |= {
            f"{layer}self_attn.o_proj.weight": (d, q), f"{layer}input_layernorm.weight": (d,),
            f"{layer}post_attention_layernorm.weight": (d,), f"{layer}mlp.gate_proj.weight": (h, d),
            f"{layer}mlp.up_proj.weight": (h, d), f"{layer}mlp.down_proj.weight": (d, h),
        }  # fmt: skip
    return found


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal attention [N, heads, T, D] of queries over keys and values that groups of heads share."""
    k, v = (x.repeat(q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    steps = q.shape[2]
    p = softmax(np.where(np.tri(steps, dtype=bool), scores, -np.inf), axis=-1)
    return (p @ v).transpose(0, 2, 1, 3).reshape(len(q), steps, -1)  # type: ignore[no-any-return]


def heads_of(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def gpt2(state: State, config: dict[str, Any], tokens: np.ndarray) -> np.ndarray:
    """Scores [N, T, vocabulary] in float64."""
    w = {name.removeprefix("transformer."): value.astype(np.float64) for name, value in state.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + config["layer_norm_epsilon"])
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    for i in range(config["n_layer"]):
        layer = f"h.{i}."
        three = np.split(linear(norm(x, f"{layer}ln_1"), f"{layer}attn.c_attn"), 3, axis=-1)
        x = x + linear(attended(*(heads_of(part, config["n_head"]) for part in three)), f"{layer}attn.c_proj")
        h = linear(norm(x, f"{layer}ln_2"), f"{layer}mlp.c_fc")
        h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + linear(h, f"{layer}mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def llama(state: State, config: dict[str, Any], tokens: np.ndarray) -> np.ndarray:
    """Scores [N, T, vocabulary] in float64."""
    w = {name.removeprefix("model."): value.astype(np.float64) for name, value in state.items()}
    size = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    base = config.get("rope_parameters", {}).get("rope_theta") or config["rope_theta"]
    angles = base ** -(np.arange(0, size, 2) / size)
    if scaling := config.get("rope_scaling"):
        length = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        for i, angle in enumerate(angles.copy()):
            wave = 2 * math.pi / angle
            if wave > length / low:
                angles[i] = angle / scaling["factor"]
            elif wave >= length / high:
                smooth = (length / wave - low) / (high - low)
                angles[i] = (1 - smooth) * angle / scaling["factor"] + smooth * angle

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * w[f"{name}.weight"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    def turned(x: np.ndarray) -> np.ndarray:
        turn = np.concatenate([np.outer(np.arange(x.shape[2]), angles)] * 2, axis=-1)
        other = np.concatenate([-x[..., size // 2 :], x[..., : size // 2]], axis=-1)
        return x * np.cos(turn) + other * np.sin(turn)

    x = w["embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        layer = f"layers.{i}."
        y = norm(x, f"{layer}input_layernorm")
        q, k, v = (
            heads_of(linear(y, f"{layer}self_attn.{name}_proj"), config[heads])
            for name, heads in (
                ("q", "num_attention_heads"),
                ("k", "num_key_value_heads"),
                ("v", "num_key_value_heads"),
            )
        )
        if config["model_type"] == "qwen3":
            q, k = norm(q, f"{layer}self_attn.q_norm"), norm(k, f"{layer}self_attn.k_norm")
        x = x + linear(attended(turned(q), turned(k), v), f"{layer}self_attn.o_proj")
        y = norm(x, f"{layer}post_attention_layernorm")
        gate = linear(y, f"{layer}mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(y, f"{layer}mlp.up_proj"), f"{layer}mlp.down_proj")
    return norm(x, "norm") @ w["embed_tokens.weight" if config.get("tie_word_embeddings") else "lm_head.weight"].T


def folder_of(path: Path, config: dict[str, Any], shards: int = 1) -> Path:
    """An HF folder with random weights, in several files."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    state = state_of(config)
    if shards == 1:
        save_file(state, path / "model.safetensors", {"format": "pt"})
        return path
    names, files = sorted(state), dict[str, str]()
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        files |= dict.fromkeys(names[number::shards], file)
        save_file({name: state[name] for name in names[number::shards]}, path / file, {"format": "pt"})
    (path / checkpoints.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": files}))
    return path


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_checkpoints_give_the_scores_of_the_papers(name: str, tmp_path: Path) -> None:
    config = FOLDERS[name]
    folder = folder_of(tmp_path / "checkpoint", config, shards=1 + 2 * (name in ("llama", "gpt2")))
    net = GPT(**checkpoints.sizes(folder), pretrained=str(folder)).eval()
    with pdl.no_grad():
        found = net(pdl.as_tensor(TOKENS)).numpy()
    expected = (gpt2 if name == "gpt2" else llama)(state_of(config), config, TOKENS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert net.max_length == (32 if name in ("llama", "qwen2", "qwen3") else 16)


@pytest.mark.parametrize("name", FOLDERS)
def test_steps_give_what_all_tokens_at_once_do(name: str, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "checkpoint", FOLDERS[name])
    net = GPT(**checkpoints.sizes(folder), pretrained=str(folder)).eval()
    counts, rows = np.array([6, 3, 1]), np.arange(3)
    with pdl.no_grad():
        expected = net(pdl.as_tensor(TOKENS)).numpy()
        (state, first), tokens = net.start(3, 16), TOKENS[:, :6]
        lengths = first.numpy()
        for _ in range(4):
            given = pdl.as_tensor(tokens), pdl.as_tensor(counts), pdl.as_tensor(lengths)
            scores, state = net.step(*given, state)
            lengths = lengths + counts
            np.testing.assert_allclose(scores.numpy(), expected[rows, lengths - 1], rtol=1e-4, atol=1e-5)
            tokens, counts = TOKENS[rows, np.minimum(lengths, 8)][:, None], np.ones(3, np.int64)


def test_the_loss_is_the_cross_entropy_of_the_scores() -> None:
    pdl.seed(0)
    for tied in (True, False):
        net = GPT(40, dim=8, layers=1, heads=2, max_length=9, tied=tied)
        tokens, targets = pdl.as_tensor(TOKENS), pdl.as_tensor(np.where(TOKENS > 5, TOKENS[:, ::-1], -1))
        expected = pdl.cross_entropy(net(tokens), targets, ignore_index=-1).item()
        assert net.loss(tokens, targets).item() == pytest.approx(expected, rel=1e-5)
        each = net.loss(tokens, targets, reduction="none").detach().numpy()
        assert (each[targets.numpy() < 0] == 0).all()


def test_dropout_and_gradients_reach_everything() -> None:
    pdl.seed(0)
    net = GPT(40, dim=8, layers=2, heads=2, kv_heads=1, max_length=9, qk_norm=True, positions="rotary", norm="rms",
              activation="swiglu", bias=False, tied=False, dropout=0.2)  # fmt: skip
    tokens = pdl.as_tensor(TOKENS)
    net.loss(tokens, tokens).backward()
    assert all(p.grad is not None and np.abs(p.grad.numpy()).sum() > 0 for p in net.parameters())
    assert net.loss(tokens, tokens).item() != net.loss(tokens, tokens).item()


#: exactly as HF counts them (tied tables once)
PUBLISHED = {
    "gpt2": (50_257, 124_439_808), "gpt2_medium": (50_257, 354_823_168), "gpt2_large": (50_257, 774_030_080),
    "gpt2_xl": (50_257, 1_557_611_200), "llama_2_7b": (32_000, 6_738_415_616), "llama_3_8b": (128_256, 8_030_261_248),
    "llama_3_2_1b": (128_256, 1_235_814_400), "mistral_7b": (32_000, 7_241_732_096),
    "qwen2_0_5b": (151_936, 494_032_768), "qwen2_7b": (152_064, 7_615_616_512), "qwen3_0_6b": (151_936, 596_049_920),
    "qwen3_8b": (151_936, 8_190_735_360),
}  # fmt: skip


def test_published_numbers_of_parameters() -> None:
    """Layers are alike: all have the same number more."""
    assert set(VARIANTS) == set(PUBLISHED)
    for name, (vocab, expected) in PUBLISHED.items():
        settings = {key: value for key, value in VARIANTS[name].items() if key != "_target_"}
        layers, sizes = settings.pop("layers"), list[int]()
        for few in (1, 2):
            with init.skipped():
                net = GPT(vocab, layers=few, **settings)
            sizes.append(sum(p.size for p in net.parameters()))
        assert sizes[0] + (layers - 1) * (sizes[1] - sizes[0]) == expected, name


def test_folders_that_are_refused(tmp_path: Path) -> None:
    def refused(words: str, **changes: Any) -> None:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        config = {**LLAMA, **changes}
        with pytest.raises(DataError, match=words):
            checkpoints.sizes(folder_of(folder, {k: v for k, v in config.items() if v is not None}))

    refused("attention_bias=True is not known", attention_bias=True)
    refused("lacks rms_norm_eps", rms_norm_eps=None)
    refused("rope_scaling 'yarn' is not known here; known are linear, llama3", rope_scaling={"rope_type": "yarn"})
    with pytest.raises(DataError, match="activation_function='tanh' is not known"):
        checkpoints.sizes(folder_of(tmp_path / "gpt2", {**GPT2, "activation_function": "tanh"}))
    folder = folder_of(tmp_path / "shards", LLAMA, shards=2)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(DataError, match=r"model-00002-of-00002.safetensors, which .* names, is missing"):
        GPT(**checkpoints.sizes(folder), pretrained=str(folder))
    (folder / checkpoints.INDEX).write_text('{"weight_map": {"a": "../b.safetensors"}}')
    with pytest.raises(DataError, match="is not the name of a safetensors file in this folder"):
        GPT(**checkpoints.sizes(folder), pretrained=str(folder))


def test_faults_of_arguments() -> None:
    with pytest.raises(ConfigError, match="needs vocab_size"):
        GPT()
    with pytest.raises(ConfigError, match="heads=5 must divide dim=12"):
        GPT(9, dim=12, heads=5)
    with pytest.raises(ConfigError, match="kv_heads=2 must divide heads=3"):
        GPT(9, dim=12, heads=3, kv_heads=2)
    with pytest.raises(ConfigError, match="heads of 3 numbers; rotary positions need an even number"):
        GPT(9, dim=12, heads=4, positions="rotary")
    with pytest.raises(ConfigError, match="known: kind=linear with factor"):
        inverse_frequencies(8, 100.0, {"kind": "yarn"})
    with pytest.raises(ShapeError, match="9 tokens, the most that it takes are 8"):
        GPT(40, dim=12, heads=3, layers=1, max_length=8)(pdl.as_tensor(TOKENS))
