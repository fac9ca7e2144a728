"""PaddleClas gives 1.5, 1.6, 1.9, 2.4, 3.0, 4.5, 6.5 and 9.0 M parameters (statistics of the norms counted), and
multiply-adds with two for each value of a norm; timm has five of the nets, counted exactly. The others follow from the
same table of blocks.
"""

from tests.cv.models.published import Fact

QUICK = "lcnet_050"
TIMM, ROUNDED = "timm 1.0.31", "PaddleClas, docs/en/models/PP-LCNet_en.md (rounded there)"
COUNTED = [
    ("025", 1_522_464, ROUNDED, 18),
    ("035", 1_644_370, TIMM, 29),
    ("050", 1_880_856, TIMM, 47),
    ("075", 2_358_288, TIMM, 99),
    ("100", 2_953_800, TIMM, 161),
    ("150", 4_501_112, TIMM, 342),
    ("200", 6_522_792, ROUNDED, 590),
    ("250", 9_018_840, ROUNDED, 906),
]
FACTS = {
    f"lcnet_{width}": Fact(parameters, source, millions, counted_by=ROUNDED, norms=2)
    for width, parameters, source, millions in COUNTED
}
