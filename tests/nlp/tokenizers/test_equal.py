"""Equal to HF `tokenizers` and to `sentencepiece`, where these are installed: numbers and offsets on lines of mixed
scripts. tools/bench/tokenizers.py compares whole vocabularies on 20,000 lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pdl_nlp.tokenizers import Tokenizer, read
from pdl_nlp.tokenizers.bpe import SPLITS
from pdl_nlp.tokenizers.normal import FORMS
from pdl_nlp.tokenizers.writing import write
from tests.nlp.tokenizers.mixed import PARTS, mixed_lines

LINES = mixed_lines(400, seed=1)


def hf() -> Any:
    return pytest.importorskip("tokenizers", reason="HF tokenizers is not installed")


def trained(kind: str, file: Path) -> Any:
    """HF's own tokenizer of this kind, trained by HF on other lines, and saved."""
    tokenizers = hf()
    pre, post = tokenizers.pre_tokenizers, tokenizers.processors
    if kind.startswith("bert"):
        made = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
        made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=kind == "bert")
        made.pre_tokenizer, made.decoder = pre.BertPreTokenizer(), tokenizers.decoders.WordPiece()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False)
    else:
        name, _, form = kind.partition("_")
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        if form:
            made.normalizer = getattr(tokenizers.normalizers, form)()
        made.pre_tokenizer = pre.ByteLevel(add_prefix_space=name == "roberta")
        made.decoder = tokenizers.decoders.ByteLevel()
        if name in SPLITS.values():
            (pattern,) = (tokenizers.Regex(each) for each, known in SPLITS.items() if known == name)
            inner = [pre.Split(pattern, "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]
            made.pre_tokenizer = pre.Sequence(inner)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=900, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
            initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False,
        )  # fmt: skip
    made.train_from_iterator(mixed_lines(600, seed=2), trainer)
    if kind.startswith("bert"):
        made.post_processor = post.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    elif kind.startswith("roberta"):
        made.post_processor = post.RobertaProcessing(("</s>", 2), ("<s>", 0))
    elif kind == "llama3":
        begins = {"single": "<s> $A", "pair": "<s> $A <s>:1 $B:1", "special_tokens": [("<s>", 0)]}
        made.post_processor = post.Sequence([post.ByteLevel(trim_offsets=True), post.TemplateProcessing(**begins)])
    else:
        made.post_processor = post.ByteLevel(trim_offsets=False)
    made.save(str(file))
    return made


KINDS = (
    *("bert", "bert_cased", "gpt2", "gpt2_NFC", "gpt2_NFKD", "roberta", "roberta_NFKC", "roberta_NFD"),
    *("llama3", "llama3_NFKC", "qwen2", "qwen2_NFC"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_as_hf(kind: str, tmp_path: Path) -> None:
    theirs = trained(kind, tmp_path / "tokenizer.json")
    ours = read(tmp_path)
    made = ours.encode_many(LINES)
    special = {number for number in (ours.pad, ours.cls, ours.sep, ours.mask) if number is not None}
    for i, (line, expected) in enumerate(zip(LINES, theirs.encode_batch(LINES, add_special_tokens=False), strict=True)):
        one = made.text(i)
        got = one.ids.tolist(), [tuple(each) for each in one.offsets.tolist()], one.words.tolist()
        assert got == (expected.ids, expected.offsets, expected.word_ids), line
        shown = [number for number in expected.ids if number not in special]
        assert ours.decode(one.ids) == theirs.decode(shown, skip_special_tokens=False), line
    theirs.enable_truncation(16)
    for first, second in zip(LINES[::2], LINES[1::2], strict=True):
        for pair in (second, None):
            expected = theirs.encode(first, pair)
            one, segments = ours.encode(first, pair, max_length=16)
            assert (one.ids.tolist(), segments.tolist()) == (expected.ids, expected.type_ids)
            assert [tuple(each) for each in one.offsets.tolist()] == expected.offsets


@pytest.mark.parametrize("kind", ["llama3", "qwen2"])
@pytest.mark.parametrize("whole", [False, True])
def test_splits_as_hf(kind: str, whole: bool, tmp_path: Path) -> None:
    trained(kind, tmp_path / "tokenizer.json")
    data = json.loads((tmp_path / "tokenizer.json").read_text())
    data["model"]["ignore_merges"] = whole  # tokens that no merges make
    for token in ("word", "Ġspaces", "turn", "123", "Ã©t", "x" * 50):
        data["model"]["vocab"].setdefault(token, len(data["model"]["vocab"]))
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    theirs, ours = hf().Tokenizer.from_file(str(tmp_path / "tokenizer.json")), Tokenizer.of(*read(tmp_path).state())
    lines = [*PARTS, *mixed_lines(2000, seed=4), "x" * 50, " " + "x" * 50, "word" * 30]
    lines += ["".join(pair) for pair in zip(lines, lines[7:], strict=False)]
    for text, expected in zip(lines, theirs.encode_batch(lines, add_special_tokens=False), strict=True):
        one = ours.encode_many([text]).text(0)
        got = one.ids.tolist(), [tuple(each) for each in one.offsets.tolist()], one.words.tolist()
        assert got == (expected.ids, expected.offsets, expected.word_ids), text
    write(ours, tmp_path / "again")
    assert read(tmp_path / "again").state()[0] == ours.state()[0]
    again = hf().Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    assert [each.ids for each in again.encode_batch(lines)] == [each.ids for each in theirs.encode_batch(lines)]


UNIGRAMS = ("always", "first", "never", "whole", "bytes", "NFKC", "added")


def unigram(kind: str, file: Path) -> Any:
    """HF's unigram model, trained by HF on other lines, and saved."""
    tokenizers = hf()
    models, pre, post = tokenizers.models, tokenizers.pre_tokenizers, tokenizers.processors
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = tokenizers.Tokenizer(models.Unigram())
    scheme = kind if kind in ("first", "never") else "always"
    made.pre_tokenizer = pre.Metaspace(prepend_scheme=scheme, split=kind != "whole")
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=1200, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    if kind in FORMS:
        made.normalizer = getattr(tokenizers.normalizers, kind)()
    lines = [re.sub("</?[a-z]+>", "", line) for line in mixed_lines(600, seed=2)]  # or pieces would be there twice
    counts = Counter("".join(lines))
    made.train_from_iterator(["".join(c for c in line if counts[c] > 7) for line in lines], trainer)
    decoders = tokenizers.decoders
    decoder = decoders.Metaspace(prepend_scheme=scheme, split=kind != "whole")
    if kind == "bytes":
        vocab = [tuple(each) for each in json.loads(made.to_str())["model"]["vocab"]]
        vocab += [(f"<0x{byte:02X}>", -15.0 - byte / 100) for byte in range(256)]
        made.model = models.Unigram(vocab, 3, byte_fallback=True)
        decoder = decoders.Sequence([decoders.ByteFallback(), decoder])
    made.decoder = decoder
    if kind == "added":
        made.add_special_tokens([tokenizers.AddedToken("[MASK]", lstrip=True, rstrip=True, special=True)])
    made.post_processor = post.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    made.save(str(file))
    return made


@pytest.mark.parametrize("kind", UNIGRAMS)
def test_unigrams_as_hf(kind: str, tmp_path: Path) -> None:
    theirs, lines = unigram(kind, tmp_path / "tokenizer.json"), mixed_lines(2000, seed=3)
    ours = read(tmp_path)
    again = Tokenizer.of(*ours.state())
    special = {number for number in (ours.pad, ours.cls, ours.sep, ours.mask) if number is not None}
    made = again.encode_many(lines)
    for i, (line, expected) in enumerate(zip(lines, theirs.encode_batch(lines, add_special_tokens=False), strict=True)):
        one = made.text(i)
        got = one.ids.tolist(), [tuple(each) for each in one.offsets.tolist()], one.words.tolist()
        assert got == (expected.ids, expected.offsets, expected.word_ids), line
        shown = [number for number in expected.ids if number not in special]
        assert ours.decode(one.ids) == theirs.decode(shown, skip_special_tokens=False), line
    expected = theirs.encode(lines[0], lines[1])
    pair, segments = ours.encode(lines[0], lines[1])
    assert (pair.ids.tolist(), segments.tolist()) == (expected.ids, expected.type_ids)


def test_single_code_points_as_hf(tmp_path: Path) -> None:
    """Every 7th code point between two letters: normalisation and split."""
    theirs = trained("bert", tmp_path / "tokenizer.json")
    texts = [f"a{chr(c)}b" for c in range(0, 0x110000, 7) if not 0xD800 <= c < 0xE000]
    made = read(tmp_path).encode_many(texts)
    expected = theirs.encode_batch(texts, add_special_tokens=False)
    wrong = [
        hex(ord(text[1]))
        for i, text in enumerate(texts)
        if [tuple(each) for each in made.text(i).offsets.tolist()] != expected[i].offsets
    ]
    assert wrong == []
