"""torchvision's net, which has one column and fewer channels than that of 2012."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "alexnet"
FACTS = {"alexnet": Fact(61_100_840, TORCHVISION, 714, small=64, least=63, options=(("hidden", 64),))}
