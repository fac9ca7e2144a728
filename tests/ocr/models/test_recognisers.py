"""The nets that read lines: sizes as published, shapes, gradients, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import pdl
from pdl.config.building import build
from pdl.errors import ConfigError, ShapeError
from pdl.hub.pretrained import load_pretrained
from pdl_ocr.models import (
    CRNN,
    SVTR,
    PARSeq,
    PPOCRRecogniser,
    PPOCRv6Recogniser,
    Recogniser,
    SVTRLCNet,
    crnn,
    parseq,
    ppocr_v6,
    svtr,
    svtr_lcnet,
)
from pdl_ocr.models.attention import Guide
from pdl_ocr.models.recogniser import UntilEndDecoding

VARIANTS: dict[str, dict[str, Any]] = {
    **crnn.VARIANTS, **svtr.VARIANTS, **svtr_lcnet.VARIANTS, **parseq.VARIANTS, **ppocr_v6.VARIANTS,
}  # fmt: skip
SMALL = [name for name in VARIANTS if name not in ("svtr_base", "svtr_large", "crnn_resnet34_vd", "parseq_small")]


def lines(net: Recogniser, n: int = 2, steps: int = 25) -> pdl.Tensor:
    width = net.width or steps * net.stride
    return pdl.as_tensor(np.random.default_rng(0).normal(size=(n, net.heights[-1], width, 3)).astype(np.float32))


@pytest.mark.parametrize("name", SMALL)
def test_a_net_gives_the_steps_that_it_says(name: str) -> None:
    net: Recogniser = build({**VARIANTS[name], "num_classes": 12}).eval()
    x = lines(net)
    assert net(x).shape == (2, net.steps(x.shape[2]), 12) == (2, 26 if isinstance(net, PARSeq) else 25, 12)


@pytest.mark.parametrize(("size", "millions"), [("tiny", 4.15), ("small", 8.45), ("base", 22.66), ("large", 38.81)])
def test_svtr_has_the_parameters_of_the_paper(size: Any, millions: float) -> None:
    """Table 1 of arXiv 2205.00159, for 36 characters."""
    count = sum(p.size for p in SVTR(size, num_classes=37).parameters()) / 1e6
    assert count == pytest.approx(millions, rel=0.02)


@pytest.mark.parametrize(("name", "millions"), [("parseq_tiny", 6.0), ("parseq_small", 23.8)])
def test_parseq_has_the_parameters_of_the_paper(name: str, millions: float) -> None:
    """Of arXiv 2207.06966 and its code, for 94 characters."""
    count = sum(p.size for p in build({**parseq.VARIANTS[name], "num_classes": 95}).parameters()) / 1e6
    assert round(count, 1) == millions


def test_local_mixing_sees_seven_rows_and_eleven_columns() -> None:
    seen = svtr.local(8, 25).reshape(8, 25, 8, 25)
    assert seen[4, 12].sum() == 7 * 11
    assert seen[0, 0].sum() == 4 * 6


def small_parseq(**settings: Any) -> PARSeq:
    return PARSeq(**{"dim": 32, "layers": 2, "heads": 2, "image_width": 32, "num_classes": 5, **settings})


LABELS = pdl.as_tensor(np.array([[1, 2, 3, -1], [4, 4, -1, -1]], np.int64))
LENGTHS = pdl.as_tensor(np.array([3, 2], np.int64))


@pytest.mark.parametrize(
    "net",
    [
        CRNN(width=0.25, num_classes=5),
        SVTRLCNet(width=0.125, dim=16, num_classes=5),
        SVTRLCNet(width=0.125, dim=16, guide=32, num_classes=5),
        PPOCRRecogniser(guide=32, num_classes=5),
        PPOCRv6Recogniser(guide=32, num_classes=5),
        PPOCRv6Recogniser("tiny", num_classes=5),
        small_parseq(max_length=3),
        small_parseq(max_length=3, permutations=1),
    ],
    ids=[
        "crnn",
        "svtr_lcnet",
        "guided",
        "ppocr guided",
        "ppocr v6 guided",
        "ppocr v6 tiny",
        "parseq",
        "parseq in one order",
    ],
)
def test_every_parameter_learns(net: Recogniser) -> None:
    parts = net.loss(lines(net), LABELS, LENGTHS)
    sum(parts.values(), pdl.zeros(())).backward()
    gradients = {
        name: 0.0 if p.grad is None else float(np.abs(p.grad.numpy()).max()) for name, p in net.named_parameters()
    }
    assert [name for name, most in gradients.items() if not 0 < most < np.inf] == []


# -- texts until an end ------------------------------------------------------------------------------------------------
def test_targets_have_the_end_behind_the_text_and_nothing_behind_that() -> None:
    decoding = UntilEndDecoding()
    assert decoding.targets(LABELS, LENGTHS, 5).numpy().tolist() == [[1, 2, 3, 0, -1], [4, 4, 0, -1, -1]]
    assert decoding.targets(LABELS, LENGTHS, 3).numpy().tolist() == [[1, 2, 3], [4, 4, 0]]
    logits = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)
    logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
    picked = [*logs[0, range(4), [1, 2, 3, 0]], *logs[1, range(3), [4, 4, 0]]]
    assert float(decoding.loss(pdl.as_tensor(logits), LABELS, LENGTHS)) == pytest.approx(-np.mean(picked), rel=1e-5)
    assert decoding.classes(np.eye(6)[[[1, 2, 0, 3], [0, 1, 1, 1], [5, 5, 5, 5]]]) == [[1, 2], [], [5, 5, 5, 5]]
    assert decoding.needed(np.array([4, 4])) == 3


@pytest.mark.parametrize("seed", range(3))
def test_what_is_seen_in_an_order_is_what_was_written_before(seed: int) -> None:
    """By walking through each order, as the paper's section 3.2 describes it."""
    keys = np.random.default_rng(seed).normal(size=(4, 6)).astype(np.float32)
    keys[0], keys[1] = np.arange(6), -np.arange(6)
    wanted = np.zeros((4, 6, 6), bool)
    for order, row in enumerate(keys):
        written = [0]  # the start
        for position in sorted(range(6), key=lambda p: row[p]):
            wanted[order, position, written] = True
            written += [position + 1] if position < 5 else []  # nothing sees what stands at the last position: the end
    found = parseq.visible(pdl.as_tensor(keys)).numpy()
    assert np.array_equal(found, wanted)
    assert np.array_equal(found[0], np.tri(6, dtype=bool)), "from left to right"


