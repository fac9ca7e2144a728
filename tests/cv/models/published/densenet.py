"""torchvision's nets, which are the paper's."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "densenet121"
FACTS = {
    "densenet121": Fact(7_978_856, TORCHVISION, 2834, least=29),
    "densenet161": Fact(28_681_000, TORCHVISION, 7728, least=29),
    "densenet169": Fact(14_149_480, TORCHVISION, 3360, least=29),
    "densenet201": Fact(20_013_928, TORCHVISION, 4291, least=29),
}
