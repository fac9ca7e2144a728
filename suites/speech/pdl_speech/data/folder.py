"""Recordings in folders, a folder a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdl.data.dataset import StandIn
from pdl.data.folders import class_folders
from pdl.hints import Inherited
from pdl_speech.audio.files import AUDIO_FILES
from pdl_speech.data import standin
from pdl_speech.data.recordings import AudioFiles


class AudioFolder(AudioFiles):
    """A folder for each class with its recordings at any depth; sorted by name, so the order never changes.

    root        the folder; a relative one is also looked for under PDL_DATA
    split       None: the classes lie in `root`. Otherwise train, val or test (or a folder of your own):
                the classes lie in root/<split>; or, where `ratios` name the split, it is cut out of root/train (of
                `root` itself if that has no train folder)
    ratios      such as {train: 0.8, val: 0.1, test: 0.1}: every class is cut at these shares, in the order of a hash of
                the files' paths and `seed`; give all splits the same ratios
    classes     the class list; by default the folders of train (or of the only level), sorted by name
    extensions  which files are recordings, lower case
    allow_empty  accept classes without recordings
    All else is as in `AudioFiles`.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
        classes: Sequence[str] | None = None,
        extensions: Sequence[str] = AUDIO_FILES,
        allow_empty: bool = False,
        **options: Inherited,
    ) -> None:
        files = class_folders(
            type(self).__name__,
            root,
            extensions,
            what="recordings",
            split=split,
            ratios=ratios,
            seed=seed,
            classes=classes,
            allow_empty=allow_empty,
        )
        super().__init__(*files, seed=seed, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        names = list(settings.get("classes") or standin.NAMES)
        if len(names) > len(standin.NAMES):
            return None
        standin.write_folders(folder, names, splits=settings.get("split") is not None)
        return StandIn({"root": str(folder), "ratios": None, "per_class": None}, "spoken digits as folders")
