"""Vectors of words: what is learned is what the formula says, neighbours are found, and other tasks begin with them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.config import from_dict, load
from pdl.errors import ConfigError, DataError
from pdl.train import Recipe
from pdl.vocabulary import Vocabulary
from pdl_nlp import BoW, FastText, Word2Vec
from pdl_nlp.data import PlainText, standin
from pdl_nlp.fitting import SPECIAL, counted, tokenizer_of
from pdl_nlp.models.base import FACTOR
from pdl_nlp.steps.letters import Letters
from pdl_nlp.tokenizers import Words
from pdl_nlp.vectors import Vectors, fill
from pdl_nlp.word_vectors import WordVectors
from pdl_nlp.word_vectors.baselines import _counted, baselines
from pdl_nlp.word_vectors.init import write_recipe
from pdl_nlp.word_vectors.loader import Windows
from pdl_nlp.word_vectors.metrics import ContextAUC

MOODS = (*standin.GOOD, *standin.BAD)
RNG = np.random.default_rng(0)


def net(**settings: Any) -> Word2Vec:
    made = Word2Vec(9, dim=4, window=2, **settings)
    for table in (made.words, made.contexts):
        table.weight.data[1:] = RNG.standard_normal((8, 4)).astype("f4")
    return made


TOKENS = np.array([[2, 3, 1, 4, 5, 0, 0, 6, 7, 3]])  # 1 is unknown; two texts
NEGATIVES = np.array([8, 2, 5])


def pairs() -> list[tuple[int, int, float]]:
    """(word, context, how much it counts) of TOKENS."""
    row = TOKENS[0]
    return [
        (int(row[i]), int(row[j]), (3 - abs(i - j)) / 2)
        for i in range(len(row))
        for j in range(len(row))
        if 0 < abs(i - j) <= 2 and row[i] > 1 and row[j] > 1
    ]


def log_sigmoid(x: Any) -> Any:
    return -np.log1p(np.exp(-np.asarray(x, float)))


def test_the_loss_is_that_of_skip_gram_with_negative_sampling() -> None:
    model, task = net(), WordVectors(num_negatives=5)
    x, c = np.array(model.words.weight.data, float), np.array(model.contexts.weight.data, float)
    total, counted = 0.0, 0.0
    for word, context, counts in pairs():
        negative = log_sigmoid(-c[NEGATIVES] @ x[word]).mean()
        total -= counts * (log_sigmoid(x[word] @ c[context]) + 5 * negative)
        counted += counts
    loss = task.step(model, {"tokens": TOKENS, "negatives": NEGATIVES})
    assert float(loss.value.item()) == pytest.approx(total / counted, rel=1e-5)
    assert float(loss.weight.item()) == pytest.approx(counted)  # type: ignore[union-attr]


def test_cbow_tells_a_word_by_the_mean_of_its_context() -> None:
    model, task = net(cbow=True), WordVectors(num_negatives=2)
    x, c = np.array(model.words.weight.data, float), np.array(model.contexts.weight.data, float)
    row, found = TOKENS[0], []
    for i in range(len(row)):
        near = [(j, (3 - abs(i - j)) / 2) for j in range(len(row)) if 0 < abs(i - j) <= 2 and row[j] > 1]
        if row[i] > 1 and near:
            mean = sum(w * x[row[j]] for j, w in near) / sum(w for _, w in near)
            found.append(log_sigmoid(mean @ c[row[i]]) + 2 * log_sigmoid(-c[NEGATIVES] @ mean).mean())
    loss = task.step(model, {"tokens": TOKENS, "negatives": NEGATIVES})
    assert float(loss.value.item()) == pytest.approx(-np.mean(found), rel=1e-5)


def test_auc_by_hand() -> None:
    metric = ContextAUC()
    metric.update(np.array([[[0.5, 2.0]]]), np.array([[[1.0, 3.0]]]), np.array([[[0.5, 1.0]]]))
    assert metric.compute() == pytest.approx((0.5 * 1 + 1 * 3) / 4)


def rows_by_hand(word: list[int], model: FastText) -> list[int]:
    """Rows of the n-grams of a word of letters, marks at its ends."""
    spelled = [model.letters, *word, model.letters + 1]
    found = []
    for size in model.sizes:
        for start in range(len(spelled) - size + 1):
            value = spelled[start]
            for letter in spelled[start + 1 : start + size]:
                value = (value * FACTOR + letter) % (model.buckets - 1)
            found.append(value + 1)
    return found


@pytest.mark.parametrize("word", [[2], [3, 4], [2, 3, 4, 5, 6, 3], [5, 4, 3, 2, 6, 3, 4]])
def test_a_word_is_the_mean_of_its_own_vector_and_of_its_ngrams(word: list[int]) -> None:
    pdl.seed(1)
    model = FastText(9, 7, dim=4, shortest=2, longest=4, buckets=101)
    letters = np.zeros((1, 3, 7), np.int64)
    letters[0, 0, : len(word)] = letters[0, 1, : len(word)] = word
    tokens = np.array([[5, 1, 0]])  # known, unknown, none
    with pdl.no_grad():
        made = model(pdl.as_tensor(tokens), pdl.as_tensor(letters)).numpy()[0]
    grams = model.grams.weight.data[rows_by_hand(word, model)]
    np.testing.assert_allclose(made[0], np.vstack([model.words.weight.data[5:6], grams]).mean(0), rtol=1e-5)
    np.testing.assert_allclose(made[1], grams.mean(0), rtol=1e-5)
    assert not made[2].any()


def tokenizer(*words: str) -> Words:
    return tokenizer_of(Vocabulary([*SPECIAL.values(), *words]), "words", lower=True)  # type: ignore[return-value]


class Texts:
    """A stream."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def __iter__(self) -> Any:
        return iter({"text": text} for text in self.texts)


