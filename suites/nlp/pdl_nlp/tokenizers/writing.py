"""Tokenizers as files that pdl and HF read: vocab.txt, tokenizer.json, SentencePiece's .model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdl.files import write_atomic
from pdl_nlp.tokenizers.base import FIRST, SECOND, Tokenizer
from pdl_nlp.tokenizers.bpe import SPLITS, ByteLevelBPE
from pdl_nlp.tokenizers.sentencepiece import SentencePiece
from pdl_nlp.tokenizers.wordpiece import WordPiece

CONFIG = "tokenizer_config.json"
OWN = "pdl"
"""The key in tokenizer_config.json under which the settings of characters and words are."""


def write(tokenizer: Tokenizer, folder: str | Path) -> list[Path]:
    """The files of a tokenizer in a folder, which `read` reads again: vocab.txt with tokenizer_config.json, and for
    WordPiece tokenizer.json, too; tokenizer.json alone of byte-level BPE; tokenizer.model of SentencePiece."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    if isinstance(tokenizer, SentencePiece):
        return [_written(place / "tokenizer.model", tokenizer.model.tobytes())]
    if isinstance(tokenizer, ByteLevelBPE):
        return [_written(place / "tokenizer.json", _json(_bpe(tokenizer)))]
    files = [_written(place / "vocab.txt", "".join(f"{token}\n" for token in tokenizer.tokens).encode())]
    if isinstance(tokenizer, WordPiece):
        config: dict[str, Any] = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": tokenizer.lower,
            "strip_accents": tokenizer.strip_accents,
            "tokenize_chinese_chars": tokenizer.chinese,
        }
        files.append(_written(place / "tokenizer.json", _json(_wordpiece(tokenizer))))
    else:
        config = {OWN: tokenizer.state()[0]}
    return [*files, _written(place / CONFIG, _json(config))]


def _written(file: Path, content: bytes) -> Path:
    write_atomic(file, content)
    return file


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8")


def _wordpiece(tokenizer: WordPiece) -> dict[str, Any]:
    return {
        **_common(tokenizer, tokenizer.added),
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": tokenizer.clean,
            "handle_chinese_chars": tokenizer.chinese,
            "strip_accents": tokenizer.strip_accents,
            "lowercase": tokenizer.lower,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": tokenizer.prefix, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": tokenizer.special["unknown"],
            "continuing_subword_prefix": tokenizer.prefix,
            "max_input_chars_per_word": tokenizer.longest_word,
            "vocab": {token: number for number, token in enumerate(tokenizer.tokens)},
        },
    }


def _bpe(tokenizer: ByteLevelBPE) -> dict[str, Any]:
    common = _common(tokenizer, tokenizer.added)
    trimmed = {"type": "ByteLevel", "add_prefix_space": tokenizer.keep_first, "trim_offsets": tokenizer.trim}
    common["post_processor"] = {
        "type": "Sequence",
        "processors": [{**trimmed, "use_regex": True}, common["post_processor"]],
    }
    pre = {
        "type": "ByteLevel",
        "add_prefix_space": tokenizer.space_before,
        "trim_offsets": tokenizer.trim,
        "use_regex": tokenizer.split in (True, "gpt2"),
    }
    for pattern, name in SPLITS.items():
        if name == tokenizer.split:
            split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            pre = {"type": "Sequence", "pretokenizers": [split, pre]}
    return {
        **common,
        "normalizer": None if tokenizer.normal is None else {"type": tokenizer.normal},
        "pre_tokenizer": pre,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": tokenizer.whole,
            "vocab": {token: number for number, token in enumerate(tokenizer.tokens)},
            "merges": [[tokenizer.tokens[a], tokenizer.tokens[b]] for a, b in tokenizer.merges.tolist()],
        },
    }


def _common(tokenizer: Tokenizer, added: Sequence[tuple[str, bool, bool]]) -> dict[str, Any]:
    flags = {"single_word": False, "normalized": False, "special": True}
    tokens = [
        {"id": tokenizer.number(token), "content": token, "lstrip": left, "rstrip": right, **flags}
        for token, left, right in added
    ]
    names = {token for each in (tokenizer.single, tokenizer.pair) for token, _ in each} - {FIRST, SECOND}
    special = {name: {"id": name, "ids": [tokenizer.number(name)], "tokens": [name]} for name in sorted(names)}
    processor = {
        "type": "TemplateProcessing",
        "single": _template(tokenizer.single),
        "pair": _template(tokenizer.pair),
        "special_tokens": special,
    }
    tokens.sort(key=lambda each: int(str(each["id"])))
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "post_processor": processor}


def _template(template: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [
        {"Sequence": {"id": token[1], "type_id": segment}}
        if token in (FIRST, SECOND)
        else {"SpecialToken": {"id": token, "type_id": segment}}
        for token, segment in template
    ]
