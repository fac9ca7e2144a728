"""PaddleDetection prints millions, cut off after two digits. Earlier figures (0.99, 2.15 and 3.30 million in arXiv
2111.00902) are of the first form of the nets, on ESNet.
"""

from tests.cv.models.published import Fact

QUICK = "picodet_xs"
PADDLE = "PaddleDetection 2.4, configs/picodet/README.md"
COUNTED = [("xs", 704_254, "0.70"), ("s", 1_186_492, "1.18"), ("m", 3_465_316, "3.46"), ("l", 5_804_500, "5.80")]
FACTS = {
    f"picodet_{size}": Fact(parameters, PADDLE, None, image=320, small=64, millions=millions)
    for size, parameters, millions in COUNTED
}
