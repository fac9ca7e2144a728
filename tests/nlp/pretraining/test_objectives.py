"""Objectives beside masks: labels by hand, that a small net learns each, and stages that go on where they were."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import pdl
from pdl import workflow
from pdl.config import from_dict
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, DataError, UsageError
from pdl_nlp import MaskedLanguageModel
from pdl_nlp.data import DialogueFile, PlainText, TextFile, WithPairs, standin
from pdl_nlp.models import BERTForPretraining
from pdl_nlp.pretraining.documents import documents, sentences
from pdl_nlp.pretraining.loader import Packing
from pdl_nlp.pretraining.masking import LEVELS, Masking
from pdl_nlp.pretraining.objectives import (
    Capitals,
    Distance,
    Objective,
    Relation,
    Relevance,
    Reordering,
    Response,
    endless,
)
from pdl_nlp.pretraining.schedule import Measured, Scheduled, Stage, stages_of, turns
from pdl_nlp.tokenizers import BERT, BERT_PAIR, BERT_SINGLE, Words

WORDS = [f"{c}{n}" for c in "abcdefgh" for n in range(10)]
TOKENS = [*BERT.values(), ".", "?", *WORDS]


def packing(length: int = 24, tokens: list[str] | None = None, **settings: Any) -> Packing:
    words = Words(tokens or TOKENS, special=BERT, single=BERT_SINGLE, pair=BERT_PAIR, lower=True, **settings)
    return Packing(words, length)


def corpus(path: Path, count: int, sentences: int = 8) -> Path:
    """Documents of `sentences` sentences `LETTER0 LETTER1 .`: sentence i of document d has the words di and dj."""
    lines = []
    for number in range(count):
        letter = "abcdefgh"[number % 8]
        lines += [*(f"{letter}{i} {letter}{(i * 3 + number) % 10} ." for i in range(sentences)), ""]
    return standin.write(path, lines)


def made(objective: Objective, data: Any, seed: int = 0) -> list[dict[str, Any]]:
    return list(endless(objective, data, seed, passes=1))


def shown(objective: Objective, sample: dict[str, Any]) -> list[str]:
    """The pieces of a sequence."""
    text = [objective.tokenizer.tokens[i] for i in sample["tokens"]]
    assert text[0] == "[CLS]"
    pieces = " ".join(text[1:]).replace(" [PAD]", "").split(" [SEP]")
    assert pieces[-1] == ""
    return [piece.strip() for piece in pieces[:-1]]


def test_sentences_by_hand() -> None:
    text = '他说：“好！”我走了。\nA test. "Really?" Yes... 3.5 m'  # noqa: RUF001
    begins = sentences(text)
    assert [text[a:b].strip() for a, b in zip(begins, [*begins[1:], None], strict=True)] == [
        "他说：“好！”",  # noqa: RUF001
        "我走了。",
        "",
        "A test.",
        '"Really?"',
        "Yes...",
        "3.5 m",
    ]


def test_documents_know_sentences_roles_and_case(tmp_path: Path) -> None:
    path = standin.write(tmp_path / "a.txt", ["A0 a1 . b0", "B1 ? 7", "", "...", ""])
    first, second = documents(PlainText(path, documents=True), packing())
    assert first.bounds.tolist() == [0, 3, 4, 6, 7]
    assert first.cased.tolist() == [1, 0, -1, 0, 1, -1, -1]
    assert len(second) == 1
    path = standin.write(tmp_path / "d.txt", ["a0 a1 . a2 __eou__ a3 __eou__ a4 __eou__"])
    (dialogue,) = documents(DialogueFile(path), packing())
    assert dialogue.roles is not None
    assert (dialogue.bounds.tolist(), dialogue.roles.tolist()) == ([0, 4, 5, 6], [0, 1, 0])


def test_the_order_of_segments_is_the_class(tmp_path: Path) -> None:
    data = PlainText(corpus(tmp_path / "a.txt", 60), documents=True)
    objective = Reordering(packing(32))
    assert objective.classes == 1 + 2 + 6
    seen = Counter[int]()
    for sample in made(objective, data):
        label = int(sample["reordering"])
        seen[label] += 1
        segments = [[int(s.split()[0][1]) for s in piece.split(" .")[:-1]] for piece in shown(objective, sample)]
        assert "segments" not in sample
        n = len(segments)
        assert label in ([0], range(1, 3), range(3, 9))[n - 1]
        order = list(permutations(range(n)))[label - (0, 1, 3)[n - 1]]
        rank = sorted(range(n), key=lambda i: segments[i][0])  # place of segment 0, 1, ...
        assert [order[place] for place in rank] == list(range(n))
        flat = [number for at in rank for number in segments[at]]
        assert flat == list(range(flat[0], flat[0] + len(flat))), "together they are the passage"
    assert len(seen) == 9
    assert seen[0] == pytest.approx(sum(seen.values()) / 3, rel=0.3)


def test_distances_by_hand(tmp_path: Path) -> None:
    objective = Distance(packing(16))
    seen = Counter[int]()
    for sample in made(objective, PlainText(corpus(tmp_path / "a.txt", 40), documents=True)):
        label, (first, second) = int(sample["distance"]), shown(objective, sample)
        seen[label] += 1
        gap = int(second[1]) - int(first[1])
        assert label == 2 or first[0] == second[0]
        assert label != 0 or gap == 1
        assert label != 1 or abs(gap) > 1
        assert sample["segments"].tolist() == [0] * 5 + [1] * 4 + [0] * 7
    assert min(seen.values()) > 0.25 * sum(seen.values())


def test_relation_and_capitals_by_hand(tmp_path: Path) -> None:
    data = PlainText(standin.write(tmp_path / "a.txt", ["A0 b1 b2 a0", "c1 b1 ?", "", "a0 a0", ""]), documents=True)
    relation = Relation(packing(6))
    first, second = made(relation, data)  # the other document has no rest
    assert [shown(relation, each) for each in (first, second)] == [["a0 b1 b2 a0"], ["c1 b1 ?"]]
    assert first["relation"].tolist() == [-1, 0, 1, 0, 0, -1]
    assert second["relation"].tolist() == [-1, 0, 1, 0, -1, -1]
    capitals = Capitals(packing(6))
    assert [each["capitals"].tolist() for each in made(capitals, data)] == [
        [-1, 1, 0, 0, 0, -1], [-1, 0, 0, -1, -1, -1], [-1, 0, 0, -1, -1, -1],
    ]  # fmt: skip
    with pytest.raises(ConfigError, match="capitals are known where tokens are not lowered"):
        Capitals(Packing(Words(TOKENS, special=BERT), 6))
    with pytest.raises(DataError, match="no sample for distance, which needs several documents, of three sentences"):
        made(Distance(packing()), data)


def test_pairs_with_classes(tmp_path: Path) -> None:
    table = standin.write(tmp_path / "a.tsv", ["text\tpair\tlabel", "a0 a1\ta2\t2", "b0 b1 b2 b3\tb4 b5 b6\t0"])
    pairs = TextFile(table, pair="pair")
    texts = PlainText(corpus(tmp_path / "t.txt", 2), documents=True)
    objective = Relevance(packing(8), 2)
    for data in (pairs, WithPairs(texts, pairs)):
        first, second = made(objective, data)
        assert (shown(objective, first), int(first["relevance"])) == (["a0 a1", "a2"], 1)
        assert (shown(objective, second), int(second["relevance"])) == (["b0 b1", "b4 b5 b6"], 0)
    with pytest.raises(ConfigError, match="relevance needs pairs with classes"):
        made(objective, texts)
    assert [each["text"] for each in WithPairs(texts, pairs)] == [each["text"] for each in texts]


def test_responses_by_hand(tmp_path: Path) -> None:
    rows = []
    for number in range(40):
        letter = "abcdefgh"[number % 8]
        said = [{"text": f"{letter}{i}", "role": ("x", "y", "x", "z")[i % 4]} for i in range(2 + number % 6)]
        rows.append(json.dumps({"turns": said}))
    data = DialogueFile(standin.write(tmp_path / "d.jsonl", rows))
    objective = Response(packing(8))
    seen = Counter[int]()
    for sample in made(objective, data):
        found, label = shown(objective, sample), int(sample["response"])
        seen[label] += 1
        end = max(int(turn[1]) for turn in found if turn[0] == found[0][0]) if label else None
        if label:
            assert len({turn[0] for turn in found}) == 1
            numbers = [int(turn[1]) for turn in found]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            roles = sample["segments"][1 : 1 + 2 * len(found) : 2].tolist()
            assert roles == [(0, 1, 0, 2)[n % 4] for n in numbers]
            assert len(found) == min(3, int(end or 0) + 1)
        else:
            letters = [turn[0] for turn in found]
            assert len(found) < 3 or letters[0] in letters[1:], "of the last two one is of another dialogue"
    assert min(seen.values()) > 0.3 * sum(seen.values())
    with pytest.raises(ConfigError, match="response needs dialogues"):
        made(objective, PlainText(corpus(tmp_path / "t.txt", 2), documents=True))


def test_dialogues_are_read_in_both_forms(tmp_path: Path) -> None:
    plain = standin.write(tmp_path / "d.txt.xz", ["Hi . __eou__ Hello ! __eou__", "", "So ? __eou__ Yes . __eou__"])
    lines = [json.dumps({"turns": ["Hi .", "Hello !"]}), json.dumps({"turns": ["So ?", "Yes ."]})]
    both = [list(DialogueFile(path)) for path in (plain, standin.write(tmp_path / "d.jsonl", lines))]
    assert both[0] == both[1]
    assert both[0][0] == {"turns": ["Hi .", "Hello !"], "roles": [0, 1], "text": "Hi .\nHello !", "begins": [0, 5]}
    ratios = {"train": 0.5, "val": 0.5}
    parts = [list(DialogueFile(plain, ratios=ratios, split=split, seed=3)) for split in ratios]
    assert sum(map(len, parts)) == 2
    for text, message in (("Hi there", "no turns, or an empty one"), ("a __eou__ __eou__", "an empty one")):
        with pytest.raises(DataError, match=rf"a\.txt:1: {message}|{message}"):
            list(DialogueFile(standin.write(tmp_path / "a.txt", [text])))
    with pytest.raises(DataError, match=r"turn 1 is .* not a text with who says it"):
        list(DialogueFile(standin.write(tmp_path / "b.jsonl", ['{"turns": [{"text": "x"}]}'])))


def test_stages() -> None:
    assert stages_of(None, ("masking", "distance"), 11) == (
        Stage(6, {"masking": 1}),
        Stage(5, {"masking": 1, "distance": 1}),
    )
    given = [{"steps": 2, "weights": {"masking": 1}}, {"steps": 4, "weights": {"masking": 1, "distance": 3}}]
    stages = stages_of(given, ("masking", "distance"), None)
    order = [f"{stage}{name[0]}" for stage, name in islice(turns(stages, accumulate=2), 24)]
    assert order[:4] == ["0m"] * 4
    assert Counter(order[4:]) == {"1d": 15, "1m": 5}, "the last stage goes on, by its weights"
    assert all(order[at : at + 4].count("1m") == 1 for at in range(4, 24, 4))
    for wrong, message in (
        ([{"steps": 2}], r"stages\[0\]: expected"),
        ([{"steps": 2, "weights": {"capitals": 1}}], r"'capitals' is none of task.objectives"),
        ([{"steps": 0, "weights": {"masking": 1}}], "steps must be at least 1"),
        ([], "there is none"),
    ):
        with pytest.raises(ConfigError, match=message):
            stages_of(wrong, ("masking", "distance"), 5)
    with pytest.raises(ConfigError, match=r"give train\.max_steps"):
        stages_of(None, ("masking",), None)


def scheduled(path: Path, seed: int = 0, first: float = 1.0) -> Scheduled:
    own = packing()
    data = PlainText(path, documents=True, buffer=4)
    asked = {"reordering": Reordering(own), "relation": Relation(own)}
    masks = Masking("token", 0.15, 4, own.tokenizer.mask or 0, np.arange(len(TOKENS)) >= 5, LEVELS)
    stages = [Stage(3, {"reordering": first}), Stage(9, {"reordering": first, "relation": 1.0})]
    return Scheduled(data, asked, masks, stages, size=3, epoch_steps=5, seed=seed)


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_schedule_goes_on_where_it_was(tmp_path: Path) -> None:
    path = corpus(tmp_path / "a.txt", 20)
    whole = scheduled(path)
    batches, states = [], []
    for epoch in range(4):
        whole.set_epoch(epoch)
        for batch in whole:
            batches.append(batch)
            states.append(whole.state_dict())
    assert len(batches) == 20
    assert [state["stage"] for state in states[:5]] == [0, 0, 0, 1, 1]
    for done in (1, 5, 7, 13):
        other = scheduled(path)
        other.load_state_dict(states[done - 1])
        rest = []
        for epoch in range(done // 5, 4):
            other.set_epoch(epoch)
            rest += list(other)
        assert len(rest) == 20 - done
        assert all(same(*pair) for pair in zip(rest, batches[done:], strict=True))
    relation = next(batch for batch in batches if "relation" in batch)
    hidden = np.zeros_like(relation["tokens"], bool)
    np.put_along_axis(hidden, relation["positions"], True, axis=1)
    changed = hidden & (relation["tokens"] == whole.masks.mask)
    assert (relation["relation"][changed] == -1).all(), "of a masked token nothing else is to be found"
    with pytest.raises(UsageError, match="begun with another schedule"):
        scheduled(path, first=2.0).load_state_dict(states[3])


def test_evaluation_has_every_objective_once(tmp_path: Path) -> None:
    made_of = scheduled(corpus(tmp_path / "a.txt", 5))
    measured = Measured(made_of.dataset, made_of.objectives, made_of.masks, size=4)
    first, second = (list(measured) for _ in range(2))
    assert all(same(*pair) for pair in zip(first, second, strict=True))
    names = [next(name for name in made_of.objectives if name in batch) for batch in first]
    assert list(dict.fromkeys(names)) == ["reordering", "relation"]


def recipe(folder: Path, data: dict[str, Any], *objectives: str, **changes: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "task": {
            "_target_": "pdl_nlp.MaskedLanguageModel",
            "tokenizer": "words",
            "max_length": 32,
            "objectives": list(objectives),
            "epoch_steps": 100,
        },
        "model": {"_target_": "pdl_nlp.BERTForPretraining", "dim": 32, "layers": 2, "heads": 2, "hidden": 64,
                  "dropout": 0.0, "max_length": 32},
        "data": {"train": data, "val": data, "batch_size": 32, "eval_batch_size": 64},
        "optim": {"_target_": "pdl.optim.AdamW", "lr": 0.003},
        "train": {"epochs": 100, "max_steps": 300, "export": False},
    }  # fmt: skip
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


EXPECTED = {
    "reordering": 0.5, "distance": 0.45, "relation": 0.9, "capitals": 0.95, "relevance": 0.9, "response": 0.65,
}  # fmt: skip


#: a label of texts and one of tokens; the others differ in what their labels are, which is held to examples above
QUICK = ("distance", "capitals")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EXPECTED]
)
def test_a_small_net_learns_each(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def words(letter: str) -> str:
        return " ".join(f"{letter}{n}" for n in rng.integers(0, 10, 3))

    data: dict[str, Any]
    if name == "response":
        # the one says words with a, the other with b: a turn of another dialogue is often of the wrong one
        lines = ["".join(f"{words('ab'[i % 2])} __eou__ " for i in range(6)) for _ in range(200)]
        data = {"_target_": "pdl_nlp.data.DialogueFile", "path": str(standin.write(tmp_path / "d.txt", lines))}
    elif name == "relevance":
        rows = [f"{words('a')}\t{words('bc'[n % 2])}\t{n % 2}" for n in range(300)]
        path = standin.write(tmp_path / "p.tsv", ["text\tpair\tlabel", *rows])
        data = {"_target_": "pdl_nlp.data.TextFile", "path": str(path), "pair": "pair"}
    else:
        lines = []
        for n in range(200):
            # words with 0 to 4 are in all sentences; those with 5 and more in one, and are written large
            common, rare = "ab"[n % 2], [f"{c}{i}".upper() for c in "abcdefgh" for i in range(5, 10)]
            own = rng.permutation(rare)[:12]
            lines += [*(f"h{i} {common}0 {common}1 {own[i]} ." for i in range(12)), ""]
        path = standin.write(tmp_path / "t.txt", lines)
        data = {"_target_": "pdl_nlp.data.PlainText", "path": str(path), "documents": True}
    steps = 200 if name in ("relation", "capitals") else 400
    settings = {"optim__lr": 0.003, "train__max_steps": steps, "train__test_weights": "last"}
    workflow.train(from_dict(recipe(tmp_path, data, name, **settings)), run=tmp_path / "run")
    result = json.loads((tmp_path / "run/result.json").read_text())
    chance = result["baselines"]["most frequent class"][f"val/{name}_accuracy"]
    found = result["metrics"][f"val/{name}_accuracy"]
    assert chance < EXPECTED[name] - 0.1
    assert found > EXPECTED[name]


def test_stages_resumed_in_the_middle_are_the_same(tmp_path: Path) -> None:
    path = corpus(tmp_path / "a.txt", 30)
    data = {"_target_": "pdl_nlp.data.PlainText", "path": str(path), "documents": True, "buffer": 4}
    stages = [{"steps": 8, "weights": {"masking": 1, "distance": 1}},
              {"steps": 30, "weights": {"masking": 1, "distance": 2, "reordering": 1}}]  # fmt: skip
    settings = {"task__stages": stages, "task__epoch_steps": 10, "data__batch_size": 4,
                "train__max_steps": 25, "train__checkpoint_every": 9, "train__log_every": 1}  # fmt: skip
    tree = recipe(tmp_path, data, "masking", "distance", "reordering", **settings)
    workflow.train(from_dict(tree), run=tmp_path / "whole")

    class Stop(Exception):
        pass

    batches, order = iter(range(100)), list[str]()
    step = MaskedLanguageModel.step

    def stopping(self: MaskedLanguageModel, model: Any, batch: Any) -> Any:
        order.append(self.objective_of(batch) or "masking")
        if next(batches) == 14:
            raise Stop
        return step(self, model, batch)

    tree["train"]["compile"] = False
    workflow.train(from_dict(tree), run=tmp_path / "eager")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MaskedLanguageModel, "step", stopping)
        with pytest.raises(Stop):
            workflow.train(from_dict(tree), run=tmp_path / "cut")
    assert Counter(order[:8]) == {"masking": 4, "distance": 4}
    assert "reordering" in order[8:12]
    workflow.train(from_dict(tree), run=tmp_path / "cut", resume=True)
    a, b = (load_file(tmp_path / name / "checkpoints" / "last.safetensors") for name in ("eager", "cut"))
    assert all(np.array_equal(a[name], b[name]) for name in a if name.startswith("model"))
    lines = [json.loads(line) for line in (tmp_path / "whole/metrics.jsonl").read_text().splitlines()]
    assert {"masking", "distance", "reordering"} <= {name for line in lines for name in line}
    assert b["model/embeddings.tasks.weight"].shape == (3, 32)


def test_each_objective_has_its_task_s_vector() -> None:
    pdl.seed(0)
    net = BERTForPretraining(
        30, dim=16, layers=1, heads=2, dropout=0.0, max_length=8, tasks=3, objectives={"a": 4, "b": 2}, tokenwise=["b"]
    ).eval()
    tokens, positions = pdl.tensor([[1, 2, 3, 4]]), pdl.tensor([[1, 2]])
    targets = pdl.tensor([[5, -1]])
    with pdl.no_grad():
        (first, a), (second, b) = (net.losses(tokens, positions, targets, None, name) for name in ("a", "b"))
        assert (a.shape, b.shape) == ((1, 4), (1, 4, 2))
        np.testing.assert_array_equal(a.numpy(), net.logits(tokens, None, "a").numpy())
        assert float(first.item()) != float(second.item())
        assert net.embeddings.tasks is not None
        net.embeddings.tasks.weight.data[:2] = net.embeddings.tasks.weight.data[2]
        expected = pdl.cross_entropy(net(tokens, positions), targets, ignore_index=-1)
    assert float(second.item()) == pytest.approx(float(expected.item()), rel=1e-5)


def test_faults(tmp_path: Path) -> None:
    data = {"_target_": "pdl_nlp.data.PlainText", "path": str(corpus(tmp_path / "a.txt", 4)), "documents": True}
    with pytest.raises(ConfigError, match="segments=0"):
        workflow.train(from_dict(recipe(tmp_path, data, "distance", model__segments=0)), run=tmp_path / "a")
    with pytest.raises(ConfigError, match=r"task\.objectives names those"):
        MaskedLanguageModel(stages=[{"steps": 1, "weights": {"masking": 1}}])
    with pytest.raises(ConfigError, match="leave teacher or these out"):
        MaskedLanguageModel(objectives=["masking"], teacher="x")
    assert SampleRandom(0, 0, 0).fork("a").bits() != SampleRandom(0, 0, 0).fork("b").bits()
