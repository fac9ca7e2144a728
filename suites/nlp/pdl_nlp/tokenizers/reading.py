"""Tokenizers from files of others: HF's tokenizer.json, vocab.txt, SentencePiece's .model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.errors import DataError, UsageError
from pdl.vocabulary import Vocabulary
from pdl_nlp.tokenizers.base import BERT, BERT_PAIR, BERT_SINGLE, FIRST, SECOND, Tokenizer
from pdl_nlp.tokenizers.bpe import SPLITS, ByteLevelBPE
from pdl_nlp.tokenizers.normal import FORMS
from pdl_nlp.tokenizers.sentencepiece import SentencePiece
from pdl_nlp.tokenizers.unigram import SPACE, Unigram
from pdl_nlp.tokenizers.wordpiece import LONGEST, WordPiece

NAMES = ("tokenizer.json", "vocab.txt", "*.model")
"""Files that a folder is searched for, in this order."""
PARTS = {"pad": ("[PAD]", "<pad>"), "cls": ("[CLS]", "<s>"), "sep": ("[SEP]", "</s>"), "mask": ("[MASK]", "<mask>")}
"""What special tokens are called."""


def read(path: str | Path) -> Tokenizer:
    """The tokenizer in a file `tokenizer.json` (of HF: WordPiece with BERT's parts, byte-level BPE, Unigram with
    Metaspace), `vocab.txt` (WordPiece; the tokenizer_config.json beside it may say do_lower_case, strip_accents,
    tokenize_chinese_chars), `*.model` (of SentencePiece), or in a folder with one of them. How HF would pad and cut
    texts is not taken over: `encode` has max_length.

    DataError names a part of a tokenizer.json that is not known.
    """
    file = _file(Path(path))
    if file.suffix == ".json":
        return _json(file)
    if file.suffix == ".model":
        return SentencePiece.read(_bytes(file), str(file))
    if file.suffix == ".txt":
        return _vocab(file)
    raise UsageError(f"{file}: a tokenizer is read from {', '.join(NAMES)}, or a folder with one of them")


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in NAMES:
        found = sorted(path.glob(name))
        if len(found) > 1:
            raise UsageError(
                f"{path}: several of {name}: {', '.join(each.name for each in found[:5])}; name one of them"
            )
        if found:
            return found[0]
    raise DataError(f"{path}: none of {', '.join(NAMES)} is in this folder")


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None


def _parsed(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(_bytes(file))
    except ValueError as error:
        raise DataError(f"{file}: no JSON ({error})") from None
    if not isinstance(found, dict):
        raise DataError(f"{file}: no JSON object")
    return found


# -- vocab.txt ---------------------------------------------------------------------------------------------------------
def _vocab(file: Path) -> Tokenizer:
    try:
        lines = _bytes(file).decode().split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: not in UTF-8 ({error})") from None
    tokens = [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]
    beside = file.with_name("tokenizer_config.json")
    config = _parsed(beside) if beside.is_file() else {}
    if isinstance(config.get("pdl"), dict):  # characters or words
        return Tokenizer.of(config["pdl"], {"tokens": Vocabulary(tokens)}, {})
    special = {part: token for part, token in BERT.items() if token in tokens}
    whole = {"cls", "sep"} <= special.keys()
    try:
        return WordPiece(
            tokens,
            lower=config.get("do_lower_case", True),
            strip_accents=config.get("strip_accents"),
            chinese=config.get("tokenize_chinese_chars", True),
            special=special,
            single=BERT_SINGLE if whole else ((FIRST, 0),),
            pair=BERT_PAIR if whole else ((FIRST, 0), (SECOND, 1)),
        )
    except UsageError as error:
        raise DataError(f"{file}: {error}") from None


# -- tokenizer.json ----------------------------------------------------------------------------------------------------
class _Fault(Exception):
    """What is wrong with a part of a tokenizer.json."""


def _json(file: Path) -> Tokenizer:
    data = _parsed(file)
    try:
        model = _part(data, "model", tuple(_MODELS))
        made: Tokenizer = _MODELS[model["type"]](data, model)
    except (_Fault, UsageError, DataError) as error:
        raise DataError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(f"{file}: not a tokenizer.json as HF writes it ({type(error).__name__}: {error})") from None
    return made


def _part(data: Mapping[str, Any], name: str, known: Sequence[str | None], advice: str = "") -> dict[str, Any]:
    """The part with this name (a Sequence of one is that one); {"type": None} where there is none."""
    found = data.get(name) or {"type": None}
    for inner in ("normalizers", "pretokenizers", "processors", "decoders"):
        while found["type"] == "Sequence" and len(found.get(inner, ())) == 1:
            found = found[inner][0]
    if found["type"] not in known:
        kinds = ", ".join(str(each) for each in known if each) or "none"
        more = f"; {advice}" if advice else ""
        raise _Fault(f"the {name} {found['type']!r} is not known (known: {kinds}{more})")
    return found


def _only(part: Mapping[str, Any], name: str, **expected: Any) -> None:
    """A fault where a setting of a part has a value that is not known here."""
    for key, value in expected.items():
        if part.get(key, value) != value and (part.get(key) or value):
            raise _Fault(f"the {name} {part['type']} has {key}={part[key]!r:.60}; only {value!r} is known")


def _wordpiece(data: Mapping[str, Any], model: Mapping[str, Any]) -> WordPiece:
    how = _part(data, "normalizer", ("BertNormalizer", None))
    _part(data, "pre_tokenizer", ("BertPreTokenizer",))
    _part(data, "decoder", ("WordPiece", None))
    bert = how["type"] is not None
    tokens, added = _tokens(data, model["vocab"], bert)
    post = _post(data)
    special = _special(tokens, added, model.get("unk_token"))
    return WordPiece(
        tokens,
        lower=bert and how["lowercase"],
        strip_accents=bert and (how["lowercase"] if how.get("strip_accents") is None else how["strip_accents"]),
        clean=bert and how["clean_text"],
        chinese=bert and how["handle_chinese_chars"],
        prefix=model.get("continuing_subword_prefix") or "",
        longest_word=model.get("max_input_chars_per_word", LONGEST),
        added=_flags(added),
        special=special,
        single=post["single"],
        pair=post["pair"],
    )


def _bpe(data: Mapping[str, Any], model: Mapping[str, Any]) -> ByteLevelBPE:
    how = _part(data, "normalizer", (None, *FORMS))
    pre = _split(data)
    _part(data, "decoder", ("ByteLevel", None))
    _only(model, "model", dropout=None, byte_fallback=False)
    _only(model, "model", continuing_subword_prefix=None, end_of_word_suffix=None)
    tokens, added = _tokens(data, model["vocab"], how["type"] is not None)
    post = _post(data)
    merges = [each.split(" ") if isinstance(each, str) else each for each in model["merges"]]
    return ByteLevelBPE.read(
        tokens,
        merges,
        space_before=pre["add_prefix_space"],
        split=pre.get("use_regex", True),
        whole=bool(model.get("ignore_merges")),
        trim=post.get("trim", False),
        keep_first=post.get("keep_first", False),
        normal=how["type"],
        added=_flags(added),
        special=_special(tokens, added, model.get("unk_token")),
        single=post["single"],
        pair=post["pair"],
    )


def _split(data: Mapping[str, Any]) -> dict[str, Any]:
    """The pre_tokenizer ByteLevel; of a Split before it, its expression by name is "use_regex"."""
    found = data.get("pre_tokenizer") or {}
    inner = list(found["pretokenizers"]) if found.get("type") == "Sequence" else []
    if [each["type"] for each in inner] != ["Split", "ByteLevel"]:
        return _part(data, "pre_tokenizer", ("ByteLevel",), "a Split by Llama 3's or Qwen 2's expression before it")
    split, pre = inner
    _only(split, "pre_tokenizer", behavior="Isolated", invert=False)
    _only(pre, "pre_tokenizer", add_prefix_space=False, use_regex=False)
    name = SPLITS.get(split["pattern"].get("Regex", ""))
    if name is None:
        pattern = next(iter(split["pattern"].values()), "")
        raise _Fault(
            f"the pre_tokenizer splits by {pattern!r:.80}, which is not known (known are the expressions of "
            f"{', '.join(SPLITS.values())}, and GPT-2's, the ByteLevel pre_tokenizer's own)"
        )
    return {**pre, "use_regex": name}


def _unigram(data: Mapping[str, Any], model: Mapping[str, Any]) -> Unigram:
    advice = "Precompiled: give the .model of SentencePiece that it was made of"
    how = _part(data, "normalizer", (None, *FORMS), advice)
    pre = _part(data, "pre_tokenizer", ("Metaspace",))
    fallback = bool(model.get("byte_fallback"))
    decoder = data.get("decoder") or {"type": None}
    inner = [each["type"] for each in decoder.get("decoders", ())] if decoder["type"] == "Sequence" else []
    if inner != ["ByteFallback", "Metaspace"]:
        _part(data, "decoder", ("Metaspace", None))
    pieces = [str(piece) for piece, _ in model["vocab"]]
    if len(set(pieces)) < len(pieces):
        raise _Fault("two pieces of the model are alike")
    if model.get("unk_id") is None:
        raise _Fault("the model has no unk_id, so it has no token for what no piece has")
    tokens, added = _tokens(data, {piece: number for number, piece in enumerate(pieces)}, how["type"] is not None)
    scores = np.full(len(tokens), np.nan)
    scores[: len(pieces)] = [score for _, score in model["vocab"]]
    legacy = "always" if pre.get("add_prefix_space", True) else "never"
    post = _post(data)
    return Unigram(
        tokens,
        scores,
        space=pre.get("replacement", SPACE),
        prepend=pre.get("prepend_scheme", legacy),
        split=pre.get("split", True),
        byte_fallback=fallback,
        normal=how["type"],
        added=_flags(added),
        special=_special(tokens, added, pieces[model["unk_id"]]),
        single=post["single"],
        pair=post["pair"],
    )


_MODELS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Tokenizer]] = {
    "WordPiece": _wordpiece,
    "BPE": _bpe,
    "Unigram": _unigram,
}


def _tokens(
    data: Mapping[str, Any], vocab: Mapping[str, int], normalised: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """All tokens by number, and the added ones."""
    added = list(data.get("added_tokens") or ())
    numbers = {**vocab, **{each["content"]: each["id"] for each in added}}
    tokens = sorted(numbers, key=numbers.__getitem__)
    for expected, token in enumerate(tokens):
        if numbers[token] != expected:
            raise _Fault(f"the numbers of tokens are not 0 to {len(tokens) - 1}: {token!r:.60} has {numbers[token]}")
    for each in added:
        if each.get("single_word"):
            raise _Fault(f"the added token {each['content']!r:.60} has single_word, which is not known")
        if normalised and each.get("normalized"):
            raise _Fault(f"the added token {each['content']!r:.60} is found in normalised text, which is not known")
    return tokens, added


def _flags(added: Sequence[Mapping[str, Any]]) -> list[tuple[str, bool, bool]]:
    return [(each["content"], bool(each.get("lstrip")), bool(each.get("rstrip"))) for each in added]


def _special(tokens: Sequence[str], added: Sequence[Mapping[str, Any]], unknown: str | None) -> dict[str, str]:
    names = {each["content"] for each in added}
    found = {"unknown": unknown} if unknown is not None and unknown in set(tokens) else {}
    return found | {part: name for part, each in PARTS.items() for name in each if name in names}


def _post(data: Mapping[str, Any]) -> dict[str, Any]:
    """The templates of one text and of two, and whether offsets are trimmed."""
    whole = data.get("post_processor") or {"type": None}
    found: dict[str, Any] = {"single": ((FIRST, 0),), "pair": ((FIRST, 0), (SECOND, 1))}
    for part in whole["processors"] if whole["type"] == "Sequence" else [whole]:
        _part({"post_processor": part}, "post_processor", (*_POST, None))
        if part["type"] is not None:
            found |= _POST[part["type"]](part)
    return found


def _template(part: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for name in ("single", "pair"):
        made[name] = [
            (f"${each['Sequence']['id']}", each["Sequence"]["type_id"])
            if "Sequence" in each
            else (each["SpecialToken"]["id"], each["SpecialToken"]["type_id"])
            for each in part[name]
        ]
    return made


def _bert(part: Mapping[str, Any]) -> dict[str, Any]:
    cls, sep = part["cls"][0], part["sep"][0]
    single = ((cls, 0), (FIRST, 0), (sep, 0))
    return {"single": single, "pair": (*single, (SECOND, 1), (sep, 1))}


def _roberta(part: Mapping[str, Any]) -> dict[str, Any]:
    cls, sep = part["cls"][0], part["sep"][0]
    single = ((cls, 0), (FIRST, 0), (sep, 0))
    return {"single": single, "pair": (*single, (sep, 0), (SECOND, 0), (sep, 0)), **_trimmed(part)}


def _trimmed(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"trim": part.get("trim_offsets", True), "keep_first": part.get("add_prefix_space", True)}


_POST = {
    "TemplateProcessing": _template,
    "BertProcessing": _bert,
    "RobertaProcessing": _roberta,
    "ByteLevel": _trimmed,
}
