"""Vocabularies out of texts, for every kind of tokenizer."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.kernels import tokens as kernels
from pdl_nlp.tokenizers.base import BERT, BERT_PAIR, BERT_SINGLE, Tokenizer
from pdl_nlp.tokenizers.bpe import ALPHABET, BYTES, ByteLevelBPE
from pdl_nlp.tokenizers.characters import Characters
from pdl_nlp.tokenizers.sentencepiece import SentencePiece, library
from pdl_nlp.tokenizers.unicode import ALONE, AS_SPACE, bert_plan
from pdl_nlp.tokenizers.wordpiece import WordPiece
from pdl_nlp.tokenizers.words import SPLITS, Words

PREFIX = "##"
BLOCK = 1000  # texts that are split together
AROUND: dict[str, Any] = {"special": BERT, "single": BERT_SINGLE, "pair": BERT_PAIR}


def characters(texts: Iterable[str], size: int, least: int, lower: bool) -> Characters:
    """The most frequent code points, white space left out."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.lower() if lower else text)
    kept = Counter({letter: count for letter, count in counts.items() if not letter.isspace()})
    return Characters(_most(kept, size, least), lower=lower, **AROUND)


def words(texts: Iterable[str], size: int, least: int, lower: bool) -> Words:
    """The most frequent words, as `Words` splits texts into letters in a row and signs."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(SPLITS["signs"].findall(text.lower() if lower else text))
    return Words(_most(counts, size, least), lower=lower, **AROUND)


def wordpiece(texts: Iterable[str], size: int, least: int, lower: bool) -> WordPiece:
    """Letters, and pieces of words that become one another's neighbours most often, as HF's trainer has them."""
    plan = bert_plan(lower, lower, True, True)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word in normalised(text, *plan).split(" ") if word)
    letters = sorted({letter if i == 0 else PREFIX + letter for word in counts for i, letter in enumerate(word)})
    if len(letters) + len(BERT) > size:  # the rarest are left out: words with them are unknown
        how_often: Counter[str] = Counter()
        for word, count in counts.items():
            for i, letter in enumerate(word):
                how_often[letter if i == 0 else PREFIX + letter] += count
        letters = sorted(token for token, _ in how_often.most_common(size - len(BERT)))
    number = {letter: i for i, letter in enumerate(letters)}
    spelled = {word: [number.get(x if i == 0 else PREFIX + x) for i, x in enumerate(word)] for word in counts}
    merges = _merges({w: s for w, s in spelled.items() if None not in s}, counts, letters, size - len(BERT), least)
    tokens = list(letters)
    for a, b, made in merges:
        if made == len(tokens):
            tokens.append(tokens[a] + tokens[b].removeprefix(PREFIX))
    return WordPiece([*BERT.values(), *(token for token in tokens if token not in BERT.values())], lower=lower)


def bpe(texts: Iterable[str], size: int, least: int, lower: bool) -> ByteLevelBPE:
    """The bytes, and pairs of them by how often they are neighbours in parts of texts (GPT-2's split)."""
    letters = sorted(BYTES)
    split = ByteLevelBPE(letters, np.zeros((0, 2), np.int32), trim=False)
    counts: Counter[str] = Counter()
    waiting = iter(texts)
    while block := [text.lower() if lower else text for text in islice(waiting, BLOCK)]:
        block = [text for text in block if text]
        made = split.encode_many(block)
        for i, text in enumerate(block):
            one = made.text(i)
            begins = np.flatnonzero(np.diff(one.words, prepend=-1))
            ends = np.append(begins[1:], len(one.words)) - 1
            spans = zip(one.offsets[begins, 0].tolist(), one.offsets[ends, 1].tolist(), strict=True)
            counts.update([text[begin:end] for begin, end in spans])
    number = {letter: i for i, letter in enumerate(letters)}
    spelled = {part: [number[ALPHABET[byte]] for byte in part.encode("utf-8", "replace")] for part in counts}
    merges = _merges(spelled, counts, letters, size - len(BERT), least)
    tokens = list(letters)
    for a, b, made_as in merges:
        if made_as == len(tokens):
            tokens.append(tokens[a] + tokens[b])
    pairs = [(tokens[a], tokens[b]) for a, b, _ in merges]
    return ByteLevelBPE.read([*BERT.values(), *tokens], pairs, **AROUND)


def unigram(texts: Iterable[str], size: int, least: int, lower: bool) -> SentencePiece:
    """The unigram model of SentencePiece (Kudo, arXiv 1804.10959)."""
    return _sentencepiece("unigram", texts, size, lower)


def sentencepiece_bpe(texts: Iterable[str], size: int, least: int, lower: bool) -> SentencePiece:
    """BPE on characters, of SentencePiece."""
    return _sentencepiece("bpe", texts, size, lower)


def _sentencepiece(kind: str, texts: Iterable[str], size: int, lower: bool) -> SentencePiece:
    model = io.BytesIO()
    try:
        library().SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=model, vocab_size=size, model_type=kind, minloglevel=2,
            normalization_rule_name="nmt_nfkc_cf" if lower else "nmt_nfkc", pad_id=0, unk_id=1, bos_id=-1, eos_id=-1,
            pad_piece=BERT["pad"], unk_piece=BERT["unknown"],
            control_symbols=[BERT[part] for part in ("cls", "sep", "mask")],
        )  # fmt: skip
    except RuntimeError as error:
        raise DataError(f"sentencepiece: {' '.join(str(error).split())[:300]}") from None
    return SentencePiece.read(model.getvalue(), "the model that was trained")


