"""Pipelines: steps by name, checked when read, run on images and outputs."""

from __future__ import annotations

import json
import weakref
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.errors import DataError, UsageError
from pdl.runtime import bundle
from pdl.runtime.pipeline import Answer, Pipeline, describe
from pdl.runtime.predict import predict
from pdl.runtime.steps import InputStep, PostStep, Resources, Sample, registry
from tests.framework.runtime import made

PRE_STEPS: list[dict[str, Any]] = [
    {"step": "image", "mode": "rgb"},
    {"step": "resize_short", "size": 10},
    {"step": "crop", "size": [8, 8]},
    {"step": "normalize", "mean": [0.5], "std": [0.25]},
]


def read(pre: Any, post: Any = None, labels: tuple[str, ...] = ("a", "b", "c")) -> Pipeline:
    text = json.dumps({"pre": {"image": pre}, "post": {} if post is None else {"y": post}})
    found = Pipeline.read(json.loads(text), Resources(labels), "x.pdl")
    assert found is not None
    return found


IMAGE = PRE_STEPS[0]


def after(value: Any, *steps: dict[str, Any], labels: tuple[str, ...] = ("a", "b", "c")) -> Any:
    """What steps make of an output."""
    return read(PRE_STEPS, list(steps), labels).finish({"y": value}, Sample())


def test_from_image_to_answer() -> None:
    program, arrays = made.parts_of("conv")
    steps = {"pre": {"image": PRE_STEPS}, "post": {"y": [{"step": "softmax"}, {"step": "top", "k": 2}]}}
    data = bundle.pack(program, arrays, pipeline=steps, labels=["ant", "bee", "cow", "dog", "elk"])
    session = pdl.runtime.load(data)
    x = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    answer = session(x)
    prepared = session.pipeline.prepare(x)["image"]
    logits = session.run({"image": prepared[None]})["y"][0].astype(np.float64)
    chances = np.exp(logits) / np.exp(logits).sum()
    best = np.argsort(-chances)[:2]
    assert [each["class"] for each in answer["top"]] == best.tolist()
    assert [each["score"] for each in answer["top"]] == pytest.approx(chances[best].tolist())
    assert answer["label"] == ["ant", "bee", "cow", "dog", "elk"][best[0]]
    json.dumps(answer)


@pytest.mark.parametrize(("side", "asked", "sizes"), [(8, None, [5]), (420, None, [1] * 5), (420, 3, [3, 2])])
def test_large_inputs_go_through_the_net_one_by_one(side: int, asked: int | None, sizes: list[int]) -> None:
    """They are not faster together, and memory grows with them: PicoDet's takes 850 MB for 32 images."""
    ran: list[int] = []

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        ran.append(len(inputs["image"]))
        return {"y": inputs["image"].mean((1, 2))}

    images = [np.full((side, side, 3), shade, np.uint8) for shade in range(5)]
    steps = [IMAGE, {"step": "normalize", "mean": [0.0], "std": [1.0]}]
    found = read(steps).answers(images, run, batch_size=asked)
    assert ran == sizes
    assert [each.value["y"][0] for each in found] == pytest.approx([shade / 255 for shade in range(5)], abs=1e-4)


def test_a_tall_image_is_looked_at_from_three_sides() -> None:
    """The most certain answer counts, of equal ones that of the image as it is; others are looked at once."""
    seen: list[np.ndarray] = []

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        seen.extend(inputs["image"])
        return {"y": np.stack([[x[0, 0, 0], 0.3, x[-1, -1, 0]] for x in inputs["image"]])}

    steps = [{"step": "image", "tall": 1.5}, {"step": "normalize", "mean": [0.0], "std": [1.0]}]
    pipeline = read(steps, [{"step": "top", "k": 1}])
    tall, wide = np.zeros((6, 4, 3), np.uint8), np.zeros((5, 4, 3), np.uint8)
    tall[0, -1] = 204  # turned to the left the upper left corner, turned to the right the lower right one
    first, second, plain = pipeline.answers([tall, wide, np.rot90(tall)], run)
    assert [(each.value["label"], round(each.value["score"], 2)) for each in (first, second, plain)] == [
        ("a", 0.8), ("b", 0.3), ("a", 0.8),
    ]  # fmt: skip
    assert len(seen) == 5
    damaged = pipeline.answers([b"no image", tall], run, skip_errors=True)
    assert [each.error is None for each in damaged] == [False, True]
    with pytest.raises(UsageError, match="no view of an input is the best"):
        read(steps, [{"step": "threshold"}]).answers([tall], run)
    with pytest.raises(DataError, match=r"tall=0 must be from 1 to 100"):
        read([{"step": "image", "tall": 0}])


