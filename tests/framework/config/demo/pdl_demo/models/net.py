"""One family, with two variants."""

TASK = "fit"
VARIANTS = {
    "net_small": {"_target_": "pdl_demo.Net", "width": 8},
    "net_large": {"_target_": "pdl_demo.Net", "width": 64},
}
