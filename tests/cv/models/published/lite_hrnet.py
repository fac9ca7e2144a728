"""The paper's tables and its authors' model zoo round: 1.1 and 1.8 million, the naive nets 0.7 and 1.3; the exact
counts are those of the authors' definition, whose multiply-adds count more than products.
"""

from tests.cv.models.published import Fact

PAPER = "arXiv 2104.06403, tables 1 and 4"
QUICK = "lite_hrnet_18"
FACTS = {
    "lite_hrnet_18": Fact(1_130_769, PAPER, None, (256, 192)),
    "lite_hrnet_30": Fact(1_763_717, PAPER, None, (256, 192)),
    "lite_hrnet_naive_18": Fact(760_365, PAPER, None, (256, 192)),
    "lite_hrnet_wider_naive_18": Fact(1_318_625, PAPER, None, (256, 192)),
}
