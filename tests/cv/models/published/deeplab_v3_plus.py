"""Nobody publishes the parameters of this backbone with separable convolutions throughout."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {"deeplab_v3_plus_mobilenet_v2": Fact(2_719_813, "counted here", None, 512)}
