"""How like texts that are right those are that a net has written: BLEU, chrF, ROUGE; and how varied they are.

BLEU and chrF are those of sacrebleu (Post, "A call for clarity in reporting BLEU scores", WMT 2018, arXiv 1804.08771),
to the last digit. A text may have several references.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from pdl.errors import UsageError

Tokens: TypeAlias = Literal["13a", "zh", "char", "none"]
"""Of what BLEU counts n-grams. 13a: words and signs as mteval-v13a splits them; zh: the same, Chinese characters apart;
char: characters; none: what stands between white space."""
References: TypeAlias = Sequence[str] | Sequence[Sequence[str]]
"""For each text the one that is right, or several."""
ORDER = 4
CHARACTERS, BETA = 6, 2

_SIGNS = re.compile(r"([!-&(-+:-@\[-`{-~/])")  # ASCII signs but , - . and '
_POINT_BEHIND = re.compile(r"([^0-9])([.,])")
_POINT_BEFORE = re.compile(r"([.,])([^0-9])")
_DASH = re.compile(r"([0-9])(-)")
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
# What `zh` takes for Chinese. Sacrebleu writes the supplementary ideographs with four digits, by which everything from
# U+2001 to U+2A6D, quotation marks and dashes among it, stands apart and they do not; comparable numbers need this.
_CHINESE = re.compile(
    "([\u3400-\u4db5\u4e00-\u9fbb\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\u2001-\u2a6d\uff00-\uffef\u2e80-\u2fdf"
    "\u2ff0-\u303f\u3100-\u312f\u31a0-\u31bf\u31c0-\u31ef\ufe10-\ufe1f\ufe30-\ufe4f\u3200-\u33ff])"
)
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORDS = re.compile(f"[{_HAN}]|[^\\W_{_HAN}]+")


class BLEU(NamedTuple):
    """Corpus BLEU and what it is made of.

    score       0 to 100
    precisions  of n-grams of 1 to 4 tokens, 0 to 100
    brevity     the factor for texts that are too short
    length      tokens written, and tokens of the references (those nearest in length)
    """

    score: float
    precisions: tuple[float, ...]
    brevity: float
    length: tuple[int, int]


def bleu(written: Sequence[str], references: References, *, tokens: Tokens = "13a") -> BLEU:
    """Corpus BLEU (Papineni et al., ACL 2002): 100 b (p1 p2 p3 p4)^(1/4) with p_n the share of n-grams of all texts
    that a reference has, too (each as often as there), and b = exp(1 - r / c), at most 1, for c tokens written and r of
    the references. Where no n-gram of an order is right p_n is 100 / (2^k times their number), k counting such orders
    (method 3 of Chen & Cherry, WMT 2014): sacrebleu's defaults."""
    split = splitter(tokens)
    right, total, length = np.zeros(ORDER, np.int64), np.zeros(ORDER, np.int64), np.zeros(2, np.int64)
    for text, given in _paired(written, references):
        own, others = split(text), [split(each) for each in given]
        length += (len(own), min((len(each) for each in others), key=lambda size: (abs(size - len(own)), size)))
        for n in range(1, ORDER + 1):
            most: Counter[Hashable] = Counter()
            for each in others:
                most |= grams(each, n)
            found = grams(own, n)
            right[n - 1] += (found & most).total()
            total[n - 1] += found.total()
    written_tokens, wanted = length.tolist()
    brevity = 1.0 if written_tokens >= wanted else math.exp(1 - wanted / written_tokens) if written_tokens else 0.0
    precisions, halves = [0.0] * ORDER, 1
    if right.any():
        for n in range(ORDER):
            if not total[n]:
                break
            halves *= 1 if right[n] else 2
            precisions[n] = 100.0 * right[n] / total[n] if right[n] else 100.0 / (halves * total[n])
    score = brevity * math.exp(sum(map(math.log, precisions)) / ORDER) if all(precisions) else 0.0
    return BLEU(float(score), tuple(map(float, precisions)), brevity, (written_tokens, wanted))


def chrf(written: Sequence[str], references: References) -> float:
    """chrF2 of a corpus (Popović, WMT 2015): F with beta 2 of the mean precision and recall of n-grams of 1 to 6
    characters, white space left out, 0 to 100. Of several references the one that gives a text the highest F."""
    counts = np.zeros((CHARACTERS, 3), np.int64)
    for text, given in _paired(written, references):
        found = [_characters(text, other) for other in given]
        counts += found[int(np.argmax([_f(each) for each in found]))]
    return _f(counts)


