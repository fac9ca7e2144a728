"""torchvision's nets are the paper's (arXiv 2103.14030, table 1: 4.5, 8.7 and 15.4 G), attention's products counted."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "swin_t"
FACTS = {
    "swin_t": Fact(28_288_354, TORCHVISION, 4491),
    "swin_s": Fact(49_606_258, TORCHVISION, 8741),
    "swin_b": Fact(87_768_224, TORCHVISION, 15431),
}
