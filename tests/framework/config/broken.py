# ruff: noqa: E501
"""Broken configs, a line each: what was done to a good recipe, and what the message must contain.

`edit` replaces text of GOOD; `text` is a whole file; `overrides` are given on the command line. Every `says` is a part of the message;
`{recipe}` stands for the file's path.
"""

from __future__ import annotations

from dataclasses import dataclass

GOOD = """\
defaults:
  - /demo/base
  - _self_
model:
  _target_: pdl_demo.Net
  width: 8
  dropout: 0.1
data:
  train: {_target_: pdl_demo.Points, split: train, n: 64}
  val: {_target_: pdl_demo.Points, split: val, n: 16}
  transforms:
    train:
      - {_target_: pdl_demo.Jitter, sigma: 0.1}
train:
  epochs: 2
"""


@dataclass(frozen=True)
class Broken:
    """One broken config."""

    name: str
    says: tuple[str, ...]
    edit: tuple[str, str] | None = None
    text: str | None = None
    overrides: tuple[str, ...] = ()

    def recipe(self) -> str:
        """The text of the file."""
        if self.text is not None:
            return self.text
        if self.edit is None:
            return GOOD
        assert GOOD.count(self.edit[0]) == 1, f"{self.name}: the edit must match once"
        return GOOD.replace(*self.edit)


def _edit(name: str, old: str, new: str, *says: str) -> Broken:
    return Broken(name, says, edit=(old, new))


def _text(name: str, text: str, *says: str) -> Broken:
    return Broken(name, says, text=text)


def _over(name: str, override: str, *says: str) -> Broken:
    return Broken(name, (f"command line: {override}", *says), overrides=(override,))


