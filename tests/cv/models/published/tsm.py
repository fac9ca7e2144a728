"""The paper, table 2 (24.3 M with ResNet-50): the shift has no parameters, so they are those of TSN."""

from tests.cv.models.published import Fact, tsn

PAPER = "arXiv 1811.08383, table 2"
QUICK = None
FACTS = {name.replace("tsn", "tsm"): Fact(fact.parameters, PAPER, None) for name, fact in tsn.FACTS.items()}