def test_outputs_go_as_soon_as_they_are_answers() -> None:
    """A reader of lines has megabytes of probabilities for each of many batches."""
    made: list[weakref.ref[np.ndarray]] = []

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert all(each() is None for each in made), "the outputs of a batch outlive it"
        y = np.log(np.full((len(inputs["image"]), 3), [0.2, 0.5, 0.3]))
        made.append(weakref.ref(y))
        return {"y": y}

    images = [np.full((8, 8, 3), shade, np.uint8) for shade in range(5)]
    steps = [IMAGE, {"step": "normalize", "mean": [0.0], "std": [1.0]}]
    found = read(steps, [{"step": "softmax"}, {"step": "top", "k": 1}]).answers(images, run, batch_size=2)
    assert len(made) == 3
    assert [each.value["label"] for each in found] == ["b"] * 5


def test_topk_is_that_of_a_call() -> None:
    """It changed the session, for all later calls and threads."""
    session = pdl.runtime.load(made.whole("conv"))
    x = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    assert [len(p.rows()) for p in predict(session, [x, x[5:]], topk=1)] == [1, 1]
    assert len(session(x)["top"]) == 3
    assert [len(p.rows()) for p in predict(session, [x], topk=4)] == [4]
    no_ranking = pdl.runtime.load(made.whole("pixels"))
    with pytest.raises(UsageError, match="this model does not rank answers; leave out --topk"):
        list(predict(no_ranking, [x], topk=1))


def test_a_model_without_steps_has_no_pipeline() -> None:
    session = pdl.runtime.load(made.good())
    assert session.pipeline is None
    with pytest.raises(UsageError, match=r"no pipeline; give arrays: .*image float32\[n, 8, 8, 3\]"):
        session(np.zeros((8, 8, 3), np.uint8))


X = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
SHAPES: dict[str, tuple[dict[str, Any], tuple[int, ...], Any]] = {
    "resize": ({"size": [4, 6]}, (4, 6, 3), np.uint8),
    "resize_short": ({"size": 10}, (10, 14, 3), np.uint8),
    "resize_height": ({"height": 10, "width": 40, "fill": 127}, (10, 40, 3), np.uint8),
    "resize_within": ({"limit": 96, "multiple": 4}, (4, 8, 3), np.uint8),
    "letterbox": ({"size": [16, 10], "fill": [1, 2, 3], "centre": False}, (16, 10, 3), np.uint8),
    "crop": ({"size": [9, 3], "fill": [1, 2, 3]}, (9, 3, 3), np.uint8),
    "pad": ({"padding": [1, 2, 3, 4], "mode": "edge"}, (11, 11, 3), np.uint8),
    "pad_to": ({"size": [6, 3], "multiple": [1, 4], "fill": 9}, (6, 8, 3), np.uint8),
    "gray": ({"channels": 3}, (5, 7, 3), np.uint8),
    "auto_contrast": ({"low": 0.1, "each": True}, (5, 7, 3), np.uint8),
    "reverse": ({}, (5, 7, 3), np.uint8),
    "to_float": ({}, (5, 7, 3), np.float32),
    "normalize": ({"mean": [0.1, 0.2, 0.3], "std": [1, 1, 1]}, (5, 7, 3), np.float32),
    "layout": ({"order": "chw"}, (3, 5, 7), np.uint8),
}