def windows(*texts: str, subsample: float | None = None, **settings: Any) -> Windows:
    given = {"window": 2, "length": 6, "negatives": 4, "seed": 0} | settings
    return Windows(Texts(*texts), tokenizer("a", "b", "c"), subsample=subsample, **given)


def test_texts_stand_apart_and_every_known_word_comes_once() -> None:
    data = windows("a b nowhere c", "b", "c A", "", "b b c a b c")
    tokens = data.get_batch(np.arange(len(data)))["tokens"].reshape(-1)
    assert tokens.tolist() == [2, 3, 4, 0, 0, 4, 2, 0, 0, 3, 3, 4, 2, 3, 4, 0, 0, 0]
    assert set(data.get_batch(np.array([0]))["negatives"].tolist()) <= {2, 3, 4}


def test_frequent_words_are_thinned_out_as_word2vec_does() -> None:
    texts = ["a a a a a a a b"] * 4000 + ["b c"] * 200
    data, share = windows(*texts, subsample=0.01), 28000 / 32400
    kept = [np.bincount(data.stream, minlength=5)[2:5] for epoch in range(3) if data.set_epoch(epoch) is None]
    assert np.mean([counts[0] for counts in kept]) / 28000 == pytest.approx(
        np.sqrt(0.01 / share) + 0.01 / share, rel=0.05
    )
    assert all(counts[2] == 200 for counts in kept), "rare words stay"
    assert kept[0].tolist() != kept[1].tolist()
    first = data.get_batch(np.arange(len(data)))["tokens"]
    data.set_epoch(0)
    data.set_epoch(2)
    np.testing.assert_array_equal(data.get_batch(np.arange(len(data)))["tokens"], first)


def test_texts_without_known_words() -> None:
    with pytest.raises(DataError, match="no text of a split has two tokens that are known"):
        windows("nowhere", "a")


