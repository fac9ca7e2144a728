"""The task: dictionaries, lines that cannot be learned, batches, and what `pdl check` and `pdl init` make of data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import pdl
from pdl import workflow
from pdl.config.compose import load
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, DataError
from pdl.hub.states import read_state
from pdl.runtime import load as opened
from pdl.train import Recipe
from pdl.train.assembly import assemble
from pdl.workflow.new_recipe import init
from pdl_ocr.data.standin import drawn, write_list
from pdl_ocr.models import CRNN
from pdl_ocr.recognition import TextRecognition
from pdl_ocr.recognition.loader import SameWidth
from pdl_ocr.recognition.transfer import characters_of, keep_characters


def recipe(folder: Path, *overrides: str) -> Any:
    return load("ocr/text_lines", [f"data.train.path={write_list(folder, 'train')}", *overrides])


def test_dictionaries(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("a\nb\n \n日\n", encoding="utf-8")
    task = TextRecognition(dictionary=str(file))
    assert task.characters == "ab 日"
    assert task.encode("b日x").tolist() == [2, 4]
    assert task.decode(np.eye(5)[[[2, 2, 0, 2, 4, 1]]]) == ["bb日a"]
    assert TextRecognition(dictionary="greek", lower=True).clean("ΩA") == "ωa"
    assert TextRecognition(dictionary="greek", space=False).characters[-1] != " "
    file.write_text("\uf92c\n\u90ce\n\u212b\n", encoding="utf-8")  # two ways to write one character, and \u00c5
    task = TextRecognition(dictionary=str(file))
    assert task.characters == "\uf92c\u90ce\u00c5 " == TextRecognition(characters=task.characters).characters
    assert task.encode(task.clean("\uf92c\u212b")).tolist() == [2, 3]
    file.write_text("a\nbc\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"keys\.txt:2 is 'bc'; expected one character a line"):
        TextRecognition(dictionary=str(file))
    with pytest.raises(ConfigError, match="give one of them"):
        TextRecognition(dictionary="greek", characters="ab")
    with pytest.raises(ConfigError, match="a more than once"):
        TextRecognition(characters="aba")


def test_a_dictionary_that_does_not_fit_is_told_before_training(tmp_path: Path) -> None:
    found = recipe(tmp_path, "task.characters=abdehknot", "task.skip=false")
    with pytest.raises(DataError, match=r"1 characters that are not among the 9 of the dictionary: 'u' \d+ times"):
        assemble(*built(found))
    task, made = built(recipe(tmp_path, "task.characters=abdehknot"))
    parts = assemble(task, made)
    assert not any("u" in text for batch in parts.loaders["train"] for text in batch["text"])
    assert any("u" in text for batch in parts.loaders["val"] for text in batch["text"])
    with pytest.raises(DataError, match=r"none of \d+ lines can be learned"):
        assemble(*built(recipe(tmp_path, "task.characters=xyz")))


def built(config: Any) -> tuple[Any, Any]:
    made = Recipe(config)
    return made.task.build(), made


def test_texts_longer_than_their_steps_are_told(tmp_path: Path) -> None:
    narrow = ["data.transforms.eval.0.width=8", "data.transforms.eval.2.size=[32,8]",
              "data.transforms.eval.2.multiple=[32,8]"]  # fmt: skip
    with pytest.raises(DataError, match=r"lines have more characters than their images have steps"):
        assemble(*built(recipe(tmp_path, "task.skip=false", *narrow)))


def test_the_shortest_lines_may_come_first(tmp_path: Path) -> None:
    def widths(*overrides: str) -> list[int]:
        loader = assemble(*built(recipe(tmp_path, "data.batch_size=8", *overrides))).loaders["train"]
        return [int(loader.sampler.lengths[rows].max()) for rows in loader.sampler.batches(0)]

    assert widths() != sorted(widths()) == widths("task.shortest_first=true")


def test_needed_steps_count_blanks_between_equal_characters() -> None:
    task = TextRecognition(characters="abc")
    assert task.needed(["abc", "aab", "aaa", ""]).tolist() == [3, 4, 5, 0]


def test_evaluation_reads_each_line_at_its_own_width(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    widths = rng.integers(2, 6, 50) * 32
    batches = SameWidth(widths, 8).batches(0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(50))
    assert all(len(set(widths[rows])) == 1 for rows in batches)
    _, made = built(recipe(tmp_path))
    parts = assemble(*built(recipe(tmp_path)))
    for batch in parts.loaders["val"]:
        count = (batch["labels"] >= 0).sum(axis=1)
        assert batch["image"].shape[1] == 32
        assert batch["image"].shape[2] % 32 == 0
        assert (count == batch["lengths"]).all()
        assert [len(text) for text in batch["text"]] == count.tolist()
    assert made.data.size(training=True) == 64


def test_tall_lines_are_read_from_three_sides(tmp_path: Path) -> None:
    """Evaluation and the bundle answer alike; for training nobody says which way the line runs."""
    lists = tmp_path / "lists"
    rows = {split: write_list(lists, split).read_text(encoding="utf-8").splitlines() for split in ("train", "val")}
    for split in rows:
        for turns, row in enumerate(rows[split][:3], 1):
            path, _ = row.split("\t")
            cv2.imwrite(str(lists / path), np.rot90(cv2.imread(str(lists / path)), turns))
    plain = [f"data.{split}.{key}=null" for split in ("train", "val") for key in ("split", "ratios")]
    paths = [f"data.{split}.path={lists / split}.txt" for split in ("train", "val")]
    config = load("ocr/text_lines", [*paths, *plain, "data.test=null", "train.epochs=1"])
    task, made = built(config)
    parts = assemble(task, made)
    assert len(parts.loaders["train"].dataset) == len(rows["train"]) - 2
    assert len(parts.loaders["val"].dataset) == len(rows["val"])
    workflow.train(config, run=tmp_path / "run", progress=False)
    session = opened(tmp_path / "run/model.pdl")
    images = [cv2.imread(str(lists / row.split("\t")[0]))[:, :, ::-1] for row in rows["val"]]
    answers = [each["text"] for each in session.batch(images)]
    model, found = parts.model.eval(), {}
    model.load_state_dict(read_state(str(tmp_path / "run")).arrays)
    for batch in parts.loaders["val"]:
        with pdl.no_grad():
            texts, _, index = task.evaluate(model, batch).outputs
        found |= dict(zip(index.tolist(), texts, strict=True))
        assert all(len(views) == 2 for views in batch["turned"].values())
    assert [found[i] for i in range(len(answers))] == answers


def test_a_recipe_is_written_learns_and_reads(tmp_path: Path) -> None:
    """`pdl init`, train, and the bundle on a line of a width that it has not seen."""
    lists = tmp_path / "lists"
    for split in ("train", "val", "test"):
        write_list(lists, split)
    plain = [
        "train.epochs=22",
        "optim.lr=4.0e-3",
        "data.batch_size=16",
        "data.transforms.train=${data.transforms.eval}",
    ]
    config = load(init("ocr.recognition", data=lists, out=tmp_path / "recipe.yaml"), plain)
    done = workflow.train(config, run=tmp_path / "run", progress=False)
    assert done.metrics["test/similarity"] > 0.5
    session = opened(tmp_path / "run/model.pdl")
    text = "unhook"
    answer = session(drawn(text, SampleRandom(5, 0, 0)))
    assert set(answer["text"]) <= set("abdehknotu")
    assert 0 <= answer["score"] <= 1
    assert session.bundle.labels == list("abdehknotu")
    _goes_on(tmp_path / "run")


def _goes_on(run: Path) -> None:
    """A net with another dictionary begins with what the run knows of each character that both have."""
    weights = read_state(str(run)).arrays["classifier.weight"]
    net: Any = CRNN("vgg", width=0.25, hidden=96, num_classes=5, pretrained=str(run))
    before = net.classifier.weight.data.copy()
    keep_characters(net, str(run), "ux日a")
    kept = {1: "abdehknotu".index("u") + 1, 4: 1, 0: 0}
    for ours, theirs in kept.items():
        assert np.array_equal(net.classifier.weight.data[:, ours], weights[:, theirs])
    assert np.array_equal(net.classifier.weight.data[:, 2:4], before[:, 2:4])


def test_the_characters_of_files_of_paddle(tmp_path: Path) -> None:
    """Of PaddleOCR's inference.yml beside one, or of what RapidOCR writes into ONNX files; a space is the last."""
    onnx = pytest.importorskip("onnx")
    graph = '<ir_version: 8, opset_import: ["" : 14]> g (float[N] x) => (float[N] y) { y = Add(x, x) }'
    made = onnx.parser.parse_model(graph)
    onnx.save(made, tmp_path / "plain.onnx")
    made.metadata_props.add(key="character", value="\u3000\nb\n🇩🇪\n")
    onnx.save(made, tmp_path / "rec.onnx")
    assert characters_of(str(tmp_path / "plain.onnx")) == []
    assert characters_of(str(tmp_path / "rec.onnx")) == ["\u3000", "b", "🇩🇪", " "]
    settings = tmp_path / "inference.yml"
    settings.write_text("PostProcess:\n  name: CTCLabelDecode\n  character_dict: [a, '1', 2, '~']\n")
    (tmp_path / "inference.pdiparams").write_bytes(b"x")
    assert characters_of(str(tmp_path / "inference.pdiparams")) == ["a", "1", "2", "~", " "]
    settings.write_text("PostProcess:\n  name: DBPostProcess\n")
    with pytest.raises(DataError, match=r"no list PostProcess\.character_dict, the characters of inference\.pdiparams"):
        characters_of(str(tmp_path / "inference.pdiparams"))


