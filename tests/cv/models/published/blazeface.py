"""Neither the paper nor PaddleDetection prints a number; this is that of PaddleDetection's definition, counted."""

from tests.cv.models.published import Fact

QUICK = "blazeface"
FACTS = {"blazeface": Fact(115_584, "PaddleDetection 2.6, ppdet/modeling (counted here)", None, image=640, small=64)}
