"""One family, with two variants, one of which has weights."""

from pdl.hub import Weights

TASK = "fit"
VARIANTS = {
    "net_small": {"_target_": "pdl_demo.Net", "width": 8},
    "net_large": {"_target_": "pdl_demo.Net", "width": 64},
}
WEIGHTS = {
    "net_small": Weights(
        file="net_small.safetensors",
        sha256="b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9",
        bytes=11,
        licence="Apache-2.0",
        source="the words 'hello world'",
    )
}