def test_every_step_is_in_the_table() -> None:
    before = {name for name, step in registry.OWN.items() if not issubclass(step, PostStep)}
    assert SHAPES.keys() == before - {"image", "fields"}
    assert {name for name, _, _ in AFTER} | {"top_names", "written_labels"} == registry.OWN.keys() - before
    assert all(issubclass(registry.OWN[name], InputStep) for name in ("image", "fields"))


@pytest.mark.parametrize("name", SHAPES)
def test_steps_before(name: str) -> None:
    arguments, shape, dtype = SHAPES[name]
    y = read([IMAGE, {"step": name, **arguments}]).prepare(X)["image"]
    assert (y.shape, y.dtype) == (shape, dtype)


def test_images_are_read_in_a_mode() -> None:
    assert read([{"step": "image", "mode": "gray"}]).prepare(X)["image"].shape == (5, 7, 1)
    assert read([IMAGE]).prepare(X[:, :, 0])["image"].shape == (5, 7, 3)


def test_a_height_keeps_proportions() -> None:
    steps = [{"step": "resize_height", "height": 10, "width": 8}]
    assert read([IMAGE, *steps]).prepare(X)["image"].shape == (10, 8, 3)
    steps = [{"step": "resize_height", "height": 10, "width": 40}]
    assert read([IMAGE, *steps]).prepare(X)["image"].shape == (10, 14, 3)


def test_filling_up_keeps_the_image_and_its_scale() -> None:
    steps = [{"step": "normalize", "mean": [0.5], "std": [0.5]}, {"step": "pad_to", "size": [8, 4], "multiple": 3}]
    y = read([IMAGE, *steps]).prepare(X)["image"]
    assert y.shape == (9, 9, 3)
    assert np.allclose(y[:5, :7], X / 127.5 - 1, atol=1e-6)
    assert not y[5:].any()
    assert not y[:, 7:].any()


SPOT = (slice(48, 56), slice(20, 28))
"""Where an image of 80 x 120 pixels, otherwise black, has a white spot."""


@pytest.mark.parametrize(
    "steps",
    [
        [{"step": "resize", "size": [160, 60]}],
        [{"step": "resize_short", "size": 50}],
        [{"step": "resize_height", "height": 40, "width": 90, "fill": 0}],
        [{"step": "resize_height", "height": 40, "width": 30}],
        [{"step": "resize_within", "limit": 100, "multiple": 32}],
        [{"step": "letterbox", "size": [100, 90]}],
        [{"step": "letterbox", "size": [200, 330], "centre": False}],
        [{"step": "letterbox", "size": [101, 200], "enlarge": False}],
        [{"step": "crop", "size": [75, 81]}],
        [{"step": "crop", "size": [91, 140]}],
        [{"step": "pad", "padding": [7, 3, 5, 11]}],
        [{"step": "pad_to", "size": [100, 100], "multiple": 16}],
        [{"step": "resize_short", "size": 61}, {"step": "pad", "padding": [9, 8, 7, 6]},
         {"step": "crop", "size": [70, 90]}, {"step": "reverse"}, {"step": "normalize", "mean": [0], "std": [1]},
         {"step": "pad_to", "size": [96, 96]}, {"step": "layout", "order": "chw"}],
    ],
    ids=lambda steps: "-".join(step["step"] for step in steps),
)  # fmt: skip
def test_places_are_found_again_in_the_original(steps: Any) -> None:
    x = np.zeros((80, 120, 3), np.uint8)
    x[SPOT] = 255
    sample = read([IMAGE, *steps]).parse(x)
    frame = sample.frame
    assert frame is not None
    y = sample.inputs["image"].astype(np.float64)
    y = y.mean(0 if y.shape[0] == 3 else 2)
    rows, columns = np.nonzero(y > y.max() / 2)
    middle = [columns.min() + columns.max() + 1, rows.min() + rows.max() + 1]
    assert frame.back(np.array(middle) / 2) == pytest.approx([24, 52], abs=1.5)
    assert frame.back(np.array([[-999, -999], [999, 999]])).tolist() == [[0, 0], [120, 80]]


