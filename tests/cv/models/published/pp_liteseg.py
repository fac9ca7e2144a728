"""Nobody publishes the parameters of the whole nets; those of STDC alone are in its paper."""

from tests.cv.models.published import Fact

QUICK = None
FACTS = {
    "pp_liteseg_t": Fact(6_813_376, "counted here", None, 512),
    "pp_liteseg_b": Fact(11_038_240, "counted here", None, 512),
}
