"""BLEU, chrF and ROUGE against what sacrebleu 2.6.0 and rouge-score 0.1.2 give, and against themselves where these are
installed."""

from __future__ import annotations

import math
import random

import pytest

from pdl.errors import UsageError
from pdl_nlp.written import bleu, chrf, common, distinct, rouge, splitter, words

ENGLISH = (
    ["A man in an orange hat stares at something .", 'The 3-year-old paid $1,000.50 (cash) -- "wow" &amp; left.',
     "It's 5-6 o'clock, isn't it?"],
    [["A man in an orange hat starring at something.", "A man wearing an orange hat is staring at something."],
     ['The 3-year-old paid $1,000.50 in cash & left; "wow".', "A 3-year-old left."],
     ["It is 5 or 6 o'clock, is it not?", "It's five or six o'clock, isn't it?"]],
)  # fmt: skip
CHINESE = (
    ["我昨天去了北京的school。", "“你好”——他说…", "今天天气很好,3.5度"],
    [["我昨天去北京的學校了。", "昨天我去了北京的school。"], ["“你好”, 他说。", "他说:“你好”"],
     ["今天天气不错,3.5度。", "天气很好,今天3.5度"]],
)  # fmt: skip


def first(texts):
    return [each[0] for each in texts]


@pytest.mark.parametrize(
    ("texts", "tokens", "one", "several"),
    [
        (ENGLISH, "13a", 44.93640724622653, 55.61656609135857),
        (CHINESE, "zh", 38.4690438380301, 70.15436331172018),
        (CHINESE, "char", 38.83094547052999, 78.17453851191418),
    ],
)
def test_bleu(texts, tokens, one, several):
    written, references = texts
    assert bleu(written, first(references), tokens=tokens).score == pytest.approx(one, abs=1e-9)
    assert bleu(written, references, tokens=tokens).score == pytest.approx(several, abs=1e-9)


def test_bleu_of_short_and_wrong_texts():
    assert bleu(["a b c d"], ["a c b d e"]).score == pytest.approx(
        17.593148699905946, abs=1e-9
    )  # smoothed orders 2 to 4
    assert [bleu([a], [b]).score for a, b in (("", "a"), ("x y", "a b"), ("the cat sat", "the cat sat"))] == [0, 0, 0]
    found = bleu(ENGLISH[0], first(ENGLISH[1]))
    assert found.length == (36, 37)
    assert found.brevity == pytest.approx(math.exp(1 - 37 / 36))
    assert found.precisions == pytest.approx((80.55555555555556, 54.54545454545455, 40, 25.925925925925927))


def test_chrf():
    assert chrf(ENGLISH[0], first(ENGLISH[1])) == pytest.approx(69.5270935077524, abs=1e-9)
    assert chrf(*ENGLISH) == pytest.approx(71.14653655921414, abs=1e-9)
    assert chrf(*CHINESE) == pytest.approx(61.698551467624355, abs=1e-9)
    assert [chrf([a], [b]) for a, b in (("a b c d", "a c b d e"), ("", "a"), ("the cat", "the cat"))] == pytest.approx(
        [20.833333333333336, 0, 100]
    )


def test_rouge():
    found = rouge(ENGLISH[0], first(ENGLISH[1]))
    assert found == pytest.approx(
        {"rouge1": 0.8123781676413255, "rouge2": 0.5405525846702317, "rougeL": 0.7846003898635479}
    )
    assert rouge(["我 们"], ["我们去"], split=list)["rougeL"] == pytest.approx(2 * 2 / 6)


def test_longest_common_subsequence():
    rng = random.Random(0)

    def slow(a, b):
        row = [0] * (len(b) + 1)
        for x in a:
            before = 0
            for at, y in enumerate(b, 1):
                before, row[at] = row[at], before + 1 if x == y else max(row[at], row[at - 1])
        return row[-1]

    for _ in range(50):
        a, b = ([rng.choice("abcd") for _ in range(rng.randrange(9))] for _ in range(2))
        assert common(a, b) == slow(a, b)


def test_distinct():
    assert distinct(["a b a b", "b a"], 1) == pytest.approx(2 / 6)
    assert distinct(["a b a b", "b a"], 2) == pytest.approx(2 / 4)
    assert math.isnan(distinct([""], 1))


def test_tokens():
    assert words("I 我们 don't go_to2 東京!") == ["i", "我", "们", "don", "t", "go", "to2", "東", "京"]
    assert splitter("13a")("3.5-4, a.b it's 1990-91") == [
        "3.5",
        "-",
        "4",
        ",",
        "a",
        ".",
        "b",
        "it's",
        "1990",
        "-",
        "91",
    ]
    with pytest.raises(UsageError, match="13a, zh, char, none"):
        splitter("intl")


def test_counts_must_agree():
    with pytest.raises(UsageError, match="1 texts, 2 references"):
        bleu(["a"], ["a", "b"])
    with pytest.raises(UsageError, match="no reference"):
        chrf(["a"], [[]])


def test_as_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    rng = random.Random(0)
    signs = [
        "a",
        "b",
        "c",
        ".",
        ",",
        "'",
        "-",
        "&",
        "<",
        "é",
        "我",
        "们",
        "。",
        "“",
        "1",
        "2.5",
        "\u3000",
        "\U00020001",
    ]
    texts = ["".join(rng.choice([*signs, " ", " "]) for _ in range(rng.randrange(40))) for _ in range(200)]
    others = ["".join(rng.choice([text[at : at + 1], " "]) for at in range(len(text))) for text in texts]
    for tokens in ("13a", "zh", "char"):
        expected = sacrebleu.corpus_bleu(texts, [others], tokenize=tokens)
        assert bleu(texts, others, tokens=tokens).score == pytest.approx(expected.score, abs=1e-9)
    assert chrf(texts, others) == pytest.approx(sacrebleu.corpus_chrf(texts, [others]).score, abs=1e-9)
