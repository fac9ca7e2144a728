"""Pages in image files, with where their lines of text are."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Sample, StandIn, digest
from pdl.data.faults import Fault
from pdl.data.image import Mode, check_mode, fault_of, read_image
from pdl.errors import DataError
from pdl.hints import Range
from pdl_ocr.data import standin
from pdl_ocr.data.lines import file_size, folder_of, image_size, located, of_split
from pdl_ocr.data.readers import Line, read_all


class TextPages(Dataset):
    """Sample i is a page: {"image": uint8 [H, W, C], "points": float32 [Q, 2], "corners": int64 [n], "ignored": bool
    [n]}: the corners (x, y) of its n lines one line after the other, how many each has, and which lines are marked as
    unreadable (`###`), so that they neither teach nor count.

    Formats are those of `TextLines` that tell of pages: PaddleOCR's labels, `path<TAB>[{"transcription", "points"},
    ...]`, with polygons of any number of corners; ICDAR's files of boxes beside the pages, or in a folder `box/`:
    `x1,y1,...,x4,y4,text` (2015, SROIE) and `x1, y1, x2, y2, "text"` (2013).

    path     the list, or the folder; a relative one is also looked for below PDL_DATA
    split    of a folder with a list or folder for each split; or, with `ratios`, the part that is cut out
    ratios   such as {train: 0.9, val: 0.1}: cut by a hash of the paths of the pages; give all splits the same
    seed     of that cut
    root     what the paths in a list are relative to; by default its folder
    mode     rgb or gray
    """

    foldable = True

    def __init__(
        self,
        path: str | Path,
        *,
        split: Literal["train", "val", "test"] | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        root: str | Path | None = None,
        mode: Mode = "rgb",
    ) -> None:
        check_mode("TextPages", mode)
        self.path, self.mode = located(path), mode
        lines = read_all(self.path, None if split is None else str(split), None if root is None else located(root))
        alone = next((line for line in lines if line.polygon is None), None)
        if alone is not None:
            raise DataError(
                f"{self.path}: its images are lines ({alone.image.name}: {alone.text!r:.40}), not pages with polygons; "
                "detection needs lists with points, or files of boxes. To read lines, use pdl_ocr.data.TextLines"
            )
        if ratios is not None and split is not None:
            lines = of_split("TextPages", lines, self.path, ratios, split, seed)
        if not lines:
            raise DataError(f"{self.path}: no pages{f' for split {split!r}' if split else ''} are there")
        self.pages = dict[Path, list[Line]]()
        for line in lines:
            self.pages.setdefault(line.image, []).extend([line] if line.polygon else [])
        self.images = list(self.pages)
        self.root = folder_of(self.path, self.images)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        image = read_image(self.images[index], mode=self.mode, index=index)
        return {"image": image, **self.annotation(index)}

    def annotation(self, index: int) -> Sample:
        """All of sample `index` but the image, which is not read."""
        lines = self.pages[self.images[index]]
        points = [point for line in lines for point in line.polygon or ()]
        return {
            "points": np.array(points, np.float32).reshape(-1, 2),
            "corners": np.array([len(line.polygon or ()) for line in lines], np.int64),
            "ignored": np.array([not line.is_read for line in lines], bool),
        }

    def texts(self, index: int) -> list[str]:
        """What the lines of a page say."""
        return [line.text for line in self.pages[self.images[index]]]

    def size_of(self, index: int) -> tuple[int, int]:
        """(height, width) of a page, from the head of its file."""
        width, height = image_size(self.images[index])
        return height, width

    @cached_property
    def fingerprint(self) -> str:
        """A hash of paths, sizes of files, polygons and texts."""
        lines = [f"{image.name} {line.polygon} {line.text}" for image in self.images for line in self.pages[image]]
        sizes = np.array([file_size(image) for image in self.images], np.int64)
        return digest(type(self).__name__, *(image.name for image in self.images), *lines, sizes)

    def path_of(self, index: int) -> str:
        return str(self.images[index])

    def fault_of(self, index: int) -> Fault | None:
        return fault_of(self.images[index], index=index)

    # -- folds ---------------------------------------------------------------------------------------------------------
    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        return cls._of(datasets[0], {image: each.pages[image] for each in datasets for image in each.images})

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        return self._of(self, {self.images[row]: self.pages[self.images[row]] for row in rows})

    @staticmethod
    def _of(like: TextPages, pages: dict[Path, list[Line]]) -> TextPages:
        """A data set as another one, of other pages."""
        found = copy.copy(like)
        found.__dict__.pop("fingerprint", None)
        found.pages, found.images = pages, list(pages)
        found.root = folder_of(found.path, found.images)
        return found

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """Pages on which OpenCV writes words, in a list of PaddleOCR's."""
        split = settings.get("split")
        file = standin.write_pages(folder, split if isinstance(split, str) and not settings.get("ratios") else "train")
        kept = {"split": split, "ratios": settings["ratios"]} if settings.get("ratios") else {"split": None}
        return StandIn({"path": str(file), "root": None, **kept}, "pages with words that OpenCV draws")
