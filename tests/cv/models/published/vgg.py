"""VGG: the multiply-adds of a net with batch norm are those of the net without."""

from tests.cv.models.published import TORCHVISION, Fact

QUICK = "vgg11_bn"
FACTS = {
    name: Fact(parameters, TORCHVISION, millions, least=32, options=(("hidden", 64),))
    for name, parameters, millions in [
        ("vgg11", 132_863_336, 7609),
        ("vgg13", 133_047_848, 11308),
        ("vgg16", 138_357_544, 15470),
        ("vgg19", 143_667_240, 19632),
        ("vgg11_bn", 132_868_840, 7609),
        ("vgg13_bn", 133_053_736, 11308),
        ("vgg16_bn", 138_365_992, 15470),
        ("vgg19_bn", 143_678_248, 19632),
    ]
}
