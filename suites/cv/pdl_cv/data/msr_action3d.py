"""MSR-Action3D: Li, Zhang, Liu, Action recognition based on a bag of 3D points, CVPR workshops 2010."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.dataset import StandIn
from pdl.data.faults import fault, unreadable
from pdl.data.store import locate
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.files import read_bytes
from pdl.runtime.arrays import read_arrays
from pdl_cv.data.skeletons import SkeletonArrays, waving

CLASSES = (
    "high arm wave", "horizontal arm wave", "hammer", "hand catch", "forward punch", "high throw", "draw x",
    "draw tick", "draw circle", "hand clap", "two hand wave", "side-boxing", "bend", "forward kick", "side kick",
    "jogging", "tennis swing", "tennis serve", "golf swing", "pick up & throw",
)  # fmt: skip
SUBJECTS = {"train": (1, 3, 5, 7, 9), "test": (2, 4, 6, 8, 10)}
JOINTS, CENTRE = 20, 6
EDGES = (
    (2, 19), (0, 2), (1, 2), (0, 7), (7, 9), (9, 11), (1, 8), (8, 10), (10, 12), (2, 3), (3, 6), (4, 6), (5, 6),
    (4, 13), (13, 15), (15, 17), (5, 14), (14, 16), (16, 18),
)  # fmt: skip
FOCUS, DEPTH = 285.0, 250.0  # pixels, and units of depth in a metre
NAME = re.compile(r"a(\d+)_s(\d+)_e(\d+)_skeleton\.txt")
MOST = 1 << 28
AGAIN = "get the skeletons of the data set again (files aNN_sNN_eNN_skeleton.txt in screen coordinates)"


class MSRAction3D(SkeletonArrays):
    """567 sequences of 20 actions that 10 people do in front of a depth camera: 20 joints in metres, x to the right, y
    down, z away from the camera.

    root      the folder with the files aNN_sNN_eNN_skeleton.txt (action, subject and trial in the name; lines x y z
              confidence, 20 for each frame, x and y pixels of 320 x 240, z depth), or msraction3d.npz with the same
              numbers: xyz [frames, 20, 3], offset [N + 1], action, subject [N]; a relative one is also looked for under
              PDL_DATA
    split     train (subjects 1, 3, 5, 7 and 9) or test (the others): the cross-subject protocol
    subjects  those of the split, in place of these

    Joints that the camera has lost, 0 in all numbers, get places between those before and after. The one sequence that
    holds nothing else, of subject 9, is left out.
    """

    def __init__(self, root: str | Path, *, split: str = "train", subjects: Sequence[int] | None = None) -> None:
        place = locate(root)
        if subjects is None and split not in SUBJECTS:
            raise ConfigError(
                f"MSRAction3D: split={split!r} is none of {', '.join(SUBJECTS)}; or give it subjects=[...]"
            )
        wanted = set(SUBJECTS[split] if subjects is None else subjects)
        sequences, labels = [], []
        for x, action, subject in _sequences(place):
            if subject in wanted and x.any():
                sequences.append(in_metres(between(x)))
                labels.append(action - 1)
        if not sequences:
            raise fault(place, f"no sequences of the subjects {sorted(wanted)}", AGAIN)
        self.split = split
        super().__init__(sequences, np.array(labels), CLASSES, edges=EDGES, centre=CENTRE, source=str(place))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        sequences, subjects, actions = [], [], []
        for subject in range(1, 11):
            made, labels = waving(len(CLASSES), 1, JOINTS, subject)
            sequences += [np.abs(x * 20 + (160, 120, 700)) for x in made]
            subjects += [subject] * len(made)
            actions += (labels + 1).tolist()
        offsets = np.cumsum([0, *map(len, sequences)])
        np.savez(folder / "msraction3d.npz", xyz=np.concatenate(sequences).astype(np.float32), offset=offsets,
                 action=np.array(actions), subject=np.array(subjects))  # fmt: skip
        return StandIn({"root": str(folder)}, "made sequences in the form of MSR-Action3D")


def between(x: Array) -> Array:
    """Joints [T, V, 3] with those that are 0 in all numbers put between their places before and after, linearly."""
    made = np.array(x, np.float64)
    time = np.arange(len(x))
    for joint in range(x.shape[1]):
        there = made[:, joint].any(axis=1)
        if there.any() and not there.all():
            for axis in range(x.shape[2]):
                made[:, joint, axis] = np.interp(time, time[there], made[there, joint, axis])
    return made


def in_metres(x: Array) -> Array:
    """Pixels and depth [T, V, 3] as places in space, float32, by a pinhole camera of 320 x 240 pixels."""
    depth = x[..., 2:] / DEPTH
    flat = (x[..., :2] - (160, 120)) * depth / FOCUS
    return np.concatenate([flat, depth], axis=-1).astype(np.float32)


def _sequences(place: Path) -> list[tuple[Array, int, int]]:
    """Joints [T, 20, 3], action and subject of each sequence."""
    archive = place if place.suffix == ".npz" else place / "msraction3d.npz"
    if archive.is_file():
        return _of_archive(archive)
    if not place.is_dir():
        raise fault(place, "no such folder", AGAIN)
    found = []
    for path in sorted(place.rglob("*_skeleton.txt")):
        name = NAME.fullmatch(path.name)
        if name is not None:
            found.append((_of_text(path), int(name[1]), int(name[2])))
    if not found:
        raise fault(place, "neither msraction3d.npz nor files aNN_sNN_eNN_skeleton.txt in it", AGAIN)
    return found


def _of_archive(path: Path) -> list[tuple[Array, int, int]]:
    try:
        arrays = read_arrays(path, ("xyz", "offset", "action", "subject"), MOST)
        xyz, offset, action, subject = (arrays[name] for name in ("xyz", "offset", "action", "subject"))
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, KeyError) as error:
        raise fault(path, f"cannot be read: {error}", AGAIN) from error
    good = (
        xyz.ndim == 3 and xyz.shape[1:] == (JOINTS, 3) and offset.ndim == 1 and len(offset) == len(action) + 1
        and len(action) == len(subject) and offset[0] == 0 and offset[-1] == len(xyz) and (np.diff(offset) > 0).all()
        and action.min() >= 1 and action.max() <= len(CLASSES) and np.isfinite(xyz).all()
    )  # fmt: skip
    if not good:
        raise fault(path, "xyz [frames, 20, 3], offset [N + 1], action and subject [N] do not fit each other", AGAIN)
    parts = [xyz[a:b].astype(np.float64) for a, b in pairwise(offset.tolist())]
    return list(zip(parts, action.tolist(), subject.tolist(), strict=True))


def _of_text(path: Path) -> Array:
    try:
        numbers = np.array(read_bytes(path, MOST).split(), np.float64)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise fault(path, f"not a table of numbers: {error}", AGAIN) from error
    if not numbers.size or numbers.size % (4 * JOINTS) or not np.isfinite(numbers).all():
        raise fault(path, f"{numbers.size} numbers; expected lines x y z confidence, 20 for each frame", AGAIN)
    return numbers.reshape(-1, JOINTS, 4)[..., :3]
