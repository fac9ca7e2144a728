"""Images in folders, a folder a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pdl.data.dataset import StandIn
from pdl.data.folders import class_folders
from pdl.data.image import EXTENSIONS
from pdl.hints import Inherited, Range
from pdl_cv.data import standin
from pdl_cv.data.base import ImageFiles


class ImageFolder(ImageFiles):
    """A folder for each class with its images at any depth; sorted by name, so the order never changes.

    root        the folder; a relative one is also looked for under PDL_DATA
    split       None: the classes lie in `root`. Otherwise train, val or test (or a folder of your own):
                the classes lie in root/<split>; or, where `ratios` name the split, it is cut out of root/train (of
                `root` itself if that has no train folder)
    ratios      such as {train: 0.8, val: 0.1, test: 0.1}: every class is cut at these shares, in the order of a hash of
                the files' paths and `seed`; give all splits the same ratios
    classes     the class list; by default the folders of train (or of the only level), sorted by name
    extensions  which files are images, lower case
    allow_empty  accept classes without images
    depth       how deep class folders lie: 2 of ALPHABET/CHARACTER, which is then the name of a class
    All else is as in `ImageFiles`.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
        classes: Sequence[str] | None = None,
        extensions: Sequence[str] = EXTENSIONS,
        allow_empty: bool = False,
        depth: Annotated[int, Range(1)] = 1,
        **options: Inherited,
    ) -> None:
        self.split = split
        files = class_folders(
            type(self).__name__,
            root,
            extensions,
            what="images",
            split=split,
            ratios=ratios,
            seed=seed,
            classes=classes,
            allow_empty=allow_empty,
            depth=depth,
        )
        super().__init__(*files, seed=seed, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        above = "digits/" * (settings.get("depth", 1) - 1)
        names = list(settings.get("classes") or (f"{above}digit {i}" for i in range(standin.CLASSES)))
        if len(names) > standin.CLASSES:
            return None
        standin.write_folders(
            folder, names, splits=settings.get("split") is not None, gray=settings.get("mode") == "gray"
        )
        return StandIn({"root": str(folder), **standin.whole(settings)}, "digits as folders of images")
