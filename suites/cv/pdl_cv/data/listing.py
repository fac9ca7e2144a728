"""Images named by a list file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pdl.data.dataset import Sample, StandIn
from pdl.data.faults import DataFault, Fault
from pdl.data.listing import listed_files
from pdl.data.store import locate
from pdl.hints import Inherited, Range
from pdl_cv.data import standin
from pdl_cv.data.base import ImageFiles


class ImageList(ImageFiles):
    """Images and labels from a text file: a line for each, `path<TAB>label` or `path label`, or, where the list also
    tells the splits, `path<TAB>label<TAB>split`; empty lines are skipped.

    file     the list, UTF-8; a relative one is also looked for under PDL_DATA
    split    only the lines of this split; or, where `ratios` name it, it is cut out of those of train (of all lines, if
             they name no splits)
    ratios   such as {train: 0.9, val: 0.1}: every class is cut at these shares, in the order of a hash of the paths and
             `seed`; give all splits the same ratios
    root     what the paths are relative to; by default the list's folder
    classes  the class names: a list, or the path of a file with one name a line. A label is a number 0..n-1 or a
             name. Without it, the numbers in the file (of all splits) give the classes 0..largest, names give their
             sorted list; splits that are files of their own then may differ, so name the classes
    All else is as in `ImageFiles`.
    """

    def __init__(
        self,
        file: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        root: str | Path | None = None,
        classes: Sequence[str] | str | Path | None = None,
        **options: Inherited,
    ) -> None:
        self.file, self.split = locate(file), split
        files, self.lines = listed_files(
            type(self).__name__,
            self.file,
            what="images",
            split=split,
            ratios=ratios,
            seed=seed,
            root=root,
            classes=classes,
        )
        super().__init__(*files, seed=seed, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        names = settings.get("classes") or [f"digit {i}" for i in range(standin.CLASSES)]
        if isinstance(names, str) or len(names) > standin.CLASSES:
            return None
        file = standin.write_list(folder, list(names), splits=settings.get("split") is not None)
        return StandIn({"file": str(file), "root": None, **standin.whole(settings)}, "digits as images in a list")

    def __getitem__(self, index: int) -> Sample:
        try:
            return super().__getitem__(index)
        except DataFault as error:
            raise DataFault(self._with_line(error.fault, index)) from error.__cause__

    def fault_of(self, index: int) -> Fault | None:
        found = super().fault_of(index)
        return found and self._with_line(found, index)

    def _with_line(self, fault: Fault, index: int) -> Fault:
        return Fault(fault.path, index, f"{fault.what} (listed in {self.file}:{self.lines[index]})", fault.advice)