SCORES = np.array([0.5, 3.0, 0.9])
AFTER: list[tuple[str, Any, Any]] = [
    ("identity", SCORES, SCORES),
    ("softmax", SCORES, np.exp(SCORES) / np.exp(SCORES).sum()),
    ("sigmoid", SCORES, 1 / (1 + np.exp(-SCORES))),
    ("top", SCORES, {"label": "b", "class": 1, "score": 3.0, "top": [
        {"label": "b", "class": 1, "score": 3.0}, {"label": "c", "class": 2, "score": 0.9},
        {"label": "a", "class": 0, "score": 0.5}]}),
    ("threshold", SCORES, {"labels": [
        {"label": "b", "class": 1, "score": 3.0}, {"label": "c", "class": 2, "score": 0.9},
        {"label": "a", "class": 0, "score": 0.5}]}),
    ("gallery", SCORES, {"vector": SCORES.tolist()}),
    ("values", SCORES[:1], {"a": float(SCORES[0])}),
    ("probabilities", np.zeros(2), {"a": 0.5, "b": 0.5}),
    ("ctc", np.eye(4)[[0, 1, 1, 0, 1, 3, 3, 0]], {"text": "aac", "score": 1.0}),
    ("until_end", np.diag([9, 1, 0.5, 0.75])[[1, 1, 2, 3, 0, 3, 1, 0]], {"text": "aabc", "score": 0.8125}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "expected"), AFTER)
def test_steps_after(name: str, value: Any, expected: Any) -> None:
    found = after(value, {"step": name})
    if isinstance(expected, np.ndarray):
        assert np.allclose(found, expected, rtol=1e-12)
    else:
        assert found == expected


def test_no_text_and_no_label() -> None:
    assert after(np.eye(4)[[0, 0]], {"step": "ctc"}) == {"text": "", "score": 0.0}
    assert after(np.eye(6)[[1, 0, 4, 5, 0, 3]], {"step": "ctc", "more": " ?"})["text"] == "a ?c"
    assert after(np.eye(6)[[1, 0, 4, 5, 0, 3]], {"step": "ctc", "more": "אב", "visual": True})["text"] == "cבאa"
    assert after(np.eye(4)[[0, 1]], {"step": "until_end"}) == {"text": "", "score": 0.0}
    assert after(np.eye(3)[[1, 2]], {"step": "until_end", "end": 7})["text"] == "bc"
    assert after(np.eye(6)[[3, 1, 4, 5, 2]], {"step": "until_end", "end": 2, "more": " ?"})["text"] == "cb ?"
    assert after(np.eye(6)[[1, 4, 5, 3, 0]], {"step": "until_end", "more": "אב", "visual": True})["text"] == "cבאa"
    assert after(SCORES, {"step": "threshold", "score": 9}) == {"labels": []}
    assert after(SCORES, {"step": "top", "k": 1}, labels=())["label"] == "1"
    assert read(PRE_STEPS).finish({"y": SCORES}, Sample())["y"] is SCORES


@pytest.mark.parametrize(
    ("steps", "value", "rows"),
    [
        ([{"step": "top", "k": 2}], SCORES, [{"label": "b", "class": 1, "score": 3.0},
                                             {"label": "c", "class": 2, "score": 0.9}]),
        ([{"step": "threshold", "score": 9}], SCORES, []),
        ([{"step": "values"}], SCORES[:2], [{"a": 0.5, "b": 3.0}]),
        ([{"step": "ctc"}], np.eye(4)[[1]], [{"text": "a", "score": 1.0}]),
        ([{"step": "until_end"}], np.eye(4)[[1, 0, 1]], [{"text": "a", "score": 1.0}]),
        ([{"step": "identity"}], 7, [{"output": 7}]),
        ([], 7, [{"output": 7}]),
    ],
)  # fmt: skip
def test_rows_of_answers(steps: Any, value: Any, rows: Any) -> None:
    pipeline = read(PRE_STEPS, steps)
    assert pipeline.rows(Answer(pipeline.finish({"y": value}, Sample()), ("y",))) == rows


