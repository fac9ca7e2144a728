"""What `pdl models` lists of this suite can be written into a recipe."""

from __future__ import annotations

import inspect

from pdl.config.signature import signature
from pdl.hub.catalogue import catalogue
from pdl.suites import locate, model_families
from pdl_rec import models

BASES = {"MatchingModel", "SequenceModel", "TwoTower"}


def test_every_model_is_listed_and_takes_what_its_variants_say() -> None:
    listed = {each.target.rpartition(".")[2] for each in catalogue() if each.suite == "rec"}
    assert listed == {name for name, value in vars(models).items() if inspect.isclass(value)} - BASES
    for suite, family in model_families():
        for variant in family.VARIANTS.values() if suite.name == "rec" else ():
            assert variant.keys() - {"_target_"} <= set(signature(locate(variant["_target_"])).arguments)