KINDS: dict[str, Callable[[Iterable[str], int, int, bool], Tokenizer]] = {
    "characters": characters, "words": words, "wordpiece": wordpiece, "bpe": bpe, "unigram": unigram,
    "sentencepiece_bpe": sentencepiece_bpe,
}  # fmt: skip


def train(kind: str, texts: Iterable[str], *, size: int = 30000, least: int = 2, lower: bool = False) -> Tokenizer:
    """A tokenizer of a kind of `KINDS` with at most `size` tokens, with the special ones of BERT: [PAD] is number 0,
    [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4.

    least   how often what becomes a token must be there
    lower   letters are lowered
    """
    if kind not in KINDS:
        raise UsageError(f"kind={kind!r:.60} must be one of {', '.join(KINDS)}")
    smallest = len(BERT) + (256 if kind == "bpe" else 1)
    if size < smallest:
        raise UsageError(f"size={size} is too small; {kind} has at least {smallest} tokens")
    made = KINDS[kind](texts, size, least, lower)
    if len(made.tokens) <= (smallest - 1 if kind != "bpe" else 0):
        raise DataError("the texts are empty: nothing becomes a token")
    return made


def normalised(text: str, plan: Array, several: Array) -> str:
    """The words that BERT makes of a text, with spaces between them."""
    p = plan[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)].astype(np.int64)
    many = p >> 31 > 0
    n = np.where(many, p >> 20 & 63, 1)
    within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    found = np.repeat(p, n)
    of_many = np.repeat(many, n)
    found[of_many] = several[((found & 0xFFFFF) + within)[of_many]]
    alone = (found & ALONE) > 0
    wide = np.where(alone, 3, 1)
    out = np.full(wide.sum(), ord(" "), np.uint32)
    out[np.cumsum(wide) - wide + alone] = np.where(found & AS_SPACE, ord(" "), found & 0x1FFFFF)
    return out.tobytes().decode("utf-32-le", "replace")


def _most(counts: Counter[str], size: int, least: int) -> list[str]:
    """The special tokens, and the most frequent ones, of equal ones the first by code point."""
    found = sorted((-count, token) for token, count in counts.items() if count >= least and token not in BERT.values())
    return [*BERT.values(), *(token for _, token in found[: size - len(BERT)])]


def _merges(
    spelled: Mapping[str, Sequence[Any]], counts: Counter[str], letters: Sequence[str], size: int, least: int
) -> list[list[int]]:
    order = sorted(spelled)
    symbols = np.array([symbol for word in order for symbol in spelled[word]], np.int32)
    starts = np.cumsum([0, *(len(spelled[word]) for word in order)], dtype=np.int64)
    often = np.array([counts[word] for word in order], np.int64)
    base, most = len(letters), size - len(letters)
    found: list[list[int]] = kernels.learn_merges(symbols, starts, often, base=base, most=most, least=least).tolist()
    return found
