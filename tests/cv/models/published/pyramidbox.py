"""Neither the paper nor the authors' code prints a number; this is that of their layers, counted: VGG-16's convolutions
(14,714,688), fc6 and fc7, the four layers behind them, the six of LFPN, six modules of context, three norms, and 20
channels for each map: 8 of the face, 6 of the head, 6 of the body.
"""

from tests.cv.models.published import Fact

QUICK = None
COUNTED = "arXiv 1803.07737, PaddlePaddle/models (counted here)"
FACTS = {"pyramidbox": Fact(57_318_968, COUNTED, None, image=640, small=64)}