def test_orders_come_with_their_reverse_and_are_new_each_time() -> None:
    net = small_parseq(permutations=6)
    keys, others = net._keys(5).numpy(), net._keys(5).numpy()
    assert keys[0].tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(keys[1::2], -keys[::2])
    assert not np.array_equal(keys[2:], others[2:])
    assert np.array_equal(keys[:2], others[:2])


def test_a_character_depends_on_what_its_order_lets_it_see_alone() -> None:
    """Of the loss: changed characters change the logits of those behind them in the order, and no others."""
    net = small_parseq().eval()
    memory, mask = net.encode(lines(net)), parseq.visible(net._keys(4))

    def logits(tokens: list[int]) -> np.ndarray:
        written = net._written(pdl.as_tensor(np.array([[0, *tokens]] * 2, np.int64)))
        both = [net.decode(net.positions[:, :4], written, memory, mask[order]).data[0] for order in (0, 1)]
        return np.stack(both)

    changed = np.abs(logits([1, 2, 3]) - logits([1, 4, 3])).max(axis=2) > 1e-6  # the second of three characters
    assert changed.tolist() == [[False, False, True, True], [True, False, False, False]]


def test_characters_behind_the_end_are_not_read_again() -> None:
    """A refinement with all characters of the first pass but those behind its first end, by hand."""
    net = small_parseq(refinements=0, max_length=5).eval()
    x = lines(net)
    first = net(x).data
    tokens = np.concatenate([np.zeros((2, 1), np.int64), first.argmax(axis=2)[:, :-1]], axis=1)
    memory = net.encode(x)
    net.refinements = 1
    for row, own in enumerate(tokens):
        for position in range(6):
            seen = [0]
            for i in range(1, 6):
                if own[i] == 0:
                    break
                seen += [i] if i != position + 1 else []
            written = net._written(pdl.as_tensor(own[None]))[:, seen]
            alone = net.decode(net.positions[:, position : position + 1], written, memory[row : row + 1])
            assert np.allclose(net(x).data[row, position], alone.data[0, 0], atol=1e-5)


