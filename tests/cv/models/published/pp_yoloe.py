"""PaddleDetection prints millions of the nets as they are deployed, each block of residual windows one convolution."""

from tests.cv.models.published import Fact

QUICK = "ppyoloe_plus_s"
PADDLE = "PaddleDetection 2.7, configs/ppyoloe/README.md"
COUNTED = [
    ("s", 8_084_594, "7.93"),
    ("m", 24_134_904, "23.43"),
    ("l", 54_078_574, "52.20"),
    ("x", 102_331_508, "98.42"),
]
FACTS = {
    f"ppyoloe_plus_{size}": Fact(parameters, PADDLE, None, image=640, small=64, millions=millions)
    for size, parameters, millions in COUNTED
}
