"""Clips in one npz file, their splits in lists of names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault, unreadable
from pdl.data.image import Mode
from pdl.data.labelled import cut, official_split
from pdl.data.store import locate
from pdl.errors import ConfigError
from pdl.files import read_bytes
from pdl.hints import Range
from pdl.runtime.arrays import read_arrays
from pdl_cv.data.clips import ClipArrays

NAME, MOST = "clips.npz", 4 << 30
SPLITS = ("train", "val", "test")


class ClipArchive(ClipArrays):
    """Clips of one size and length in the arrays of a file: "video" uint8 [N, T, H, W] or [N, T, H, W, 3], "label"
    whole numbers [N] from 0 on, and, if there are, "classes" (the names of the classes) and "name" (of each clip).

    root    the folder with clips.npz, and for each split a list of names such as train.txt; a relative one is also
            looked for under PDL_DATA
    split   train, val or test: the clips in the list of that name; others where `ratios` cut them out of train; null:
            all clips
    ratios  {train: 0.8, val: 0.2}: shares of train, of each class alike, in an order drawn with `seed`
    mode    rgb or gray; by default as the clips are
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
        mode: Mode | None = None,
    ) -> None:
        folder = locate(root)
        if ratios is not None and split is None:
            raise ConfigError("ClipArchive: ratios are given but no split; add split=train (or val, test)")
        file, self.split = folder / NAME, split
        arrays = _arrays(file)
        video, labels = arrays["video"], arrays["label"].astype(np.int64)
        classes = [str(name) for name in arrays.get("classes", range(int(labels.max(initial=0)) + 1))]
        if labels.min(initial=0) < 0 or labels.max(initial=0) >= len(classes):
            raise fault(file, f"labels must be from 0 to {len(classes) - 1}, the classes' numbers", "correct them")
        rows = np.arange(len(labels))
        if split is not None:
            part = official_split("ClipArchive", split, ratios, SPLITS)
            rows = _listed(file, arrays, folder / f"{part}.txt")
            rows, _ = cut(rows, labels[rows], split, ratios, seed)
        clips = video[rows]
        super().__init__(
            clips[..., None] if video.ndim == 4 else clips, labels[rows], classes, mode=mode, source=str(file)
        )

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        from pdl_cv.data.moving_digits import MovingDigits

        clips, labels, names = list[np.ndarray](), list[np.ndarray](), list[str]()
        for split, count in (("train", 96), ("val", 24), ("test", 40)):
            data = MovingDigits(split=split, count=count, side=40)  # type: ignore[arg-type]
            clips, labels = [*clips, data.clips[..., 0]], [*labels, data.labels]
            own = [f"{split}-{k}" for k in range(count)]
            names += own
            (folder / f"{split}.txt").write_text("\n".join(own) + "\n", encoding="utf-8")
        np.savez(folder / NAME, video=np.concatenate(clips), label=np.concatenate(labels),
                 classes=np.array(data.classes), name=np.array(names))  # fmt: skip
        return StandIn({"root": str(folder)}, "moving digits as arrays")


def _arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays of the file, looked over."""
    try:
        found = read_arrays(file, ("video", "label", "classes", "name"), MOST)
    except OSError as error:
        raise unreadable(file, error) from error
    except ValueError as error:
        raise fault(file, f"cannot be read: {error}", "write it again with numpy.savez") from error
    video, label = found.get("video"), found.get("label")
    if video is None or label is None:
        raise fault(file, f"has {', '.join(found) or 'no arrays'}, not video and label", "write both")
    good = (
        video.dtype == np.uint8 and (video.ndim == 4 or (video.ndim == 5 and video.shape[4] in (1, 3))) and video.size
    )
    good = bool(good) and label.shape == video.shape[:1] and label.dtype.kind in "iu"
    names = found.get("name")
    if not good or (names is not None and (names.shape != label.shape or len(set(names.tolist())) < len(names))):
        what = f"video {video.dtype} {video.shape}, label {label.dtype} {label.shape}"
        raise fault(
            file, what, "expected uint8 [N, T, H, W] or [N, T, H, W, 3], whole numbers [N], and names that differ"
        )
    return found


def _listed(file: Path, arrays: Mapping[str, np.ndarray], path: Path) -> np.ndarray:
    """The rows of the clips whose names are in a list."""
    if "name" not in arrays:
        raise fault(file, "has no names of clips, by which lists choose them", "write an array name, or split: null")
    try:
        wanted = read_bytes(path, 1 << 28).decode("utf-8").split("\n")
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise fault(path, "not UTF-8 text", "save the list as UTF-8") from error
    row = {str(name): k for k, name in enumerate(arrays["name"].tolist())}
    names = [name.strip() for name in wanted if name.strip()]
    unknown = next((k for k, name in enumerate(names) if name not in row), None)
    if unknown is not None or not names:
        what = "names no clip" if unknown is None else f"{names[unknown]!r:.60} is the name of no clip in {NAME}"
        raise fault(path, what, "write a name a line")
    return np.array([row[name] for name in names])