# fmt: off
BROKEN = [
    # keys
    _edit("unknown key", "epochs: 2", "epochz: 2", "{recipe}:15: train.epochz: unknown key; did you mean 'epochs'?"),
    _edit("unknown top-level key", "train:\n  epochs", "trian:\n  epochs", "{recipe}:14: trian: unknown key; did you mean 'train'?"),
    _edit("unknown argument of a part", "dropout: 0.1", "drop_out: 0.1", "{recipe}:7: model.drop_out: unknown key; did you mean 'dropout'?"),
    _edit("unknown key in data", "  val: {", "  vall: {", "{recipe}:10: data.vall", "did you mean 'val'?"),
    _edit("unknown argument in a list", "sigma: 0.1", "sigma: 0.1, seed: 3", "{recipe}:13: data.transforms.train.0.seed: unknown key"),
    _edit("missing argument", "  width: 8\n", "", "{recipe}:4: model.width: missing; pdl_demo.Net needs a whole number >= 1 here"),
    _edit("missing section", "model:\n  _target_: pdl_demo.Net\n  width: 8\n  dropout: 0.1\n", "", "{recipe}: model: missing; expected a pdl.nn.Module here"),
    _edit("missing argument in a list", ", sigma: 0.1", "", "{recipe}:13: data.transforms.train.0.sigma: missing; pdl_demo.Jitter needs"),
    _edit("value left open", "width: 8", "width: ???", "{recipe}:6: model.width: a value must be given"),
    _edit("value left open, used twice", "n: 64}", "n: '???'}\n  test: {_target_: pdl_demo.Points, split: test, n: '${data.train.n}'}", "{recipe}:9: data.train.n: a value must be given"),
    _edit("value left open in braces", "n: 64}", "n: ???}", "{recipe}:9: not valid YAML", "in quotes: '???'"),
    _edit("argument of the program", "train:\n  epochs", "optim: {params: 3}\ntrain:\n  epochs", "optim.params", "given by the program"),
    _edit("hydra settings", "train:\n  epochs", "hydra: {run: {dir: x}}\ntrain:\n  epochs", "{recipe}:14: hydra"),
    # types and ranges
    _edit("text for int", "epochs: 2", "epochs: ten", "{recipe}:15: train.epochs: expected a whole number >= 1, got 'ten' (text)"),
    _edit("quoted int", "epochs: 2", "epochs: '2'", "{recipe}:15: train.epochs", "remove the quotes"),
    _edit("float for int", "epochs: 2", "epochs: 2.5", "{recipe}:15: train.epochs", "got 2.5 (float)"),
    _edit("exponent for int", "epochs: 2", "epochs: 1e2", "{recipe}:15: train.epochs", "write 100"),
    _edit("bool for int", "epochs: 2", "epochs: true", "{recipe}:15: train.epochs", "got true (true/false)"),
    _edit("null for int", "epochs: 2", "epochs:", "{recipe}:15: train.epochs", "got null"),
    _edit("list for int", "epochs: 2", "epochs: [2]", "{recipe}:15: train.epochs", "got a list of 1"),
    _edit("text for bool", "epochs: 2", "epochs: 2\n  tensorboard: 'yes'", "{recipe}:16: train.tensorboard: expected true or false"),
    _edit("below the range", "epochs: 2", "epochs: 0", "{recipe}:15: train.epochs: 0 is out of range: expected a whole number >= 1"),
    _edit("at an open end", "dropout: 0.1", "dropout: 1", "{recipe}:7: model.dropout: 1 is out of range", ">= 0 and < 1"),
    _edit("not a number", "dropout: 0.1", "dropout: .nan", "{recipe}:7: model.dropout: nan is out of range"),
    _edit("no such choice", "split: train,", "split: trian,", "{recipe}:9: data.train.split", "did you mean 'train'?"),
    _edit("no such choice of a table", "width: 8", "width: 8\n  init: zeroes", "{recipe}:7: model.init", "did you mean 'zeros'?"),
    _edit("tuple of a wrong length", "width: 8", "width: 8\n  kernel: [3, 3, 3]", "{recipe}:7: model.kernel", "list of 2", "3 items"),
    _edit("wrong item in a list", "width: 8", "width: 8\n  stages: [2, two]", "{recipe}:7: model.stages.1", "got 'two'"),
    _edit("a section that is no mapping", "train:\n  epochs: 2", "train: 2", "{recipe}:14: train: expected a mapping, got 2 (int); its keys are epochs,"),
    # parts
    _edit("unknown part", "pdl_demo.Net", "pdl_demo.Nett", "{recipe}:5: model._target_: 'pdl_demo.Nett' does not exist", "'pdl_demo.Net'?"),
    _edit("part in lower case", "pdl_demo.Net", "pdl_demo.net", "{recipe}:5: model._target_", "did you mean 'pdl_demo.Net'?"),
    _edit("part of another kind", "pdl_demo.Net", "pdl_demo.Points", "{recipe}:5: model._target_: expected a pdl.nn.Module"),
    _edit("outside of the suites", "pdl_demo.Net", "os.system", "{recipe}:5: model._target_: 'os.system' is refused"),
    _edit("through a suite to outside", "pdl_demo.Net", "pdl_demo.system.getcwd", "{recipe}:5: model._target_", "leads outside"),
    _edit("private part", "pdl_demo.Net", "pdl_demo._Net", "{recipe}:5: model._target_", "private"),
    _edit("suite that is not installed", "pdl_demo.Net", "pdl_nlp.Bert", "{recipe}:5: model._target_", "pip install pdl-nlp"),
    _edit("target that is no text", "pdl_demo.Net", "3", "{recipe}:5: model._target_: expected an import path"),
    _edit("part without a target", "  _target_: pdl_demo.Net\n", "", "{recipe}:4: model: expected a pdl.nn.Module", "_target_"),
    _edit("unknown defaults part", "/demo/base", "/demo/bass", "{recipe}:2: defaults: there is no part 'demo/bass'", "'demo/base'?"),
    _edit("defaults without self", "  - _self_\n", "", "{recipe}:2: the defaults list has no `- _self_`"),
    # aliases and depth
    _edit("alias inside itself", "dropout: 0.1", "stages: &a [*a]", "{recipe}:7: an alias (*name) stands inside of what it is an alias of (&name)"),
    _edit("mapping inside itself", "train:\n  epochs", "train: &t\n  early: {stop: *t}\n  epochs", "{recipe}:14: an alias (*name) stands inside"),
    _edit("merged with itself", "train:\n  epochs", "train: &t\n  <<: *t\n  epochs", "{recipe}:14: an alias (*name) stands inside"),
    _edit("aliases of aliases", "  width: 8\n", "  width: 8\n  stages:\n    - &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(f"    - &x{i} [{', '.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 12)), "{recipe}:12: stands for more than 100,000 values"),
    _edit("deeply nested", "dropout: 0.1", f"stages: {'[' * 60}{']' * 60}", "{recipe}:7: not valid YAML: nested more than 40 levels deep"),
    _edit("nested without end", "dropout: 0.1", f"stages: {'[' * 1500}{']' * 1500}", "{recipe}:7: not valid YAML: nested more than 40 levels deep"),
    _edit("a chain of aliases", "  width: 8\n", "  width: 8\n  stages:\n    - &x0 [1]\n" + "".join(f"    - &x{i} [*x{i - 1}]\n" for i in range(1, 50)), "nested more than 40 levels deep"),
    _edit("interpolations of interpolations", "  width: 8\n", "  width: 8\n  stages:\n    x0: [1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join("    x" + str(i) + ": [" + ", ".join([f"'${{model.stages.x{i - 1}}}'"] * 8) + "]\n" for i in range(1, 12)), "{recipe}:", "interpolations stand for too many values"),
    # interpolation
    _edit("interpolation of no key", "width: 8", "width: ${train.width}", "{recipe}:6: model.width", "'train.width' not found"),
    _edit("interpolation of no variable", "width: 8", "width: ${oc.env:PDL_NOT_SET}", "{recipe}:6: model.width", "PDL_NOT_SET"),
    _edit("interpolation of itself", "width: 8", "width: ${model.width}", "{recipe}:6: model.width", "interpolation"),
    _edit("interpolation cut short", "width: 8", "width: ${train.epochs", "{recipe}:6: model.width: cannot be read"),
    # text
    _edit("key written twice", "  width: 8\n", "  width: 8\n  width: 9\n", "{recipe}:7: model.width: written twice (also on line 6)"),
    _edit("tab", "  width: 8", "\twidth: 8", "{recipe}:6: not valid YAML", "spaces, not tabs"),
    _edit("open bracket", "split: train, n: 64}", "split: train, n: 64", "{recipe}:10: not valid YAML"),
    _edit("colon in text", "width: 8", "width: 8: 9", "{recipe}:6: not valid YAML", "indentation"),
    _edit("python object", "width: 8", "width: !!python/name:os.system", "{recipe}:6", "YAML"),
    _edit("key that is no text", "  width: 8\n", "  on: 8\n", "{recipe}:6: the key 'on' is read by YAML as a bool; put it in quotes"),
    _text("empty file", "", "{recipe}:1: the file is empty"),
    _text("only comments", "# nothing here\n", "{recipe}:1: the file is empty"),
    _text("a list", "- model\n- data\n", "{recipe}:1: expected a mapping"),
    _text("a scalar", "hello\n", "{recipe}:1: expected a mapping"),
    _text("two documents", "train: {epochs: 2}\n---\ntrain: {epochs: 3}\n", "{recipe}:2", "one YAML document"),
    # overrides
    _over("override of an unknown key", "train.epochz=3", "unknown key; did you mean 'epochs'?", "keys here: accumulate,"),
    _over("override of an unknown section", "trian.epochs=3", "did you mean 'train'?"),
    _over("override out of range", "train.epochs=0", "0 is out of range"),
    _over("override of a wrong type", "train.epochs=ten", "expected a whole number >= 1, got 'ten' (text)"),
    _over("override without a value", "train.epochs", "key=value"),
    _over("override with several values", "train.epochs=1,2", "several values"),
    _over("override cut short", "model.stages=[1", "not an override that can be read"),
    _over("removal of no key", "~train.epoch", "did you mean 'train.epochs'?"),
    _over("addition of a known key", "+train.epochs=3", "drop the plus"),
    _over("no such list item", "data.transforms.train.7.sigma=1", "no such place in that list"),
    _over("override of another part", "model._target_=pdl_demo.Nett", "did you mean 'pdl_demo.Net'?"),
    _over("removal of what is needed", "~model.width", "missing; pdl_demo.Net needs"),
]
# fmt: on
