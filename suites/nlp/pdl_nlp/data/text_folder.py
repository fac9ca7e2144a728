"""Texts in folders, a folder a class and a file a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pdl.data.dataset import StandIn
from pdl.data.faults import fault
from pdl.errors import ConfigError
from pdl.files import PACKED
from pdl.hints import Range
from pdl_nlp.data import standin
from pdl_nlp.data.base import SPLITS, Texts, part_of, require_some
from pdl_nlp.data.reading import Normal, locate, whole


class TextFolder(Texts):
    """A folder for each class with its texts at any depth, one in a file; sorted by name, so the order never changes.

    root        the folder; a relative one is also looked for below PDL_DATA
    split       None: the classes lie in `root`. Otherwise train, val or test: they lie in root/<split>; or, where
                `ratios` name the split, it is cut out of root/train (of `root` itself if that has no train folder)
    ratios      {train: 0.8, val: 0.1, test: 0.1}: by a hash of the text and `seed`, so equal texts stay together
    classes     only these folders, in this order; by default all of train (or of the only level), sorted by name
    extensions  which files are texts, lower case; with .gz, .bz2 or .xz they are unpacked
    normalise   a form of Unicode that texts are brought into, such as NFKC; by default they stay as they are written
    address     where missing data can be had, as `pdl.data.to_get` takes it
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        classes: Sequence[str] | None = None,
        extensions: Sequence[str] = (".txt",),
        normalise: Normal | None = None,
        address: str | None = None,
    ) -> None:
        self.root = top = locate(root, address)
        if not top.is_dir():
            raise fault(top, "not a folder", "name the folder that holds the class folders (root=)")
        cut = ratios is not None and split in ratios
        if ratios is not None and split is None:
            raise ConfigError("TextFolder: ratios are given but no split; add split=train (or val, test)")
        train = split_folder(top, "train")
        base = top if split is None else (train or top) if cut else split_folder(top, split)
        if base is None:
            raise fault(top, f"has no folder for split {split!r}", f"make {top / str(split)}, or cut it out by ratios")
        if split is None and train is not None:
            raise fault(top, "holds folders for splits, not classes", "add split=train (or val, test)")
        names = list(classes) if classes is not None else folders(train or base)
        if not names:
            raise fault(base, "holds no class folders", "make a folder for each class and put its texts there")
        endings = tuple(
            each for end in extensions for each in (end.lower(), *(f"{end.lower()}{packed}" for packed in PACKED))
        )
        found = [(path, name) for name in names for path in _files(base / name, endings)]
        require_some(base, len(found), split)
        texts = [whole(path, normalise) for path, _ in found]
        rows = part_of("TextFolder", texts, split, ratios if cut else None, seed)
        kept = range(len(found)) if rows is None else rows.tolist()
        require_some(base, len(kept), split)
        super().__init__(
            [texts[i] for i in kept], [found[i][1] for i in kept], sources=[found[i][0] for i in kept], classes=names
        )
        self.split = split

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        standin.write_folders(folder, settings)
        return StandIn({"root": str(folder)}, standin.WHAT)


def split_folder(top: Path, split: str) -> Path | None:
    """The folder of a split, under one of its usual names."""
    return next((top / name for name in SPLITS.get(split, (split,)) if (top / name).is_dir()), None)


def folders(base: Path) -> list[str]:
    """The folders in a folder that are not hidden, by name."""
    return sorted(each.name for each in base.iterdir() if each.is_dir() and not each.name.startswith("."))


def _files(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.name.lower().endswith(endings) and each.is_file())