def test_from_left_to_right_each_character_knows_those_in_front() -> None:
    net = small_parseq(autoregressive=True, refinements=0, max_length=4).eval()
    x = lines(net)
    found = net(x)
    tokens = pdl.pad(pdl.argmax(found, axis=2)[:, :-1], ((0, 0), (1, 0)))
    mask = pdl.as_tensor(np.tri(5, dtype=bool))
    taught = net.decode(net.positions, net._written(tokens), net.encode(x), mask)
    assert np.allclose(found.data, taught.data, atol=1e-5)


def test_settings_that_do_not_fit_are_told() -> None:
    for settings, message in (
        ({"image_width": 100}, "image_width=100 must be a multiple of 8"),
        ({"permutations": 5}, "permutations=5 must be 1 or even"),
        ({"dim": 30}, "dim=30 must be a multiple of 4, twice heads=2"),
    ):
        with pytest.raises(ConfigError, match=message):
            small_parseq(**settings)
    with pytest.raises(ConfigError, match="guide=40 must be a multiple of 32"):
        SVTRLCNet(guide=40)


# -- guided training ---------------------------------------------------------------------------------------------------
def test_the_guide_sees_earlier_characters_alone_and_the_image() -> None:
    guide = Guide(6, 32, num_classes=5).eval()
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1, 7, 6)).astype(np.float32)

    def logits(x: np.ndarray, tokens: list[int]) -> np.ndarray:
        found: np.ndarray = guide(pdl.as_tensor(x), pdl.as_tensor(np.array([tokens], np.int64))).data[0]
        return found

    base = logits(features, [0, 1, 2, 3])
    changed = np.abs(base - logits(features, [0, 1, 4, 3])).max(axis=1) > 1e-6
    assert changed.tolist() == [False, False, True, True]
    turned = np.abs(base - logits(features[:, ::-1].copy(), [0, 1, 2, 3])).max(axis=1)
    assert (turned > 1e-4).all(), "the order of the columns counts"


def test_a_guide_is_for_training_alone(tmp_path: Path) -> None:
    net = SVTRLCNet(width=0.125, dim=16, guide=32, num_classes=5)
    plain = SVTRLCNet(width=0.125, dim=16, num_classes=5)
    size = [sum(p.size for p in each.parameters()) for each in (net.deployed(), plain)]
    assert size[0] == size[1] < sum(p.size for p in net.parameters())
    assert net.guide is not None
    save_file({name: value.data for name, value in net.state_dict().items()}, tmp_path / "guided.safetensors")
    load_pretrained(plain, tmp_path / "guided.safetensors")
    x = lines(net)
    assert np.array_equal(plain.eval()(x).data, net.eval()(x).data)
    assert set(net.loss(x, LABELS, LENGTHS)) == {"ctc", "guide"}
    assert set(plain.loss(x, LABELS, LENGTHS)) == {"ctc"}
    again = SVTRLCNet(width=0.125, dim=16, guide=64, num_classes=5, pretrained=str(tmp_path / "guided.safetensors"))
    assert np.array_equal(again.eval()(x).data, net(x).data), "another guide is learned anew"


def test_lines_of_another_height_are_told() -> None:
    with pytest.raises(ShapeError, match="images are 40 pixels high, expected 32: set the height of ResizeHeight"):
        CRNN(width=0.25)(pdl.zeros((1, 40, 64, 3)))
    with pytest.raises(ShapeError, match="64 pixels wide, but the net was built for 100"):
        SVTR("tiny")(pdl.zeros((1, 32, 64, 3)))
