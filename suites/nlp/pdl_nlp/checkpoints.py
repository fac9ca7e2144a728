"""Where an encoder begins: the folder of an HF checkpoint, a name of the hub, a bundle or a run; its sizes, its
tokenizer and its weights.

An HF folder has config.json; tokenizer.json, vocab.txt or a SentencePiece model; and model.safetensors, or
pytorch_model.bin, of which tensors are read and nothing is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdl.errors import ConfigError, DataError, UsageError, listed
from pdl.files import read_text
from pdl_nlp.tokenizers import Tokenizer, read

if TYPE_CHECKING:
    from pdl.nn import Module

CONFIG, WEIGHTS = "config.json", ("model.safetensors", "pytorch_model.bin")
#: kinds of HF's checkpoints that `pdl_nlp.BERT` is, and whether positions count from behind the number of the padding
KINDS = {"bert": False, "ernie": False, "roberta": True, "xlm-roberta": True, "camembert": True}
_NAMES = {
    "dim": "hidden_size", "layers": "num_hidden_layers", "heads": "num_attention_heads", "hidden": "intermediate_size",
    "vocab_size": "vocab_size", "max_length": "max_position_embeddings", "segments": "type_vocab_size",
    "activation": "hidden_act", "dropout": "hidden_dropout_prob", "eps": "layer_norm_eps", "pad": "pad_token_id",
}  # fmt: skip
_DEFAULTS = {"hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "pad_token_id": 0, "type_vocab_size": 2}
SIZES = (*_NAMES, "tasks", "first")
"""Arguments of `pdl_nlp.BERT` that a checkpoint decides."""


def load(model: Module, source: str) -> None:
    """`pdl.hub.load_pretrained`, of an HF folder, too."""
    from pdl.hub import load_pretrained

    load_pretrained(model, weights_of(Path(source)) if is_folder(source) else source)


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
    """The arguments of `pdl_nlp.BERT` that a checkpoint was made with."""
    if is_folder(source):
        return _of_config(Path(source) / CONFIG)
    found = model_of(source)
    found = found.get("net", found)  # of one that answers with tags
    return {name: found[name] for name in SIZES if name in found}


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
    """The arguments that an HF config.json says; DataError for a net that is not `pdl_nlp.BERT`."""
    try:
        found = json.loads(read_text(file))
    except ValueError as error:
        raise DataError(f"{file}: no JSON ({error})") from None
    kind = found.get("model_type") if isinstance(found, dict) else None
    if kind not in KINDS:
        raise DataError(f"{file}: model_type={kind!r} is not of BERT's kind (known: {', '.join(KINDS)})")
    config = {**_DEFAULTS, **found}
    for name, expected in (("position_embedding_type", "absolute"), ("is_decoder", False)):
        if config.get(name, expected) != expected:
            raise DataError(f"{file}: {name}={config[name]!r} is not known; expected {expected!r}")
    missing = [name for name in _NAMES.values() if name not in config]
    if missing:
        raise DataError(f"{file}: lacks {listed(missing)}")
    if config["hidden_act"] not in ("gelu", "relu"):
        raise DataError(f"{file}: hidden_act={config['hidden_act']!r} is not known; known are 'gelu' and 'relu'")
    made = {name: config[given] for name, given in _NAMES.items()}
    made["first"] = made["pad"] + 1 if KINDS[kind] else 0
    made["max_length"] -= made["first"]
    made["tasks"] = config.get("task_type_vocab_size", 3) if kind == "ernie" and config.get("use_task_id") else 0
    return made


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
