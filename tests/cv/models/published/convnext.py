"""torchvision's nets are the paper's (arXiv 2201.03545, table 1: 4.5, 8.7, 15.4 and 34.4 G)."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "convnext_tiny"
FACTS = {
    "convnext_tiny": Fact(28_589_128, TORCHVISION, 4456),
    "convnext_small": Fact(50_223_688, TORCHVISION, 8684),
    "convnext_base": Fact(88_591_464, TORCHVISION, 15355),
    "convnext_large": Fact(197_767_336, TORCHVISION, 34361),
}