def rouge(
    written: Sequence[str], references: References, *, split: Callable[[str], Sequence[Hashable]] | None = None
) -> dict[str, float]:
    """The mean over texts of the F1 of ROUGE-1, ROUGE-2 and ROUGE-L (Lin, ACL workshop 2004), 0 to 1: of tokens, of
    pairs of them, and of the longest common subsequence; of several references the best for each. As rouge-score has
    it without stemming, with one sequence for a text.

    split   the tokens of a text: by default words of letters and digits, lowered, Chinese characters each by itself
    """
    split = words if split is None else split
    made = np.zeros((len(written), 3))
    for row, (text, given) in enumerate(_paired(written, references)):
        own, others = split(text), [split(each) for each in given]
        made[row, 0] = max(_overlap(own, each, 1) for each in others)
        made[row, 1] = max(_overlap(own, each, 2) for each in others)
        made[row, 2] = max(f1(common(own, each), len(own), len(each)) for each in others)
    means = made.mean(axis=0).tolist() if len(made) else [math.nan] * 3
    return dict(zip(("rouge1", "rouge2", "rougeL"), means, strict=True))


def distinct(written: Sequence[str], n: int, *, split: Callable[[str], Sequence[Hashable]] | None = None) -> float:
    """distinct-n (Li et al., arXiv 1510.03055): different n-grams of all texts together over all that they have; NaN
    where they have none. `split` as of `rouge`."""
    split = words if split is None else split
    counts: Counter[Hashable] = Counter()
    for text in written:
        counts.update(grams(split(text), n))
    return len(counts) / counts.total() if counts else math.nan


# -- tokens ------------------------------------------------------------------------------------------------------------
def splitter(tokens: Tokens) -> Callable[[str], list[str]]:
    """What splits a text into tokens; UsageError for a kind that there is not."""
    found: dict[str, Callable[[str], list[str]]] = {
        "13a": _mteval, "zh": _chinese, "char": lambda text: list("".join(text.split())), "none": str.split,
    }  # fmt: skip
    if tokens not in found:
        raise UsageError(f"tokens={tokens!r:.40} must be one of {', '.join(found)}")
    return found[tokens]


def words(text: str) -> list[str]:
    """Words of letters and digits, lowered; Chinese characters each by itself."""
    return _WORDS.findall(text.lower())


def _mteval(text: str) -> list[str]:
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for name, sign in _ENTITIES:
        text = text.replace(name, sign)
    return _signs(f" {text} ")


def _chinese(text: str) -> list[str]:
    return _signs(_CHINESE.sub(r" \1 ", text.strip()))


def _signs(text: str) -> list[str]:
    text = _SIGNS.sub(r" \1 ", text)
    text = _POINT_BEFORE.sub(r" \1 \2", _POINT_BEHIND.sub(r"\1 \2 ", text))
    return _DASH.sub(r"\1 \2 ", text).split()


def grams(tokens: Sequence[Hashable], n: int) -> Counter[Hashable]:
    """How often each run of n tokens is there."""
    return Counter(tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1))


# -- counts ------------------------------------------------------------------------------------------------------------
def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence."""
    numbers: dict[Hashable, int] = {}
    other = np.array([numbers.setdefault(token, len(numbers)) for token in b], np.int64)
    best = np.zeros(len(b) + 1, np.int64)
    for token in a:
        longer = np.where(other == numbers.get(token, -1), best[:-1] + 1, 0)
        best[1:] = np.maximum.accumulate(np.maximum(best[1:], longer))
    return int(best[-1])


def f1(right: int, found: int, wanted: int) -> float:
    """2 P R / (P + R) with P = right / found and R = right / wanted; 0 where nothing is right."""
    return 2 * right / (found + wanted) if right else 0.0


def _overlap(a: Sequence[Hashable], b: Sequence[Hashable], n: int) -> float:
    own, other = grams(a, n), grams(b, n)
    return f1((own & other).total(), own.total(), other.total())


def _characters(text: str, other: str) -> np.ndarray:
    """n-grams of a text (0 where the reference has none of that order), of the reference, and those of both [6, 3]."""
    own, wanted = "".join(text.split()), "".join(other.split())
    made = np.zeros((CHARACTERS, 3), np.int64)
    for n in range(1, CHARACTERS + 1):
        a, b = (Counter(each[at : at + n] for at in range(len(each) - n + 1)) for each in (own, wanted))
        made[n - 1] = a.total() if b else 0, b.total(), (a & b).total()
    return made


def _f(counts: np.ndarray) -> float:
    """100 F of counts [6, 3], over the orders that both texts have."""
    kept = counts[(counts[:, :2] > 0).all(axis=1)]
    if not len(kept) or not kept[:, 2].any():
        return 0.0
    precision, recall = (float((kept[:, 2] / kept[:, side]).mean()) for side in (0, 1))
    return 100 * (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)


def _paired(written: Sequence[str], references: References) -> list[tuple[str, Sequence[str]]]:
    """Each text with its references; UsageError where there are not as many, or none for one."""
    if len(written) != len(references):
        raise UsageError(f"{len(written):,} texts, {len(references):,} references; give as many")
    made = [(text, [each] if isinstance(each, str) else each) for text, each in zip(written, references, strict=True)]
    if not all(given for _, given in made):
        raise UsageError("a text has no reference; leave it out")
    return made
