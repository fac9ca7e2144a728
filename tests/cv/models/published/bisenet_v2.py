"""With the heads that only training has; the papers count none of these."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {"bisenet_v2": Fact(3_645_807, "counted here", None, 512)}
