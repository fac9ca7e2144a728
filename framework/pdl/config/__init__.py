"""Recipes: composed by hydra, checked as a whole, then built.

    cfg = pdl.config.load("configs/cv/digits_lenet.yaml", ["train.epochs=3"])   # text -> tree; knows file and line
    pdl.config.check(cfg, Schema)                 # every fault at once, before anything is built; Schema is a dataclass
    model = pdl.config.build(cfg["model"])        # tree -> objects
    pdl.config.dump(cfg, "runs/digits")           # resolved config.yaml; load("runs/digits") equals cfg

A part is named by its public import path (`_target_: pdl_cv.LeNet`) and gets the other keys as keyword arguments;
which keys, types and ranges it takes is read from its constructor's signature (`Annotated[float, Range(0, 1)]`,
`Literal["a", "b"]`). Many have a short name, too: `model: resnet18`, `optim: {_target_: sgd, lr: 0.1}`.

    pdl.config.keys(Schema, ["train"])            # every key with type, range, default and meaning
    pdl.config.parts("optimizers")                # what there is, by short name
"""

from pdl.config.building import build
from pdl.config.checks import check, faults, from_dict
from pdl.config.compose import load
from pdl.config.keys import KeyInfo, keys, with_defaults
from pdl.config.parts import Named, parts
from pdl.config.text import Difference, diff, dump, show, to_yaml
from pdl.config.tree import Config, Fault, Origin
from pdl.hints import Choice, Range

__all__ = [
    "Choice", "Config", "Difference", "Fault", "KeyInfo", "Named", "Origin", "Range",
    "build", "check", "diff", "dump", "faults", "from_dict", "keys", "load", "parts", "show", "to_yaml",
    "with_defaults",
]  # fmt: skip
