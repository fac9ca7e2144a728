"""Parameters: the TF-slim implementation (4.24 M with all statistics of the norms). Multiply-adds: tables 4 and 6 of
arXiv 1704.04861, whose 569, 325, 149 and 41 million are rounded.
"""

from tests.cv.models.published import Fact

QUICK = "mobilenet_v1_025"
SLIM = "TF-slim, research/slim/nets/mobilenet_v1.md"
PAPER = "arXiv 1704.04861, table 6"
FACTS = {
    "mobilenet_v1": Fact(4_231_976, SLIM, 569, counted_by=PAPER),
    "mobilenet_v1_075": Fact(2_585_560, SLIM, 325, counted_by=PAPER),
    "mobilenet_v1_050": Fact(1_331_592, SLIM, 149, counted_by=PAPER),
    "mobilenet_v1_025": Fact(470_072, SLIM, 41, counted_by=PAPER),
}