AGREE: dict[str, tuple[list[dict[str, Any]], Any, Any, bool]] = {
    "the same": ([{"step": "top"}], SCORES, SCORES + 1e-7, True),
    "another best": ([{"step": "top"}], SCORES, SCORES[::-1], False),
    "places of close ones": ([{"step": "top"}], np.array([9, 1, 1 + 1e-7]), np.array([9, 1 + 1e-7, 1]), True),
    "places of others": ([{"step": "top"}], np.array([9, 1, 2.0]), np.array([9, 2.0, 1]), False),
    "close to the threshold": ([{"step": "threshold"}], np.array([0.5, 0.9]), np.array([0.5 - 1e-7, 0.9]), True),
    "over the threshold": ([{"step": "threshold"}], np.array([0.6, 0.9]), np.array([0.4, 0.9]), False),
    "probabilities": ([{"step": "probabilities"}], np.array([1.0, 0]), np.array([2.0, 0]), False),
    "numbers on a large scale": ([{"step": "values", "scale": [1e6]}], np.array([1.0]), np.array([1 + 5e-6]), True),
    "numbers": ([{"step": "values"}], np.array([1.0]), np.array([1.1]), False),
    "another text": ([{"step": "ctc"}], np.eye(4)[[1]], np.eye(4)[[2]], False),
    "another end": ([{"step": "until_end"}], np.eye(4)[[1, 0]], np.eye(4)[[1, 1]], False),
    "behind the end": ([{"step": "until_end"}], np.eye(4)[[1, 0, 1]], np.eye(4)[[1, 0, 2]], True),
}


@pytest.mark.parametrize("name", AGREE)
def test_answers_that_agree(name: str) -> None:
    """Of an export: today's answers under other keys than label, text and items were never compared."""
    steps, ours, theirs, same = AGREE[name]
    assert read(PRE_STEPS, steps).agree({"y": ours}, {"y": theirs}, Sample(), 1e-5) is same


