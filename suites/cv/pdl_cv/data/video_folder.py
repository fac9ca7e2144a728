"""Clips in folders, a folder a class, and clips named by a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Annotated, Any

from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.data.folders import class_folders
from pdl.data.listing import listed_files
from pdl.data.store import locate
from pdl.hints import Inherited, Range
from pdl.runtime.headers import EXTENSIONS as IMAGES
from pdl_cv.data import standin
from pdl_cv.data.clips import ClipFiles
from pdl_cv.steps.clips import FILES


class VideoFolder(ClipFiles):
    """A folder for each class with its clips: video files (.mp4, .avi, .mov, .mkv, .webm, ...), arrays *.npy (uint8
    [T, H, W] or [T, H, W, 3]), and folders of frames, images that are read in the order of their names. Sorted by name,
    so the order never changes.

    root        the folder; a relative one is also looked for under PDL_DATA
    split       None: the classes lie in `root`. Otherwise train, val or test (or a folder of your own):
                the classes lie in root/<split>; or, where `ratios` name the split, it is cut out of root/train (of
                `root` itself if that has no train folder)
    ratios      such as {train: 0.8, val: 0.1, test: 0.1}: every class is cut at these shares by whole clips, in the
                order of a hash of their paths and `seed`; give all splits the same ratios
    classes     the class list; by default the folders of train (or of the only level), sorted by name
    allow_empty  accept classes without clips
    All else is as in `ClipFiles`.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
        classes: Sequence[str] | None = None,
        allow_empty: bool = False,
        **options: Inherited,
    ) -> None:
        self.split = split
        files = class_folders(
            type(self).__name__,
            root,
            (*FILES, *IMAGES),
            what="clips",
            split=split,
            ratios=ratios,
            seed=seed,
            classes=classes,
            allow_empty=allow_empty,
            joined=_clips,
        )
        loose = next((path for path in files.paths if path in files.classes), None)
        if loose is not None:
            what, advice = "images lie right in a class folder", "put the frames of each clip into a folder of its own"
            raise fault(files.root / loose, what, advice)
        super().__init__(*files, seed=seed, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        from pdl_cv.data.moving_digits import CLASSES, write_folders

        names = list(settings.get("classes") or CLASSES)
        if len(names) > len(CLASSES):
            return None
        write_folders(folder, names, splits=settings.get("split") is not None)
        return StandIn(
            {"root": str(folder), **standin.whole(settings)}, "moving digits as videos and folders of frames"
        )


class VideoList(ClipFiles):
    """Clips and labels from a text file: a line for each, `path<TAB>label` or `path label`, or, where the list also
    tells the splits, `path<TAB>label<TAB>split`; empty lines are skipped. A path is that of a video, of *.npy, or of a
    folder of frames.

    file     the list, UTF-8; a relative one is also looked for under PDL_DATA
    split    only the lines of this split; or, where `ratios` name it, it is cut out of those of train (of all lines, if
             they name no splits)
    ratios   such as {train: 0.9, val: 0.1}: every class is cut at these shares, in the order of a hash of the paths and
             `seed`; give all splits the same ratios
    root     what the paths are relative to; by default the list's folder
    classes  the class names: a list, or the path of a file with one name a line. A label is a number 0..n-1 or a name
    All else is as in `ClipFiles`.
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
            what="clips",
            split=split,
            ratios=ratios,
            seed=seed,
            root=root,
            classes=classes,
        )
        super().__init__(*files, seed=seed, **options)


def _clips(paths: Sequence[str]) -> list[str]:
    """Files of a class as clips: images are those of the folder that they lie in."""
    made = (str(PurePath(path).parent) if path.lower().endswith(IMAGES) else path for path in paths)
    return list(dict.fromkeys(made))
