"""Model cards: what the task says, then what the run measured."""

from __future__ import annotations

from pdl.report import Card

CARD = Card("LeNet, 10 classes", "A classifier.", protocol="Single crop.", use="    session(image)", data="Digits.")
BASELINES = (["", "LeNet", "majority"], [["test/accuracy", 0.9916666, 0.1], ["test/top5", 1.0, float("nan")]])


def test_all_sections_in_order() -> None:
    metrics = {"energy": -1.13727016, "test/accuracy": 0.9916666, "test/loss": None, "train/loss": 0.1}
    card = CARD.markdown(metrics=metrics, selection="Chosen by val/accuracy.", baselines=BASELINES, licence="MIT")
    titles = [line for line in card.splitlines() if line.startswith("#")]
    assert titles == ["# LeNet, 10 classes", "## Data", "## Metrics", "## Baselines", "## Licence", "## Use"]
    assert "\n\nChosen by val/accuracy.\n\nSingle crop.\n\n| metric | value |\n| --- | --- |\n" in card
    assert "| energy | -1.13727016 |\n| test/accuracy | 0.9917 |\n| test/loss | - |\n\n" in card, "training is left out"
    assert "| test/accuracy | 0.9917 | 0.1000 |\n| test/top5 | 1.0000 | - |\n" in card
    assert card.endswith("## Use\n\n    session(image)\n")


def test_what_is_unknown_is_said_or_left_out() -> None:
    card = Card("Net", "A net.").markdown()
    assert "Not measured." in card
    assert "Not stated: ask whoever gave you this file." in card
    assert "## Baselines" not in card
    assert "## Use" not in card
