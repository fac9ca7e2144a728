"""The whole way of a tagger: training, bundle, answers with positions in the text, report; of slots, parts of speech
and words."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.cli import main
from pdl.config import from_dict, load
from pdl.errors import ConfigError, DataError, UsageError
from pdl.train import Recipe
from pdl_nlp import Tagging
from pdl_nlp.data import TaggedFile, standin
from pdl_nlp.tagging.report import highlighted

KINDS = ("slots", "speech", "segmented")
TAGS = {
    "slots": ["O", "B-THING", "B-GOOD", "B-BAD"],
    "speech": ["x", "THING", "GOOD", "BAD"],
    "segmented": list("xngb"),
}


def recipe(folder: Path, kind: str, **changes: Any) -> dict[str, Any]:
    """A small net on sentences of the grammar; dotted keys change it."""
    form = {"form": "words"} if kind == "segmented" else {}
    for split in ("train", "val", "test"):
        standin.write_tagged(folder, {"path": f"{split}.txt", "classes": TAGS[kind], **form})
    net: dict[str, Any] = {"dim": 16, "hidden": 16, "dropout": 0.0, "letter_dim": 8, "letter_filters": 8}
    grams: dict[str, Any] = {"ngrams": 3, "buckets": 997, "cell": "gru"}
    own: dict[str, dict[str, Any]] = {"slots": {"unknown": 0.1}, "speech": {"crf": False}, "segmented": grams}
    net |= own[kind]
    words = {"segment": True, "tokenizer": "characters", "entities": ["n"]} if kind == "segmented" else {"letters": 6}
    words["scores"] = kind == "slots"
    tree: dict[str, Any] = {
        "task": {"_target_": "pdl_nlp.Tagging", "mistakes": 3, **words},
        "model": {"_target_": "pdl_nlp.RNNTagger", **net},
        "data": {
            **{split: {"_target_": "pdl_nlp.data.TaggedFile", "path": str(folder / f"{split}.txt"), **form}
               for split in ("train", "val", "test")},
            "batch_size": 16,
        },
        "optim": {"_target_": "pdl.optim.Adam", "lr": 0.02},
        "train": {"epochs": 3, "monitor": "val/accuracy" if kind == "speech" else "val/f1"},
    }  # fmt: skip
    for key, value in changes.items():
        part, _, name = key.partition("__")
        tree[part][name] = value
    return tree


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    workflow.train(from_dict(recipe(folder, request.param)), run=folder / "run")
    return folder / "run"


def kind_of(run: Path) -> str:
    return next(kind for kind in KINDS if run.parent.name.startswith(kind))


def test_it_learns_and_is_compared(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    kind, metrics = kind_of(run), result["metrics"]
    name = "test/accuracy" if kind == "speech" else "test/f1"
    assert metrics[name] > 0.9
    baselines = result["baselines"]
    assert set(baselines) == {"majority", "longest match" if kind == "segmented" else "dictionary"}
    assert all(name in each for each in baselines.values())
    if kind == "segmented":
        assert metrics["test/segmentation_f1"] >= metrics["test/f1"]
        assert metrics["test/entities_f1"] > 0.9
        assert baselines["longest match"]["test/segmentation_f1"] > 0.9  # the grammar has few words


def test_a_bundle_answers_raw_texts(run: Path) -> None:
    session, kind = pdl.runtime.load(run / "model.pdl"), kind_of(run)
    text = "thehotelwaslovely." if kind == "segmented" else "  the hotel was\tlovely ."
    spans = session(text)["spans"]
    assert all(text[each["start"] : each["end"]] == each["text"] for each in spans)
    found = [(each["text"], each["tag"]) for each in spans]
    thing, good = ("n", "g") if kind == "segmented" else ("THING", "GOOD")
    named = [("hotel", thing), ("lovely", good)]
    scores = [each["score"] for each in spans if "score" in each]
    assert all(0.5 < score <= 1 for score in scores)
    assert len(scores) == (len(spans) if kind == "slots" else 0)
    assert [each for each in found if each[1] in (thing, good)] == named
    assert (found == named) == (kind == "slots")
    if kind != "slots":
        assert "".join(word for word, _ in found) == "".join(text.split())
    with pytest.raises(DataError, match="has no tokens"):
        session("  ")
    long = " ".join([text.strip()] * 9)
    assert len(session(long)["spans"]) >= 9 * (len(spans) - 1)


def test_it_begins_with_vectors_of_words(tmp_path: Path) -> None:
    """The table has them, all by one factor, also of a word that training lacks."""
    lines = ["2 3", "hotel 0.5 -1 2", "chalet 1 1 -1"]
    (tmp_path / "words.vec").write_text("\n".join(lines) + "\n")
    tree = recipe(tmp_path, "slots", task__vectors=str(tmp_path / "words.vec"), train__epochs=1, optim__lr=0.0)
    del tree["model"]["dim"]
    workflow.train(from_dict(tree), run=tmp_path / "run")
    names = (tmp_path / "run/vocabularies/tokens.txt").read_text().splitlines()
    weights: Any = workflow.Run.open(tmp_path / "run").opened().model.state_dict()["embed.weight"].data
    words, *numbers = zip(*(line.split() for line in lines[1:]), strict=True)
    ratios = weights[[names.index(word) for word in words]] / np.array(numbers, float).T
    np.testing.assert_allclose(ratios, np.full_like(ratios, ratios[0, 0]), rtol=1e-5)  # one scale for all
    assert ratios[0, 0] > 0
    with pytest.raises(ConfigError, match=r"model\.dim=16, but the vectors of .* have 3"):
        workflow.train(
            from_dict(recipe(tmp_path, "slots", task__vectors=str(tmp_path / "words.vec"))), run=tmp_path / "other"
        )


def test_onnx_gives_what_viterbi_takes(run: Path, tmp_path: Path) -> None:
    """The best of ONNX Runtime's scores are the bundle's tags; without the form the export is refused."""
    onnxruntime = pytest.importorskip("onnxruntime")
    with pytest.raises(UsageError, match="--form emissions"):
        workflow.export(run, tmp_path / "net.onnx", to="onnx")
    workflow.export(run, tmp_path / "net.onnx", to="onnx", form="emissions")
    theirs = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    ours: Any = pdl.runtime.load(run / "model.pdl")
    for text in ("the hotel was lovely .", "dull"):
        sample = ours.pipeline.parse(text.replace(" ", "") if kind_of(run) == "segmented" else text)
        inputs = {name: array[None] for name, array in sample.inputs.items()}
        length = len(sample.memo["tokens"].encoding.offsets)
        (emissions,), moves, starts, ends = theirs.run(["emissions", "transitions", "starts", "ends"], inputs)
        best, back = starts + emissions[0], []
        for row in emissions[1:length]:
            found = best[:, None] + moves
            back.append(found.argmax(axis=0))
            best = found.max(axis=0) + row
        tags = [int((best + ends).argmax())]
        for each in reversed(back):
            tags.append(int(each[tags[-1]]))
        assert tags[::-1] == ours.run(inputs)["tags"][0, :length].tolist()


def test_the_bundle_says_what_the_run_measured(run: Path) -> None:
    before = json.loads((run / "result.json").read_text())["metrics"]
    name = "test/accuracy" if kind_of(run) == "speech" else "test/f1"
    for what in (run, run / "model.pdl"):
        found = workflow.evaluate(what, split="test")
        np.testing.assert_allclose(found.metrics[name], before[name], atol=1e-6)


def test_files_of_texts_and_of_answers(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.txt").write_text("the room was dull .\n\nlovely\n")
    monkeypatch.chdir(tmp_path)
    assert main(["predict", str(run), "in.txt", "--out", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["text"][int(row["start"]) : int(row["end"])] == row["span"] for row in rows)
    assert {row["text"] for row in rows} == {"the room was dull .", "lovely"}
    assert main(["predict", str(run / "model.pdl"), "the room", "--json"]) == 0


def test_the_report_has_confusions_and_mistakes(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "Confusions of tags (test)" in page
    assert ("Spans (test)" in page) == (kind_of(run) != "speech")
    result = json.loads((run / "result.json").read_text())
    assert ("Worst mistakes" in page) == (result["metrics"]["test/accuracy"] < 1)
    shown = highlighted(["a", "<b>", "c"], ["O", "B-X", "O"], ["O", "B-X", "B-X"])
    assert [("rgba" in each) for each in shown] == [False, True, True]
    assert "&lt;b&gt;" in shown[1]
    assert "O (B-X)" in shown[2]


def test_training_decodes_only_what_the_scheme_allows(tmp_path: Path) -> None:
    """Untrained scores would break the scheme everywhere; answers never do."""
    pdl.seed(0)
    tree = recipe(tmp_path, "segmented", train__epochs=1, optim__lr=0.0)
    workflow.train(from_dict(tree), run=tmp_path / "run")
    spans = pdl.runtime.load(tmp_path / "run/model.pdl")("thehotelwaslovely.")["spans"]
    assert "".join(each["text"] for each in spans) == "thehotelwaslovely."


def test_marks_are_put_into_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each tag counts by itself, also where two of a kind follow one another."""
    tree = recipe(
        tmp_path, "slots", task__scores=False, task__marks={"BAD": "!", "THING": ","}, task__tokenizer="space"
    )
    for split in ("train", "val", "test"):
        standin.write_tagged(tmp_path, {"path": f"{split}.txt", "classes": ["O", "THING", "GOOD", "BAD"]})
    workflow.train(from_dict(tree), run=tmp_path / "run")
    session = pdl.runtime.load(tmp_path / "run/model.pdl")
    assert session(" the  hotel was dull \n") == {"marked": " the  hotel, was dull! \n"}
    assert main(["predict", str(tmp_path / "run"), "the room was rude", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["marked"] == "the room, was rude!"
    tags = Tagging(marks={"A": ","}, classes=["O", "A"]).tags
    assert tags.spans(np.array([1, 1, 0, 1])).tolist() == [[0, 1, 0], [1, 2, 0], [3, 4, 0]]
    with pytest.raises(ConfigError, match=r"task\.scores: marks are written"):
        Tagging(marks={"A": ","}, scores=True)
    with pytest.raises(ConfigError, match=r"task\.marks: COMMA: no spans of this kind"):
        _ = Tagging(marks={"COMMA": ","}, classes=["O", "A"]).tags


FAULTY = """Ada B-PER
is I-PER
here I-LOC

Ada B-PER
was O

Rome B-LOC
"""


def test_check_finds_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = recipe(tmp_path, "slots")
    text = (tmp_path / "train.txt").read_text()
    (tmp_path / "test.txt").write_text(FAULTY + "\n" + text.partition("\n\n")[0] + "\n")
    faults = Tagging(letters=6).check(Recipe(from_dict(tree)))
    said = "\n".join(f"{each.split}: {each.what} {each.line}" for each in faults)
    assert "test: I-LOC at word 3 ('here'), between I-PER and the end, is no BIO 1" in said
    assert "tags that training does not have: B-LOC, B-PER, I-LOC, I-PER (5 words)" in said
    assert "1 of 4 sentences are in train, too" in said
    assert "of the tokens are unknown" in said
    assert not [each for each in faults if each.split in ("train", "val") and "sentences are in train" not in each.what]


@pytest.mark.parametrize("name", ["columns", "words", "lines", "folder", "CoNLL-U", "chinese"])
def test_init_writes_a_recipe_that_is_accepted(name: str, tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    if name in ("columns", "words"):
        standin.write_tagged(tmp_path, {"path": "data.txt", "form": name})
    elif name == "CoNLL-U":
        rest = "_\t_\t0\troot\t_\t_"
        rows = [f"# text\n1\ta{i}\ta\tNOUN\t{rest}\n2\tb\tb\tVERB\t{rest}\n\n" for i in range(60)]
        data.write_text("".join(rows))
    elif name == "chinese":
        data.write_text("".join(f"中国{chr(0x4E00 + i)}/ns 人民/n\n" for i in range(60)))
    elif name == "lines":
        for split in ("train", "valid", "test"):
            words, tags = standin.write_tagged(tmp_path, {"path": f"{split}.in", "form": "lines"})
            (tmp_path / "data.txt" / split).mkdir(parents=True)
            words.rename(tmp_path / "data.txt" / split / "seq.in")
            assert tags is not None
            tags.rename(tmp_path / "data.txt" / split / "seq.out")
    else:
        for split in ("train", "dev", "test"):
            standin.write_tagged(data, {"path": f"{split}.conll"})
    assert main(["init", "nlp.tagging", "--data", str(data), "--out", str(tmp_path / "made.yaml")]) == 0
    made = load(tmp_path / "made.yaml")
    found = Recipe(made)
    assert set(found.data.splits) == {"train", "val", "test"}
    task = made["task"]
    assert task.get("segment", False) == (name == "chinese")
    assert made["model"].get("crf", True) == (name != "CoNLL-U")
    assert task["tokenizer"] == {"chinese": "characters", "lines": "space", "words": "space"}.get(name, "words")


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="segment=true finds words in characters"):
        Tagging(segment=True)
    for change, says in (
        ({"task__entities": ["CITY"]}, "entities: CITY: no spans of this kind"),
        ({"model__num_classes": 9}, "num_classes=9, but the data has 4"),
        ({"model__letters": 0}, "letters=0, but the data has"),
        ({"model": {"_target_": "pdl_nlp.TextCNN"}}, "TextCNN is no pdl_nlp.TaggingModel"),
    ):
        tree = recipe(tmp_path, "slots", **{k: v for k, v in change.items() if "__" in k})
        tree |= {k: v for k, v in change.items() if "__" not in k}
        with pytest.raises(ConfigError, match=says):
            workflow.train(from_dict(tree), run=tmp_path / "run")


def test_two_files_of_lines_and_parts_in_order(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a b\nc\n\nd e\nf\n")
    (tmp_path / "out").write_text("X Y\nX\n\nY Y\nX\n")
    data = TaggedFile(tmp_path / "in", form="lines", tags=tmp_path / "out")
    assert data.tokens == [["a", "b"], ["c"], ["d", "e"], ["f"]]
    assert data.names[2] == ["Y", "Y"]
    assert data.line_of(2) == 4
    parts = [TaggedFile(tmp_path / "in", form="lines", tags=tmp_path / "out", between=part)
             for part in ((0, 0.5), (0.5, 1))]  # fmt: skip
    assert [len(each) for each in parts] == [2, 2]
    assert parts[1].tokens == data.tokens[2:]
    assert parts[0].classes == ["X", "Y"]
    (tmp_path / "out").write_text("X Y\nX Y\n")
    with pytest.raises(DataError, match=r"in:2: 1 words, but 2 tags in out"):
        TaggedFile(tmp_path / "in", form="lines", tags=tmp_path / "out")
    with pytest.raises(ConfigError, match="form=lines reads the tags"):
        TaggedFile(tmp_path / "in", form="lines")
    with pytest.raises(ConfigError, match="two ascending shares"):
        TaggedFile(tmp_path / "in", tags=None, between=(1, 0))
