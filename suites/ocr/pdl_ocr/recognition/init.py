"""Recipes as `pdl init ocr.recognition` writes them: for people's own lines of text, or of drawn lines for a script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.config.text import quoted
from pdl.data.faults import fault
from pdl.errors import UsageError, listed
from pdl.runtime.steps import Flag
from pdl.suites import suggest
from pdl.train.task import SPLITS
from pdl_ocr.data.drawable import counted, drawable
from pdl_ocr.data.lines import TextLines
from pdl_ocr.data.splits import splits_of, written
from pdl_ocr.data.synthetic import SyntheticLines
from pdl_ocr.models import ppocr, ppocr_v6
from pdl_ocr.scripts import SCRIPTS

FEWEST = 20  # lines
SEEN, ENOUGH = 100_000, 25_000  # lines to learn from, over all epochs; for a net that reads already
MEASURED = 500  # drawn lines that sizes are set by
LARGE = 1000  # characters, from which on the net is PP-OCR's
SOONER = (
    "# Few lines are learned faster by a net that reads already: model.pretrained=RUN, a run with the same net; or "
    "pdl init ... --pretrained ocr/ppocr_v4_rec."
)
FROM_RANDOM = (
    "# From random weights the first hundred thousand lines teach next to nothing; a net that reads already "
    "(--pretrained ocr/ppocr_v4_rec) learns sooner."
)


@dataclass(frozen=True)
class Net:
    """A net, and what suits it: the height of lines, columns of a step, distortions, and further settings; the width up
    to which short lines are padded, and what of it is frozen while it learns from few."""

    model: str
    height: int
    stride: int
    distortions: str
    optim: str = ""
    average: float = 0.998
    narrowest: int = 64
    frozen: str = ""

    @property
    def step(self) -> list[str]:
        """The recipe's lines on the optimiser."""
        return [f"optim: {self.optim}"] if self.optim else []


OWN = Net("{_target_: pdl_ocr.CRNN, backbone: vgg, width: 0.25, hidden: 96}", 32, 4, "words")
LARGER = Net("{_target_: pdl_ocr.SVTRLCNet, width: 0.95, stride: 8, dim: 120, heads: 8}", 48, 8, "words")
#: nets that read, PaddleOCR's and those that went on from there, by names of the hub
READING = {f"ocr/{name}": each for name, each in (ppocr.VARIANTS | ppocr_v6.VARIANTS).items()}

Script = Annotated[
    str | None, Flag("--script", "NAME", f"In place of --data: learn from drawn lines of {', '.join(SCRIPTS)}.")
]
Fonts = Annotated[
    str | None, Flag("--fonts", "DIR", "With --script: the folder (or a pattern) of font files to draw with.")
]
Texts = Annotated[
    str | None, Flag("--texts", "FILE", "With --script: text whose words are drawn; without, random characters.")
]
Pretrained = Annotated[
    str | None,
    Flag("--pretrained", "NAME", f"Begin with a net that reads, which learns sooner: {', '.join(READING)}."),
]


def write_recipe(
    data: Path | None = None,
    *,
    script: Script = None,
    fonts: Fonts = None,
    texts: Texts = None,
    pretrained: Pretrained = None,
) -> str:
    """The text of a recipe that learns to read the lines in `data`, of any format of `pdl_ocr.data.TextLines`; or, for
    the name of a script, lines that are drawn with the `fonts` that have its letters, of words of `texts`.

    Where there is no list or folder for each split, the lines are cut 8:1:1 by a hash of their images' paths. The
    characters are those of the lines for training; images are as wide as nearly all lines need. DataError for data that
    cannot be used.
    """
    if script is not None and data is not None:
        raise UsageError(
            "--data and --script are two recipes: learn from drawn lines first (--script NAME --fonts DIR --out "
            "drawn.yaml), then go on with your own (--data PATH; model.pretrained=RUN)"
        )
    if script is not None:
        return _of_script(script, fonts, texts, pretrained)
    if fonts is not None or texts is not None:
        raise UsageError(f"{'--texts' if fonts is None else '--fonts'} belongs to --script NAME, which draws lines")
    if data is None:
        raise UsageError(
            "what is to be learned? --data PATH names your own lines; --script NAME --fonts DIR draws lines of a script"
        )
    return _of_lines(data, OWN if pretrained is None else _reading(pretrained, 2.0e-4))


def _reading(name: str, rate: float) -> Net:
    """The net of this name of the hub, learned with this rate."""
    if name not in READING:
        others = "a run goes on with: pdl train model.pretrained=RUN"
        raise UsageError(f"--pretrained {name}: expected {', '.join(READING)}{suggest(name, READING)}; {others}")
    size = "".join(f", {key}: {value}" for key, value in READING[name].items() if key == "size")
    model = f"{{_target_: {READING[name]['_target_']}{size}, pretrained: {name}}}"
    return Net(model, 48, 8, "crops", f"{{lr: {rate:.1e}}}", 0.99, 320, ", freeze: batch_norm")


