"""Song et al. (arXiv 2106.15125), who count 3.10 M of the net for NTU RGB+D, 60 classes."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {"st_gcn": Fact(3_098_832, "arXiv 2106.15125, table 6 (rounded there)", None, millions="3.10")}