def test_baselines_by_hand() -> None:
    task = WordVectors(length=6, num_shared=2)
    task.kind, task.window = "words", 1
    task.vocabularies["tokens"] = Vocabulary([*SPECIAL.values(), "a", "b", "c"])
    pairs, together = _counted(np.array([2, 3, 0, 3, 2, 4, 0]), 1, 5)
    assert dict(zip(pairs.tolist(), together.tolist(), strict=True)) == {13: 2, 17: 2, 14: 1, 22: 1}
    found = baselines(task, {"train": Texts("a b", "b a c"), "val": Texts("a c", "c a")}, "val")
    test = task.windows(Texts("a c", "c a"), seed=0)
    (one, other) = test.get_batch(np.arange(len(test)))["negatives"].tolist()  # for even and odd places
    counts = {2: 2, 3: 2, 4: 1}

    def points(own: float, than: float) -> float:
        return 0.5 * ((own > than) + (own >= than))

    # a c 0 c a: places 0 to 4, each word has one context, at places 1, 0, 4, 3
    contexts = [(2, 4, other), (4, 2, one), (4, 2, one), (2, 4, other)]
    expected = np.mean([points(counts[context], counts[negative]) for _, context, negative in contexts])
    assert found["frequency"]["auc"] == pytest.approx(expected)
    met = {(2, 3): 2 / 4, (3, 2): 2 / 4, (2, 4): 1 / 2, (4, 2): 1 / 2}
    expected = np.mean(
        [points(met[word, context], met.get((word, negative), 0)) for word, context, negative in contexts]
    )
    assert found["pointwise mutual information"]["auc"] == pytest.approx(expected)


# -- the whole way -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt.gz"
    lines = [text for text, _ in standin.draw("corpus", 3000)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def recipe(corpus: Path, model: str, letters: int = 0) -> dict[str, Any]:
    ratios = {"train": 0.95, "val": 0.05}
    common = {"_target_": "pdl_nlp.data.PlainText", "path": str(corpus), "ratios": ratios}
    return {
        "task": {
            "_target_": "pdl_nlp.WordVectors",
            "letters": letters,
            "min_count": 2,
            "length": 32,
            "subsample": 0.01,
        },
        "model": {"_target_": f"pdl_nlp.{model}", "dim": 16},
        "data": {**{split: {**common, "split": split} for split in ratios}, "batch_size": 16},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.03},
        "train": {"epochs": 4, "test_weights": "last"},
    }


@pytest.fixture(scope="module", params=["Word2Vec", "FastText"])
def run(request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    workflow.train(from_dict(recipe(corpus, request.param, 12 if request.param == "FastText" else 0)), run=folder)
    return folder


def test_words_with_the_same_contexts_are_near_each_other(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    frequency, information = (each["val/auc"] for each in result["baselines"].values())
    assert frequency < information
    assert result["metrics"]["val/auc"] > max(frequency, 0.6)
    session = pdl.runtime.load(run / "model.pdl")
    for word, kind in (("HOTEL", standin.THINGS), ("lovely", MOODS), ("rude", MOODS)):
        found = [each["word"] for each in session(word)["words"]]
        assert word.lower() not in found
        assert sum(each in kind for each in found[:4]) >= 3, (word, found)
    assert "Words and the nearest to them" in (run / "report.html").read_text()


def test_words_that_training_lacks_have_vectors_by_their_letters_alone(run: Path) -> None:
    vectors = Vectors(run)
    made, there = vectors.of(["hotel", "hotels", "zzz"])
    by_letters = type(vectors.net) is FastText
    assert there.tolist() == [True, by_letters, by_letters]
    answer = pdl.runtime.load(run / "model.pdl")("hotels")
    if by_letters:
        assert made[0] @ made[1] / np.linalg.norm(made[0]) / np.linalg.norm(made[1]) > 0.6
        assert answer["words"][0]["word"] == "hotel"
    else:
        assert answer["words"] == []
        assert answer["unknown"] == ["hotels"]


def test_another_task_begins_with_them(run: Path, tmp_path: Path) -> None:
    lines = {split: [f"{label}\t{text}" for text, label in standin.draw(split, 60)] for split in ("train", "val")}
    for split, each in lines.items():
        (tmp_path / f"{split}.tsv").write_text("\n".join(each))
    columns = {"_target_": "pdl_nlp.data.TextFile", "columns": ["label", "text"]}
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.TextClassification", "vectors": str(run), "min_count": 1},
        "model": {"_target_": "pdl_nlp.BoW", "dropout": 0.0},
        "data": {split: {**columns, "path": str(tmp_path / f"{split}.tsv")} for split in lines},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-9},
        "train": {"epochs": 1},
    }
    result = workflow.train(from_dict(tree), run=tmp_path / "run")
    (said,) = result.pretrained
    assert said["source"] == str(run)
    assert said["adapted"]["embed"].startswith("vectors of ")
    weights = pdl.hub.states.read_state(tmp_path / "run").arrays["embed.weight"]
    assert weights.shape[1] == 16, "the width is that of the vectors"
    names = list(pdl.runtime.bundle.read(tmp_path / "run" / "model.pdl").vocabularies["tokens"])
    assert set(Vectors(run).names) <= set(names), "words that training lacks are known, too"
    made, _ = Vectors(run).of(names[2:])
    ratio = weights[2:] / made
    np.testing.assert_allclose(ratio[np.abs(made) > 1e-3], np.median(ratio), rtol=1e-3)
    tree["model"]["dim"] = 20
    with pytest.raises(ConfigError, match=r"model.dim=20, but the vectors of .* have 16"):
        workflow.train(from_dict(tree), run=tmp_path / "wide")


