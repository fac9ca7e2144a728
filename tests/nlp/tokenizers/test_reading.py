"""Files of others: tokenizer.json, vocab.txt, .model, folders with them, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError, PdlError, UsageError
from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers import BERT, ByteLevelBPE, Tokenizer, WordPiece, read
from pdl_nlp.tokenizers.bpe import ALPHABET
from tests.nlp.tokenizers.made import PIECES


def added(tokens: list[str], **flags: bool) -> list[dict[str, Any]]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": number, "content": token, **plain, **flags} for number, token in enumerate(tokens)]


def wordpiece() -> dict[str, Any]:
    """A tokenizer.json as HF writes it, by its parts."""
    tokens = [*BERT.values(), *PIECES]
    return {
        "version": "1.0",
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": added(list(BERT.values())),
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
            "vocab": {token: number for number, token in enumerate(tokens)},
        },
    }  # fmt: skip


def bpe() -> dict[str, Any]:
    tokens = ["<s>", "</s>", *ALPHABET.values(), "lo", "low"]
    return {
        "added_tokens": added(["<s>", "</s>"]),
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0], "trim_offsets": False},
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "vocab": {token: number for number, token in enumerate(tokens)}, "merges": ["l o", ["lo", "w"]],
        },
    }  # fmt: skip


def written(folder: Path, data: dict[str, Any]) -> Path:
    (folder / "tokenizer.json").write_text(json.dumps(data))
    return folder / "tokenizer.json"


def test_a_wordpiece_of_hf(tmp_path: Path) -> None:
    made = read(written(tmp_path, wordpiece()))
    assert isinstance(made, WordPiece)
    assert made.tokenize("UNwanted, running unwantedwant") == ["un", "##want", "##ed", ",", "runn", "##ing", "[UNK]"]
    assert made.encode("want")[0].ids.tolist() == [2, 5, 3], "its truncation is not taken over"
    one, segments = made.encode("want", "wa")
    assert (one.ids.tolist(), segments.tolist()) == ([5, 8], [0, 1])
    assert [made.pad, made.unknown, made.cls, made.sep, made.mask] == [0, 1, 2, 3, 4]


def test_a_bpe_of_hf(tmp_path: Path) -> None:
    written(tmp_path, bpe())
    made = read(tmp_path)
    assert isinstance(made, ByteLevelBPE)
    assert made.tokenize("low lo") == ["low", "Ġ", "lo"]
    assert [made.tokens[i] for i in made.encode("low", "low")[0].ids] == ["<s>", "low", "</s>", "</s>", "low", "</s>"]
    assert made.encode_many([" low"]).offsets.tolist() == [[0, 1], [1, 4]]


SPLIT = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "a.b"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
    ],
}


@pytest.mark.parametrize(
    ("base", "path", "value", "said"),
    [
        (wordpiece, "model.type", "WordLevel", r"the model 'WordLevel' is not known \(known: WordPiece, BPE"),
        (wordpiece, "model.type", "Unigram", r"'BertNormalizer' is not known .*give the .model of SentencePiece"),
        (wordpiece, "normalizer.type", "NFKC", r"the normalizer 'NFKC' is not known \(known: BertNormalizer\)"),
        (wordpiece, "pre_tokenizer.type", "Punctuation", "the pre_tokenizer 'Punctuation' is not known"),
        (wordpiece, "post_processor.type", "Magic", "the post_processor 'Magic' is not known"),
        (wordpiece, "decoder.type", "CTC", "the decoder 'CTC' is not known"),
        (wordpiece, "added_tokens", added(["[PAD]"], single_word=True), "'\\[PAD\\]' has single_word"),
        (wordpiece, "added_tokens", added(["[PAD]"], normalized=True), "'\\[PAD\\]' is found in normalised text"),
        (wordpiece, "model.vocab", {"a": 0, "b": 5}, "the numbers of tokens are not 0 to"),
        (wordpiece, "normalizer.lowercase", None, "lowercase|KeyError"),
        (bpe, "normalizer", {"type": "Lowercase"}, "the normalizer 'Lowercase' is not known"),
        (bpe, "model.dropout", 0.1, "the model BPE has dropout=0.1; only None is known"),
        (bpe, "model.byte_fallback", True, "byte_fallback=True"),
        (bpe, "model.end_of_word_suffix", "</w>", "end_of_word_suffix='</w>'"),
        (bpe, "model.merges", ["l zz"], "merge 0, 'l zz', is not a pair of tokens"),
        (bpe, "pre_tokenizer", {"type": "Sequence", "pretokenizers": []}, "the pre_tokenizer 'Sequence' is not known"),
        (bpe, "pre_tokenizer", SPLIT, "splits by 'a.b', which is not known .known are .* llama3, qwen2"),
        (bpe, "model", 3, "not a tokenizer.json as HF writes it"),
        (bpe, "added_tokens", 3, "not a tokenizer.json as HF writes it"),
    ],
)
def test_what_is_not_known_is_named(base: Any, path: str, value: Any, said: str, tmp_path: Path) -> None:
    data = base()
    place = data
    *outer, last = path.split(".")
    for name in outer:
        place = place[name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    with pytest.raises(DataError, match=said) as caught:
        read(written(tmp_path, data))
    assert str(tmp_path / "tokenizer.json") in str(caught.value)


def test_a_vocab_txt_and_what_is_beside_it(tmp_path: Path) -> None:
    text = "\r\n".join([*BERT.values(), *PIECES, "Want", "e\u0301"]) + "\r\n"
    (tmp_path / "vocab.txt").write_bytes(text.encode())
    assert read(tmp_path).tokenize("WANT") == ["want"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert read(tmp_path / "vocab.txt").tokenize("Want WANT") == ["Want", "[UNK]"]
    assert read(tmp_path).encode("want")[0].ids.tolist() == [2, 5, 3]


def test_a_vocab_txt_without_cls(tmp_path: Path) -> None:
    (tmp_path / "zh.txt").write_text("[UNK]\na\n")
    assert read(tmp_path / "zh.txt").encode("a b")[0].ids.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("vocab.txt", b"[UNK]\na\na\n", "'a' is there twice"),
        ("vocab.txt", b"[UNK]\n\xff\n", "not in UTF-8"),
        ("vocab.txt", b"a\nb\n", "which token stands for a word without pieces"),
        ("tokenizer.json", b"{", "no JSON"),
        ("tokenizer.json", b"[]", "no JSON object"),
        ("tokenizer.json", b"{}", "the model None is not known"),
    ],
)
def test_damaged_files(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        read(tmp_path)


def test_what_is_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none of tokenizer\.json, vocab\.txt"):
        read(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "vocab.txt")
    with pytest.raises(UsageError, match="a tokenizer is read from"):
        read(tmp_path / "a.bin")
    for name in "ab":
        (tmp_path / f"{name}.model").touch()
    with pytest.raises(UsageError, match="several of"):
        read(tmp_path)


def test_a_model_of_sentencepiece(tmp_path: Path) -> None:
    library = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    lines = ["hello world, this is a small text", "the world is small", "a text of words is this"] * 20
    for kind in ("unigram", "bpe"):
        file = tmp_path / kind
        library.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_prefix=str(file), vocab_size=28, model_type=kind, minloglevel=2
        )
        theirs = library.SentencePieceProcessor(model_file=f"{file}.model")
        ours = read(file.with_suffix(".model"))
        texts = ["Hello  w\u00f6rld \ufb01", "", "this text\u3000is small \U0001f600\u4e2d", "a\ud800 b"]
        made = ours.encode_many(texts)
        for i, text in enumerate(texts[:3]):
            assert made.text(i).ids.tolist() == theirs.encode(text)
        assert made.text(2).offsets.max() == len(texts[2])
        assert ours.decode(theirs.encode("hello world")) == "hello world"
        again = Tokenizer.of(*ours.state())
        assert again.encode_many(texts).ids.tolist() == made.ids.tolist()
        (tmp_path / "broken.model").write_bytes(file.with_suffix(".model").read_bytes()[:-7])
        with pytest.raises(PdlError, match="no model of SentencePiece"):
            read(tmp_path / "broken.model")


def test_places_in_a_message_of_sentencepiece() -> None:
    """Places are bytes of the text there, and code points here; by hand from the library's sentencepiece.proto."""
    text = "\u00e9 b".encode()
    pieces = [bytes([0x10, 1, 0x20, 0, 0x28, 2]), bytes([0x10, 2, 0x20, 2, 0x28, 4])]
    message = b"\x0a" + bytes([len(text)]) + text + b"".join(b"\x12" + bytes([len(each)]) + each for each in pieces)
    ids, offsets, words, starts = kernels.sentencepiece([message, b""], np.array([0, 1, 1], np.uint8))
    assert (ids.tolist(), offsets.tolist()) == ([1, 2], [[0, 1], [1, 3]])
    assert (words.tolist(), starts.tolist()) == ([0, 1], [0, 2, 2])
    for broken in (message[:-1], message[:-1] + b"\x09", b"\x12\x02\x10\x07"):
        with pytest.raises(RuntimeError, match=r"broken message|outside the text or the model"):
            kernels.sentencepiece([broken], np.array([0, 1, 1], np.uint8))