def test_what_a_check_finds(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    for split in ("train", "val"):
        write_list(lists, split)
    image = cv2.imread(str(lists / "train/000.png"))
    (lists / "val/copy.png").write_bytes((lists / "train/000.png").read_bytes())
    cv2.imwrite(str(lists / "val/turned.png"), np.rot90(image))
    cv2.imwrite(str(lists / "val/wide.png"), np.zeros((32, 1600, 3), np.uint8))
    said = (lists / "train.txt").read_text(encoding="utf-8").splitlines()[0].split("\t")[1]
    with (lists / "val.txt").open("a", encoding="utf-8") as file:
        file.write(
            f"val/copy.png\t{said}\nval/001.png\t\nval/002.png\tQé\nval/003.png\t{'abd' * 30}\n"
        )
        file.write(f"val/wide.png\t{said}\n")
        file.write("val/004.png\t.שלום\nval/004.png\tabd\nval/005.png\tאבג 12 abd\n")
    with (lists / "train.txt").open("a", encoding="utf-8") as file:
        file.write("val/turned.png\tabd\n")
    settings = [f"data.{split}.{key}=null" for split in ("train", "val") for key in ("split", "ratios")]
    paths = [f"data.{split}.path={lists / split}.txt" for split in ("train", "val")]
    config = load("ocr/text_lines", [*paths, *settings, "data.test=null"])
    task, made = built(config)
    found = "\n".join(str(fault) for fault in task.check(made))
    for message in (
        "its text is empty", "'Q' (latin capital letter q) is not in the dictionary, 1 times", "needs 90 steps",
        "higher than wide, but it says 'abd': it is left out of training", "the same image is in train",
        "looks as if it were written backwards",
        "which is the same image", "looks just like 'אבג abd 12'", "are squeezed into the", "by up to 2.5 times",
    ):  # fmt: skip
        assert message in found, message
