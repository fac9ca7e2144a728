"""Where an encoder or a language model begins: the folder of an HF checkpoint, a name of the hub, a bundle or a run;
its sizes, its tokenizer and its weights.

An HF folder has config.json; tokenizer.json, vocab.txt or a SentencePiece model; and model.safetensors, several of
these with model.safetensors.index.json, or pytorch_model.bin, of which tensors are read and nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdl.errors import ConfigError, DataError, UsageError, listed
from pdl.files import read_text
from pdl_nlp.tokenizers import Tokenizer, read

if TYPE_CHECKING:
    from pdl.nn import Module

CONFIG, WEIGHTS = "config.json", ("model.safetensors", "pytorch_model.bin")
INDEX = "model.safetensors.index.json"
#: kinds of HF's checkpoints that `pdl_nlp.BERT` is, and whether positions count from behind the number of the padding
KINDS = {"bert": False, "ernie": False, "roberta": True, "xlm-roberta": True, "camembert": True}
_NAMES = {
    "dim": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads", "hidden": "intermediate_size",
    "vocab_size": "vocab_size", "max_length": "max_position_embeddings", "segments": "type_vocab_size",
    "activation": "hidden_act", "dropout": "hidden_dropout_prob", "eps": "layer_norm_eps", "pad": "pad_token_id",
}  # fmt: skip
_DEFAULTS = {"hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "pad_token_id": 0, "type_vocab_size": 2}
SIZES = (
    *_NAMES, "tasks", "first", "positions",
    *("kv_heads", "head_dim", "base", "scaling", "norm", "bias", "qkv_bias", "qk_norm", "tied"),
)  # fmt: skip
"""Arguments of `pdl_nlp.BERT` or `pdl_nlp.GPT` that a checkpoint decides."""
#: kinds of HF's checkpoints that `pdl_nlp.GPT` is, and what is so of all of a kind
LLAMAS: dict[str, dict[str, Any]] = {
    "llama": {}, "mistral": {}, "qwen2": {"qkv_bias": True}, "qwen3": {"qk_norm": True},
}  # fmt: skip
_LLAMA = {
    "dim": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads", "hidden": "intermediate_size",
    "vocab_size": "vocab_size", "max_length": "max_position_embeddings", "eps": "rms_norm_eps",
}  # fmt: skip
_GPT2 = {
    "dim": "n_embd", "layers": "n_layer", "heads": "n_head", "vocab_size": "vocab_size", "max_length": "n_positions",
}  # fmt: skip
_GELUS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}


def load(model: Module, source: str) -> None:
    """`pdl.hub.load_pretrained`, of an HF folder, too."""
    from pdl.hub import load_pretrained

    if is_folder(source) and (Path(source) / INDEX).is_file():
        _load_shards(model, Path(source))
    else:
        load_pretrained(model, weights_of(Path(source)) if is_folder(source) else source)


def _load_shards(model: Module, folder: Path) -> None:
    """The same of weights in several files, which are mapped and not read at once."""
    from pdl.hub.pretrained import load_state, skipped
    from pdl.hub.states import State, read_state

    if skipped():
        return
    found = _json(folder / INDEX).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise DataError(f"{folder / INDEX}: has no weight_map, the file of each tensor")
    arrays: dict[str, Any] = {}
    for name in sorted(set(map(str, found.values()))):
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise DataError(f"{folder / INDEX}: {name!r:.60} is not the name of a safetensors file in this folder")
        if not (folder / name).is_file():
            raise DataError(
                f"{folder}: {name}, which {INDEX} names, is missing; copy it from where you have the others"
            )
        arrays |= read_state(folder / name).arrays
    if missing := sorted(set(found) - arrays.keys()):
        raise DataError(f"{folder}: no file has the tensor {missing[0]!r} that {INDEX} names; copy the files again")
    load_state(model, State(str(folder), arrays, "torch"))


def is_folder(source: str | Path) -> bool:
    """Whether this is the folder of an HF checkpoint."""
    return (Path(source) / CONFIG).is_file()


def weights_of(folder: Path) -> Path:
    """The file of an HF folder that holds its weights; DataError where none does that is known here."""
    for name in WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    kinds = (".bin", ".safetensors", ".h5", ".msgpack", ".json")
    there = listed(sorted(path.name for path in folder.iterdir() if path.suffix in kinds))
    advice = "save the model as one file: model.save_pretrained(DIR, max_shard_size='100GB')"
    raise DataError(f"{folder}: has neither {' nor '.join(WEIGHTS)} (it has {there}); {advice}")


def sizes(source: str | Path) -> dict[str, Any]:
    """The arguments of `pdl_nlp.BERT` or `pdl_nlp.GPT` that a checkpoint was made with."""
    if is_folder(source):
        return _of_config(Path(source) / CONFIG)
    found = model_of(source)
    found = found.get("net", found)  # of one that answers with tags
    return {name: found[name] for name in SIZES if name in found}


def has_tokenizer(source: str | Path) -> bool:
    """Whether a checkpoint says which tokens its weights are for, as files of weights alone do not."""
    return Path(source).suffix not in (".safetensors", ".bin", ".pth", ".pt")


def tokenizer(source: str | Path) -> Tokenizer:
    """The tokenizer of a checkpoint."""
    if is_folder(source):
        return read(source)
    from pdl.runtime.bundle import read as read_bundle

    bundle = read_bundle(bundle_at(source))
    steps = [step for each in bundle.pipeline["pre"].values() for step in each if step.get("step") == "tokens"]
    if not steps:
        raise UsageError(f"{source}: its bundle reads no texts, so it has no tokenizer")
    name = steps[0]["vocabulary"]
    own = (key for key in bundle.constants if key.startswith(f"{name}."))
    constants = {key.removeprefix(f"{name}."): bundle.constants[key] for key in own}
    return Tokenizer.of(steps[0]["tokenizer"], {"tokens": bundle.vocabularies[name]}, constants)


def _of_config(file: Path) -> dict[str, Any]:
    """The arguments that an HF config.json says; DataError for a net that is neither `pdl_nlp.BERT` nor
    `pdl_nlp.GPT`."""
    found = _json(file)
    kind = found.get("model_type")
    if kind == "gpt2":
        return _of_gpt2(found, file)
    if kind in LLAMAS:
        return _of_llama(found, file)
    if kind not in KINDS:
        known = ", ".join((*KINDS, "gpt2", *LLAMAS))
        raise DataError(f"{file}: model_type={kind!r} is of neither BERT's nor GPT's kind (known: {known})")
    config = {**_DEFAULTS, **found}
    _check(config, file, _NAMES.values(), position_embedding_type="absolute", is_decoder=False)
    if config["hidden_act"] not in ("gelu", "relu"):
        raise DataError(f"{file}: hidden_act={config['hidden_act']!r} is not known; known are 'gelu' and 'relu'")
    made = {name: config[given] for name, given in _NAMES.items()}
    made["first"] = made["pad"] + 1 if KINDS[kind] else 0
    made["max_length"] -= made["first"]
    made["tasks"] = config.get("task_type_vocab_size", 3) if kind == "ernie" and config.get("use_task_id") else 0
    return made


def _of_gpt2(config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    own = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
    _check(config, file, _GPT2.values(), **own)
    activation = config.get("activation_function", "gelu_new")
    if activation not in _GELUS:
        raise DataError(f"{file}: activation_function={activation!r} is not known; known are {', '.join(_GELUS)}")
    return {
        **{name: config[given] for name, given in _GPT2.items()},
        "hidden": config.get("n_inner"), "activation": _GELUS[activation], "positions": "learned", "norm": "layer",
        "dropout": config.get("resid_pdrop", 0.1), "eps": config.get("layer_norm_epsilon", 1e-5), "bias": True,
        "tied": config.get("tie_word_embeddings", True),
    }  # fmt: skip


def _of_llama(config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Windows of attention are not known: such a net takes as many positions as its window has, which are the same
    then."""
    _check(config, file, _LLAMA.values(), hidden_act="silu", attention_bias=False, mlp_bias=False)
    kind = str(config["model_type"])
    window = config.get("sliding_window") if config.get("use_sliding_window", kind == "mistral") else None
    angles = config.get("rope_parameters") or config.get("rope_scaling") or {}
    made = {
        **{name: config[given] for name, given in _LLAMA.items()},
        "kv_heads": config.get("num_key_value_heads"), "head_dim": config.get("head_dim"), "positions": "rotary",
        "base": float(angles.get("rope_theta") or config.get("rope_theta", 10_000.0)),
        "scaling": _scaling(angles, file), "norm": "rms", "activation": "swiglu", "bias": False, "qkv_bias": False,
        "qk_norm": False, "tied": config.get("tie_word_embeddings", False), "dropout": 0.0, **LLAMAS[kind],
    }  # fmt: skip
    if window is not None:
        made["max_length"] = min(made["max_length"], int(window))
    return made


