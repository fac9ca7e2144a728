"""torchvision's nets."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "squeezenet1_1"
FACTS = {
    "squeezenet1_0": Fact(1_248_424, TORCHVISION, 819, least=21),
    "squeezenet1_1": Fact(1_235_496, TORCHVISION, 349, least=17),
}