# -- lines that are there ----------------------------------------------------------------------------------------------
def _of_lines(data: Path, net: Net) -> str:
    splits = splits_of(TextLines, data)
    train = TextLines(**splits["train"])
    if len(train) < FEWEST:
        raise fault(data, f"{len(train)} lines for training; at least {FEWEST} are needed", "give more")
    characters = sorted({c for text in train.texts for c in text})
    longest = int(np.quantile([len(text) for text in train.texts], 0.99))
    wide = max(float(np.quantile(train.widths, 0.98)) * net.height, longest * 2 * net.stride)
    width = int(np.clip(-(-wide // 32) * 32, 64, 50 * net.height))
    batch = next((size for size in (64, 32, 16) if len(train) >= 20 * size), 8)
    seen, fewest, most = (SEEN, 5, 100) if net is OWN else (ENOUGH, 3, 30)
    epochs = int(np.clip(round(seen / len(train)), fewest, most))
    lines = [
        f"# {len(train):,} lines for training, {len(characters)} characters: {listed(characters, 30)}.",
        *([SOONER] if net is OWN else []),
        "defaults:",
        "  - /ocr/recognition",
        "  - /ocr/transforms/crops",
        "  - _self_",
        "task: {skip: true}",
        f"model: {net.model}",
        "data:",
        *(f"  {split}: {written(TextLines, splits[split])}" for split in SPLITS if split in splits),
        f"  batch_size: {batch}",
        *_sizes(net.height, width, net.narrowest),
        *net.step,
        f"train: {{epochs: {epochs}, ema: {net.average}{net.frozen}}}",
    ]
    return "\n".join(lines) + "\n"


# -- lines that are drawn ----------------------------------------------------------------------------------------------
def _of_script(script: str, fonts: str | None, texts: str | None, pretrained: str | None) -> str:
    """A recipe that learns from drawn lines alone."""
    found = drawable(script, fonts)
    characters, given, unseen, complete = found.characters, found.given, found.unseen, found.complete
    net = LARGER if len(characters) > LARGE else OWN
    if pretrained is not None:
        net = _reading(pretrained, 6.0e-4)
    settings: dict[str, Any] = {"complete": complete, "unseen": unseen}
    if texts is None:
        words = "Words are random characters; with --texts FILE, a text in the language, it learns to read that better."
        settings |= {"words": [1, 2], "length": [1, 16]}
    else:
        settings |= {"texts": Path(texts).expanduser().absolute(), "words": [1, 3], "length": [1, 25]}
        words = counted(settings["texts"], found, settings["length"][1])
    drawn = SyntheticLines(str(given), characters=script, count=MEASURED, **settings)
    wide = max(float(np.quantile(drawn.widths, 0.98)) * net.height, 12 * net.stride)
    width = int(np.clip(-(-wide // 32) * 32, 96, 50 * net.height))
    shared = {name: f"${{data.train.{name}}}" for name in ("fonts", "texts") if name == "fonts" or texts is not None}
    other = ", ".join(f'{name}: "{value}"' for name, value in shared.items())
    lines = [
        *found.said,
        f"# {words}",
        f"# {found.kept}",
        *([FROM_RANDOM] if pretrained is None else []),
        "# Then learn from real lines: pdl init ocr.recognition --data PATH, and pdl train with model.pretrained=RUN.",
        "defaults:",
        "  - /ocr/recognition",
        f"  - /ocr/transforms/{net.distortions}",
        "  - _self_",
        f"task: {{dictionary: {script}, skip: true, shortest_first: {'true' if pretrained is None else 'false'}}}",
        f"model: {net.model}",
        "data:",
        "  train: &drawn",
        "    _target_: pdl_ocr.data.SyntheticLines",
        f"    fonts: {quoted(given)}",
        f"    characters: {script}",
        *(f"    {name}: {quoted(value) if name == 'texts' else value}" for name, value in settings.items()),
        "    split: train",
        f"  val: {{<<: *drawn, {other}, split: val, count: 2000}}",
        f"  test: {{<<: *drawn, {other}, split: test, count: 2000}}",
        f"  batch_size: {64 if pretrained is None else 32}",
        "  workers: 2",
        *_sizes(net.height, width),
        *net.step,
        f"train: {{epochs: {5 if pretrained is None else 1}, ema: {net.average}}}",
    ]
    return "\n".join(lines) + "\n"


def _sizes(height: int, width: int, narrowest: int = 64) -> list[str]:
    """The transforms of evaluation with these sizes, which those of training follow."""
    return [
        "  transforms:",
        "    eval:",
        f"      - {{_target_: pdl.data.transforms.ResizeHeight, height: {height}, width: {width}}}",
        "      - {_target_: pdl.data.transforms.Normalize, mean: 0.5, std: 0.5}",
        f"      - {{_target_: pdl.data.transforms.PadTo, size: [{height}, {narrowest}], multiple: [{height}, 32]}}",
    ]