def _scaling(angles: Mapping[str, Any], file: Path) -> dict[str, Any] | None:
    """What `pdl_nlp.GPT` takes of HF's rope_scaling or rope_parameters."""
    kind = angles.get("rope_type", angles.get("type", "default"))
    names = {"linear": {"factor": "factor"}, "llama3": {
        "factor": "factor", "low": "low_freq_factor", "high": "high_freq_factor",
        "length": "original_max_position_embeddings",
    }}  # fmt: skip
    if kind == "default":
        return None
    if kind not in names or not all(given in angles for given in names[kind].values()):
        raise DataError(f"{file}: the rope_scaling {kind!r} is not known here; known are {', '.join(names)}")
    return {"kind": kind, **{name: float(angles[given]) for name, given in names[kind].items()}}


def _check(config: Mapping[str, Any], file: Path, needed: Iterable[str], **expected: Any) -> None:
    """DataError where a setting is missing, or has a value that is not known."""
    if missing := [name for name in needed if name not in config]:
        raise DataError(f"{file}: lacks {listed(missing)}")
    for name, value in expected.items():
        if config.get(name, value) != value:
            raise DataError(f"{file}: {name}={config[name]!r} is not known; expected {value!r}")


def _json(file: Path) -> dict[str, Any]:
    """The object in a file of JSON."""
    try:
        found = json.loads(read_text(file))
    except ValueError as error:
        raise DataError(f"{file}: no JSON ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{file}: no JSON object")
    return found


def model_of(source: str | Path) -> Mapping[str, Any]:
    """The model section of what a bundle was made of."""
    from pdl.config.source import parsed
    from pdl.hub.index import index

    known = index().get(str(source))
    if known is not None and known.build is not None and known.build.model is not None:
        return known.build.model
    from pdl.runtime.bundle import read as read_bundle

    text = read_bundle(bundle_at(source)).config
    section = parsed(text, Path("config.yaml")).get("model") if text.strip() else None
    if not isinstance(section, Mapping):
        raise ConfigError(f"{source}: does not say which net it is; give the model its sizes in the recipe")
    return section


def bundle_at(source: str | Path) -> Path:
    """The bundle of a name of the hub, a run or a file."""
    path = Path(source)
    if path.is_dir():
        if not (path / "model.pdl").is_file():
            needed = "an HF folder, or a run that was exported, is needed"
            raise UsageError(f"{path}: has neither {CONFIG} nor model.pdl; {needed}")
        return path / "model.pdl"
    from pdl.export import bundle_of

    return bundle_of(source)
