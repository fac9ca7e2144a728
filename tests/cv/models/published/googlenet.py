"""torchvision's net without auxiliary classifiers; with them it has 13,004,888 parameters (test_googlenet.py)."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "googlenet"
FACTS = {"googlenet": Fact(6_624_904, TORCHVISION, 1498, least=15)}