BAD: dict[str, tuple[Any, str]] = {
    "unknown": ({"step": "system"}, r"x.pdl: pipeline.json: pre: image: unknown step 'system'; installed are .*crop"),
    "after": ({"step": "softmax"}, r"softmax cannot be step 2: the steps behind the first prepare what it read"),
    "two inputs": ({"step": "image"}, r"image cannot be step 2"),
    "no name": ({"size": 3}, r"unknown step 'None'"),
    "list": ([], r"expected steps, each an object"),
    "argument": ({"step": "crop", "size": [8, 8], "run": 1}, r"crop: .*'run'"),
    "missing": ({"step": "crop"}, r"crop: .*'size'"),
    "size": ({"step": "resize", "size": [8, 0]}, r"resize: 0 must be from 1 to 32768"),
    "huge": ({"step": "resize_short", "size": 2**40}, r"1099511627776 must be from 1"),
    "text": ({"step": "resize", "size": "8"}, r"size='8' must be \[height, width\]"),
    "method": ({"step": "resize", "size": [8, 8], "method": "cubic"}, r"method='cubic' must be one of auto, area"),
    "std": ({"step": "normalize", "mean": [0.1], "std": [0.0]}, r"must be above 0"),
    "means": ({"step": "normalize", "mean": [0.1, 0.2], "std": [1, 1]}, r"one or three numbers"),
    "padding": ({"step": "pad", "padding": [1, 2]}, r"must be four numbers"),
    "fill": ({"step": "crop", "size": [8, 8], "fill": [300]}, r"fill=300 must be from 0 to 255"),
    "multiple": ({"step": "pad_to", "size": [8, 8], "multiple": 0}, r"0 must be from 1 to 32768"),
    "share": ({"step": "auto_contrast", "low": 0.5}, r"0.5 must be a share of pixels below 0.5"),
    "flag": ({"step": "gray", "channels": True}, r"channels=True must be one of 1, 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_steps(name: str) -> None:
    step, message = BAD[name]
    with pytest.raises(DataError, match=message):
        read([IMAGE, step])


@pytest.mark.parametrize("name", ["ctc", "until_end"])
def test_texts_of_damaged_bundles(name: str) -> None:
    number = {"ctc": "blank", "until_end": "end"}[name]
    for argument, message in (
        ({number: -1}, rf"{number}=-1 must be a number from 0 to 2147483648"),
        ({number: 2**40}, rf"{number}=1099511627776 must be a number"),
        ({number: True}, rf"{number}=True must be a number"),
        ({"more": [" "]}, r"more=\[' '\] must be a text"),
        ({"visual": 1}, r"visual=1 must be true or false"),
        ({"lexicon": "x"}, r"unexpected keyword argument 'lexicon'"),
    ):
        with pytest.raises(DataError, match=f"x.pdl: pipeline.json: post: y: {name}: .*{message}"):
            read(PRE_STEPS, [{"step": name, **argument}])
    with pytest.raises(UsageError, match=rf"{name}: expected scores \[steps, classes\], got \(4,\)"):
        after(np.zeros(4), {"step": name})
    assert after(np.full((3, 4), np.nan), {"step": name})["text"] == ""


def test_limits() -> None:
    with pytest.raises(DataError, match="expected up to 32 steps"):
        read([{"step": "reverse"}] * 33)
    for pre in ([], [{"step": "reverse"}], [{"step": "softmax"}]):
        with pytest.raises(DataError, match="the first step says what an input is"):
            read(pre)
    with pytest.raises(DataError, match="crop cannot be step 1: steps of outputs make answers"):
        read(PRE_STEPS, [{"step": "crop", "size": [1, 1]}])
    with pytest.raises(UsageError, match="is too slim"):
        read([IMAGE, {"step": "resize_short", "size": 1000}]).prepare(np.zeros((2, 2000), np.uint8))
    with pytest.raises(UsageError, match=r"top: expected scores \[classes\], got an output of shape \(2, 2\)"):
        after(np.zeros((2, 2)), {"step": "top"})


def test_steps_belong_to_ports_of_the_model() -> None:
    program, arrays = made.parts_of("conv")
    for steps, message in (
        ({"pre": {"photo": PRE_STEPS}}, r"pre: has steps for 'photo', the model has the inputs image"),
        ({"post": {"z": [{"step": "top"}]}}, r"post: has steps for 'z', the model has the outputs y"),
    ):
        with pytest.raises(DataError, match=message):
            pdl.runtime.load(bundle.pack(program, arrays, pipeline=steps))


def test_a_step_reads_inputs_that_have_steps() -> None:
    step = {"step": "top_names", "vocabulary": "items", "exclude": "nodes"}
    with pytest.raises(DataError, match=r"post: scores: top_names reads nodes, which has no steps"):
        pdl.runtime.load(made.ranking(made.ROW, step))


@pytest.mark.parametrize(
    ("pre", "post", "message"),
    [
        (
            [*PRE_STEPS, {"step": "resize", "size": [4, 4]}],
            [],
            r"resize of the pipeline cannot take float32 \(8, 8, 3\)",
        ),
        (PRE_STEPS, [{"step": "top"}, {"step": "top"}], r"top: expected scores \[classes\], got an answer"),
        (PRE_STEPS, [{"step": "top"}, {"step": "softmax"}], r"softmax of the pipeline cannot take dict"),
    ],
    ids=["after floats", "twice", "after an answer"],
)
def test_steps_in_a_wrong_order(pre: Any, post: Any, message: str) -> None:
    pipeline = read(pre, post)
    with pytest.raises(UsageError, match=message):
        pipeline.finish({"y": pipeline.prepare(X)["image"][0, 0]}, Sample())


def test_described_for_people() -> None:
    said = describe(PRE_STEPS)
    assert said.startswith("image(mode=rgb) > resize_short(size=10) > crop(size=[8, 8]) > normalize(mean=[0.5]")