def test_init(corpus: Path, tmp_path: Path) -> None:
    text = write_recipe(corpus)
    texts = [sample["text"] for sample in PlainText(corpus)]
    assert text.startswith(f"# About {counted(texts, 'words', lower=True).total():,} words, 13 a text.")
    assert "model: {_target_: pdl_nlp.FastText}" in text
    (tmp_path / "made.yaml").write_text(text)
    workflow.train(load(tmp_path / "made.yaml", ["train.max_steps=2", "model.buckets=4096"]), run=tmp_path / "run")
    characters = tmp_path / "texts.txt"
    sentence = "\u623f\u95f4\u5f88\u5e72\u51c0\uff0c\u670d\u52a1\u4e5f\u5f88\u597d\u3002"
    characters.write_text(f"{sentence * 2}\n" * 60)
    assert "tokenizer: characters" in write_recipe(characters)
    assert "Word2Vec" in write_recipe(characters)
    characters.write_text("too few words\n")
    with pytest.raises(DataError, match="3 words; at least 1,000 are needed"):
        write_recipe(characters)


def test_vectors_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "some.vec"
    path.write_text("2 3\nlove 1 2 3\nhate -1 -2 -3.5\n")
    vectors = Vectors(path)
    assert (vectors.dim, vectors.names) == (3, ["love", "hate"])
    made, there = vectors.of(["hate", "tea"])
    assert made.tolist() == [[-1, -2, -3.5], [0, 0, 0]]
    assert there.tolist() == [True, False]
    model = BoW(4, 2, dim=3)
    assert fill(model, ["[PAD]", "[UNK]", "love", "tea"], vectors) == 1
    row = model.embed.weight.data[2]
    np.testing.assert_allclose(row / row[0], [1, 2, 3], rtol=1e-5)
    with pytest.raises(DataError, match="vectors of none of the 3 tokens"):
        fill(BoW(3, 2, dim=3), ["[PAD]", "[UNK]", "tea"], vectors)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("love 1 2\nhate 1\n", r"some.txt:2.*no word with 2 finite numbers"),
        ("love one two\n", r"some.txt:1.*no word with finite numbers"),
        ("love 1 nan\n", r"some.txt:1.*no word with finite numbers"),
        ("2 3\n", "holds no vectors"),
    ],
)
def test_faults_of_a_file(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "some.txt").write_text(text)
    with pytest.raises(DataError, match=says):
        Vectors(tmp_path / "some.txt")


def test_faults(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.letters says how many"):
        workflow.train(from_dict(recipe(corpus, "FastText")), run=tmp_path / "a")
    with pytest.raises(ConfigError, match=r"set task\.letters=0"):
        workflow.train(from_dict(recipe(corpus, "Word2Vec", 8)), run=tmp_path / "b")
    few = PlainText(corpus, split="train", ratios={"train": 0.01, "val": 0.99})
    assert sum(1 for _ in few) < 60
    tree = recipe(corpus, "Word2Vec")
    for split in ("train", "val"):
        tree["data"][split]["ratios"] = {"train": 0.05, "val": 0.95}
    faults = WordVectors().check(Recipe(from_dict(tree)))
    assert any("words; what vectors of words say of so few is little" in str(each) for each in faults)


def test_letters_may_be_lowered() -> None:
    vocabulary = Vocabulary([*SPECIAL.values(), "a", "b"])
    assert Letters(vocabulary, 3, lower=True).encode(["AB"]).tolist() == [[2, 3, 0]]
    assert Letters(vocabulary, 3).encode(["AB"]).tolist() == [[1, 1, 0]]
