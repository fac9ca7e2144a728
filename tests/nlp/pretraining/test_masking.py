"""What is masked: units, shares, targets; and how texts are packed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataLoader
from pdl.data.randomness import BatchRandom
from pdl.errors import ConfigError
from pdl_nlp.data import PlainText, TaggedFile, standin
from pdl_nlp.pretraining.loader import Packed, PackedStream, Packing
from pdl_nlp.pretraining.masking import LEVELS, Kind, Masking
from pdl_nlp.pretraining.units import ENTITY, PHRASE, WORD, Words, marks, of_tags, of_tokens
from pdl_nlp.tokenizers import BERT, BERT_SINGLE, Characters, WordPiece

SIZE, PAD, CLS, SEP, MASK, FIRST = 60, 0, 2, 3, 4, 5
ORDINARY = np.arange(SIZE) >= FIRST


def masking(kind: Kind, count: int = 19, **levels: float) -> Masking:
    return Masking(kind, 0.15, count, MASK, ORDINARY, {**dict.fromkeys(LEVELS, 0.0), **levels} if levels else LEVELS)


def sequences(n: int, length: int = 128) -> dict[str, np.ndarray]:
    """Random tokens with CLS in front, a SEP and some padding; words of 1 to 3 tokens, phrases of 1 to 3 words."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(FIRST, SIZE, (n, length)).astype(np.int32)
    found = np.zeros((n, length), np.uint8)
    for row in found:
        starts = np.cumsum(rng.integers(1, 4, length))
        starts = np.concatenate([[0], starts[starts < length]])
        row[starts] |= WORD
        row[
            starts[
                np.unique(np.concatenate([[0], np.cumsum(rng.integers(1, 4, len(starts)))]).clip(0, len(starts) - 1))
            ]
        ] |= PHRASE
        row[rng.random(length) < 0.1] |= ENTITY
    tokens[:, 0], tokens[:, 60], tokens[:, 120:] = CLS, SEP, PAD
    return {"tokens": tokens, "marks": found, "index": np.arange(n)}


def rngs(n: int, seed: int = 0, epoch: int = 0) -> BatchRandom:
    return BatchRandom(seed, epoch, np.arange(n))


@pytest.mark.parametrize("kind", ["token", "word", "ernie"])
def test_shares_and_targets(kind: Kind) -> None:
    batch = sequences(400)
    made = masking(kind).batch(batch, rngs(400))
    real = made["targets"] >= 0
    original = np.take_along_axis(batch["tokens"], made["positions"], axis=1)
    assert (made["targets"][real] == original[real]).all()
    assert ORDINARY[made["targets"][real]].all(), "special tokens are never to be found"
    assert "marks" not in made
    # 118 ordinary tokens a sequence, 15 % of them
    assert real.sum() / (400 * 118) == pytest.approx(round(0.15 * 118) / 118, rel=0.02)
    now = np.take_along_axis(made["tokens"], made["positions"], axis=1)[real]
    assert (now == MASK).mean() == pytest.approx(0.8, abs=0.02)
    replaced = (now != MASK) & (now != original[real])
    assert replaced.mean() == pytest.approx(0.1 * (1 - 1 / ORDINARY.sum()), abs=0.015)
    assert ORDINARY[now[replaced]].all()
    changed = made["tokens"] != batch["tokens"]
    chosen = np.zeros_like(changed)
    np.put_along_axis(chosen, np.where(real, made["positions"], 0), True, axis=1)
    assert not (changed & ~chosen).any(), "what is not to be found stays"
    assert all(len(set(row[own])) == own.sum() for row, own in zip(made["positions"], real, strict=True))


def units(batch: dict[str, np.ndarray], bit: int) -> np.ndarray:
    begins = (batch["marks"] & bit > 0) | ~ORDINARY[batch["tokens"]]
    begins[:, 1:] |= ~ORDINARY[batch["tokens"][:, :-1]]
    begins[:, 0] = True
    return np.cumsum(begins, axis=1)


@pytest.mark.parametrize(
    ("made", "bit"), [(masking("word"), WORD), (masking("ernie", phrase=1), PHRASE)], ids=["word", "phrase"]
)
def test_units_are_never_split(made: Masking, bit: int) -> None:
    batch = sequences(60)
    found = made.batch(batch, rngs(60))
    chosen = np.zeros((60, 128), bool)
    for row, (positions, targets) in enumerate(zip(found["positions"], found["targets"], strict=True)):
        chosen[row, positions[targets >= 0]] = True
    for row, unit in enumerate(units(batch, bit)):
        for number in np.unique(unit):
            own = chosen[row][unit == number]
            assert own.all() or not own.any()
            now, before = found["tokens"][row][unit == number], batch["tokens"][row][unit == number]
            fate = {
                "masked" if a == MASK else "other" for a, b in zip(now, before, strict=True) if own.all() and a != b
            }
            assert len(fate) <= 1, "all tokens of a unit share its fate"


def test_entities_come_first() -> None:
    batch = sequences(40)
    batch["marks"][:] = WORD | PHRASE
    batch["marks"][:, 20:26] |= ENTITY
    batch["marks"][:, [21, 22, 24]] = ENTITY  # 20-22, 23-24 and 25
    found = masking("ernie", entity=1).batch(batch, rngs(40))
    for positions, targets in zip(found["positions"], found["targets"], strict=True):
        assert set(range(20, 26)) <= set(positions[targets >= 0].tolist())


def test_a_mask_is_a_function_of_seed_epoch_and_sample() -> None:
    batch, made = sequences(8), masking("ernie")
    whole = made.batch(batch, rngs(8))
    single = [made({name: value[i] for name, value in batch.items()}, rngs(8)[i]) for i in range(8)]
    for name in ("tokens", "positions", "targets"):
        np.testing.assert_array_equal(whole[name], np.stack([each[name] for each in single]))
    assert (made.batch(batch, rngs(8, epoch=1))["tokens"] != whole["tokens"]).any()
    assert (made.batch(batch, rngs(8, seed=1))["tokens"] != whole["tokens"]).any()


def characters(text: str) -> Characters:
    return Characters([*BERT.values(), *dict.fromkeys(text)], special=BERT, single=BERT_SINGLE)


def test_units_of_tagged_words_by_hand() -> None:
    line = "江/nr 泽民/nr 在/p 北京/ns 人民/n 大会/n 堂/n 发表/v 十/m 篇/q 《/w 新/a 世界/n 》/w"
    words = line.split()
    tokens, tags = zip(*(each.rsplit("/", 1) for each in words), strict=True)
    text, found = of_tags(tokens, tags, "")
    assert text == "".join(tokens)
    made = of_tokens(characters(text).encode_many([text]), [text], [found])
    begins = {bit: [text[i] for i in np.flatnonzero(made & bit)] for bit in (WORD, PHRASE, ENTITY)}
    assert begins[WORD] == [word[0] for word in tokens]
    #                        江泽民 在 北京 人民大会堂 发表 十篇 《 新世界 》
    assert begins[PHRASE] == ["江", "在", "北", "人", "发", "十", "《", "新", "》"]
    assert begins[ENTITY] == list("江泽民北京新世界")


def test_spans_of_tags_are_entities_and_long_runs_end() -> None:
    text, found = of_tags(list("张三去了上海"), ["B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC"], "")
    assert found.spans.tolist() == [[0, 2], [2, 3], [3, 4], [4, 6]]
    assert (marks(found) & ENTITY > 0).tolist() == [True, False, False, True]
    run = Words(np.array([[i, i + 1] for i in range(6)]), ["n"] * 6)
    assert (marks(run) & PHRASE > 0).tolist() == [True, False, False, False, True, False]
    assert text == "张三去了上海"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return standin.write(tmp_path / "texts.txt", [text for text, _ in standin.draw("texts", 90)])


def test_every_token_stands_in_one_sequence(corpus: Path) -> None:
    lines = corpus.read_text().splitlines()
    tokenizer = characters("".join(lines))
    stream = PlainText(corpus)
    packing = Packing(tokenizer, 32)
    tokens = np.stack([each["tokens"] for each in PackedStream(stream, packing)])
    assert (tokens[:, 0] == tokenizer.cls).all()
    flat = tokens[:, 1:].ravel()
    expected = [n for line in lines for n in [*tokenizer.encode_many([line]).ids.tolist(), tokenizer.sep]]
    np.testing.assert_array_equal(flat[: len(expected)], expected)
    assert (flat[len(expected) :] == tokenizer.pad).all()
    assert len(flat) - len(expected) < 31
    same = Packed(TaggedFile(standin.write(corpus.with_suffix(".pos"), ["ab/n c/v", "d/x"]), form="words"),
                  Packing(characters("abcd"), 8, kind="ernie"))  # fmt: skip
    assert same.tokens.tolist() == [[2, 5, 6, 7, 3, 8, 3, 0]]
    assert (same.marks[0] & WORD > 0).tolist() == [True, True, False, True, True, True, True, True]


def test_words_of_a_tokenizer_are_whole() -> None:
    tokenizer = WordPiece([*BERT.values(), "un", "##able", "to", "go"], special=BERT, single=BERT_SINGLE)

    class Texts:
        classes = ()

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"text": ["unable to go", "", "unable"][index]}

    made = Packed(Texts(), Packing(tokenizer, 9, kind="word"))
    assert made.tokens.tolist() == [[2, 5, 6, 7, 8, 3, 5, 6, 3]]
    assert (made.marks[0] & WORD > 0).tolist() == [True, True, False, True, True, True, True, False, True]
    with pytest.raises(ConfigError, match=r"masking=ernie needs words with tags.*task.tagger"):
        Packed(Texts(), Packing(tokenizer, 9, kind="ernie"))


def test_a_stream_goes_on_where_it_was(corpus: Path) -> None:
    tokenizer = characters(corpus.read_text().replace("\n", ""))

    def loader() -> DataLoader:
        stream = PackedStream(PlainText(corpus, buffer=16), Packing(tokenizer, 24))
        ordinary = np.arange(len(tokenizer.tokens)) >= 5
        made = Masking("token", 0.15, 3, MASK, ordinary, LEVELS)
        return DataLoader(stream, batch_size=4, transforms=[made], seed=3)

    whole = loader()
    whole.set_epoch(2)
    batches = iter(whole)
    for _ in range(5):
        next(batches)
    state, other = whole.state_dict(), loader()
    other.load_state_dict(state)
    other.set_epoch(2)
    for a, b in zip(batches, other, strict=True):
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)
