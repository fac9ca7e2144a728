"""Clips as inputs of nets: some frames of a video, of a folder of frames or of an array."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError, UsageError
from pdl.runtime import images, videos
from pdl.runtime.arrays import map_array
from pdl.runtime.drawing import Drawing, Mark
from pdl.runtime.headers import EXTENSIONS as IMAGES
from pdl.runtime.sample import Sample
from pdl.runtime.steps.arguments import check, count, one_of
from pdl.runtime.steps.images import STEPS
from pdl.runtime.steps.inputs import Input, InputStep, PreStep
from pdl.runtime.steps.paths import files_of

Choose = Callable[[int], Array]
"""Of the number of frames that there are to those that are wanted: int64, of any shape."""

FILES = (*videos.EXTENSIONS, ".npy")
MOST_FRAMES = 1 << 20  # of a clip
WHOLE = 0.9  # share of the frames that a file announces; with fewer it is cut off
SHOWN, SIDE, GAP = 8, 112, 2  # frames of a picture of a clip, pixels of their longer side, and between them


# -- which frames ------------------------------------------------------------------------------------------------------
def places(have: int, frames: int, stride: int | None = None, clips: int = 1) -> Array:
    """int64 [clips, frames]: which of `have` frames are looked at. Without `stride`, the middle of each of `frames`
    parts of equal length, of several clips evenly spread within the parts (Wang et al., arXiv 1608.00859); with it,
    frames that far apart, of one clip in the middle, of several spread from the beginning to the end. A frame is taken
    several times where there are too few."""
    number, of = np.arange(frames), np.arange(clips)[:, None]
    if stride is None:
        found = ((number + (of + 0.5) / clips) * have / frames).astype(np.int64)
    else:
        room = max(0, have - (frames - 1) * stride - 1)
        first = np.full((1, 1), room // 2) if clips == 1 else np.rint(of * room / (clips - 1)).astype(np.int64)
        found = first + number * stride
    return np.minimum(found, have - 1)


# -- reading -----------------------------------------------------------------------------------------------------------
def is_clip(path: Path) -> bool:
    """Whether it is a folder with images right in it, or a file that is called as a clip is."""
    return bool(frames_in(path)) if path.is_dir() else path.suffix.lower() in FILES


def frames_in(folder: Path) -> list[Path]:
    """The images that lie right in a folder, sorted by name."""
    return sorted(each for each in folder.iterdir() if each.suffix.lower() in IMAGES and not each.name.startswith("."))


def read_clip(item: Any, mode: str, choose: Choose) -> Array:
    """Frames uint8 [..., H, W, C] of a clip, C 3 (RGB) or 1 by `mode`: those that `choose` wants, which may be fewer
    than there are or some of them several times. Of a video no frame behind the last wanted one is decoded.

    An item is a video file, a folder of images in the order of their names, *.npy, the content of a video as bytes, or
    an array uint8 [T, H, W] or [T, H, W, 1 or 3]. DataError for what cannot be read, is cut off, has no frames, or
    frames of several sizes.
    """
    if isinstance(item, bytes | bytearray | memoryview):
        with tempfile.NamedTemporaryFile(suffix=".mp4") as file:
            file.write(item)
            file.flush()
            return _of_video(Path(file.name), "bytes", mode, choose)
    if isinstance(item, str | Path):
        path = Path(item).expanduser()
        if path.is_dir():
            return _of_folder(path, mode, choose)
        if path.suffix.lower() != ".npy":
            return _of_video(path, str(item), mode, choose)
        return _of_array(mapped(path), str(item), mode, choose)
    if not isinstance(item, np.ndarray):
        raise UsageError(f"a clip is a path, the bytes of a video, or an array uint8 [T, H, W, 3], not {type(item)}")
    return _of_array(item, "a clip", mode, choose)


def mapped(path: Path) -> Array:
    """The array of a *.npy, read as it is used; DataError where there is none."""
    try:
        return map_array(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def _of_array(x: Array, name: str, mode: str, choose: Choose) -> Array:
    good = x.dtype == np.uint8 and (x.ndim == 3 or (x.ndim == 4 and x.shape[3] in (1, 3)))
    if not good or not x.size or max(x.shape) > MOST_FRAMES:
        raise DataError(f"{name}: {x.dtype} {x.shape}; expected uint8 [T, H, W], [T, H, W, 1] or [T, H, W, 3] (RGB)")
    wanted = choose(len(x))
    images.require_room((*wanted.shape, *x.shape[1:3], 3))
    found = np.asarray(x[wanted])
    return _in_mode(found[..., None] if x.ndim == 3 else found, mode)


def _of_folder(folder: Path, mode: str, choose: Choose) -> Array:
    files = frames_in(folder)
    if not files:
        raise DataError(f"{folder}: no frames in it ({', '.join(IMAGES)})")
    wanted = choose(len(files))
    found: dict[int, Array] = {}
    for number in np.unique(wanted).tolist():
        found[number] = images.read(files[number], mode)
        first = next(iter(found.values()))
        if found[number].shape != first.shape:
            sizes = " and ".join(f"{each.shape[1]} x {each.shape[0]}" for each in (first, found[number]))
            raise DataError(f"{files[number]}: the frames of a clip have one size, here {sizes}")
    return _arranged(found, wanted)


def _of_video(path: Path, name: str, mode: str, choose: Choose) -> Array:
    have = frames_of(path, name)
    wanted = choose(have)
    found, seen = _decoded(path, name, mode, wanted)
    if seen <= int(wanted.max()):  # fewer than the header says
        if seen < WHOLE * have:
            raise DataError(f"{name}: ends after {seen} of {have} frames; give the whole video")
        wanted = choose(seen)
        found, _ = _decoded(path, name, mode, wanted)
    return _arranged(found, wanted)


def frames_of(path: Path, name: str) -> int:
    """How many frames a video has, by its header, or counted where that does not tell; DataError for none."""
    cv2 = images.opencv(f"{name}: videos are read")
    capture = _opened(cv2, path, name)
    try:
        said = capture.get(cv2.CAP_PROP_FRAME_COUNT)
        if 0 < said <= MOST_FRAMES:
            return int(said)
        have = 0
        while have < MOST_FRAMES and capture.grab():
            have += 1
    finally:
        capture.release()
    if not have:
        raise DataError(f"{name}: holds no frame that can be decoded")
    return have


def _opened(cv2: Any, path: Path, name: str) -> Any:
    """A capture that is open; DataError where nothing can be opened."""
    if not path.is_file():
        raise DataError(f"{name}: no such file")
    if not path.stat().st_size:
        raise DataError(f"{name}: the file is empty")
    if path.suffix.lower() in IMAGES:
        raise DataError(f"{name}: an image; a clip is a video, a folder of frames, or *.npy (uint8 [T, H, W, 3])")
    capture = cv2.VideoCapture(str(path))
    if not capture.isOpened():
        raise DataError(f"{name}: cannot be opened as a video; it is damaged, or of a format that OpenCV does not read")
    return capture


def _decoded(path: Path, name: str, mode: str, wanted: Array) -> tuple[dict[int, Array], int]:
    """The wanted frames by number, as far as they are there, and how many were there up to the last of them."""
    cv2 = images.opencv(f"{name}: videos are read")
    capture, chosen, last = _opened(cv2, path, name), set(wanted.ravel().tolist()), int(wanted.max())
    code = cv2.COLOR_BGR2GRAY if mode == "gray" else cv2.COLOR_BGR2RGB
    found: dict[int, Array] = {}
    try:
        for number in range(last + 1):
            if not capture.grab():
                break
            if number in chosen:
                there, image = capture.retrieve()
                if not there:
                    break
                images.require_room((len(chosen), *image.shape))
                frame = cv2.cvtColor(image, code)
                found[number] = frame[..., None] if mode == "gray" else frame
        else:
            number = last + 1
    finally:
        capture.release()
    if not number:
        raise DataError(f"{name}: holds no frame that can be decoded")
    return found, number


def _arranged(found: Mapping[int, Array], wanted: Array) -> Array:
    numbers, where = np.unique(wanted, return_inverse=True)
    return np.stack([found[number] for number in numbers.tolist()])[where.reshape(wanted.shape)]


def _in_mode(frames: Array, mode: str) -> Array:
    """uint8 [..., H, W, C] in `mode`."""
    if frames.shape[-1] == (1 if mode == "gray" else 3):
        return frames
    flat = frames.reshape(-1, *frames.shape[-2:])  # rows of all frames below each other
    return images.change_mode(flat, mode).reshape(*frames.shape[:-1], -1)


# -- steps -------------------------------------------------------------------------------------------------------------
class ClipInput(InputStep):
    """Frames of a clip, uint8 [frames, H, W, C], of several clips [clips, frames, H, W, C]; which ones, see `places`.

    mode    rgb or gray
    frames  how many
    stride  so far apart; None: spread over the whole clip
    clips   how often
    On the command line, and for `predict`, an item is also a folder of videos, or a pattern.
    """

    name = "clip"
    takes, metavar = "clip", "FILE"
    about = "a video, a folder of frames, *.npy (uint8 [T, H, W, 3]), a folder of videos, or a pattern"
    takes_content = True
    tolerance = 1.0
    batch_size = 8

    def __init__(self, frames: int, mode: str = "rgb", stride: int | None = None, clips: int = 1) -> None:
        self.mode, self.frames, self.clips = one_of("mode", mode, images.MODES), count("frames", frames), clips
        self.stride = None if stride is None else count("stride", stride)
        count("clips", clips, most=1024)

    def parse(self, item: Any, sample: Sample) -> Array:
        found = read_clip(item, self.mode, lambda have: places(have, self.frames, self.stride, self.clips))
        return found if self.clips > 1 else found[0]

    def title(self, item: Any) -> str:
        return str(item) if isinstance(item, str | Path) else "clip"

    def expand(self, given: Any, number: int) -> Iterator[Input]:
        if not isinstance(given, str | Path):
            yield Input(f"clip {number}", given)
            return
        path = Path(given).expanduser()
        if path.is_dir() and is_clip(path):
            yield Input(str(given), path)
        else:
            yield from (Input(str(each), each) for each in files_of(str(given), FILES, "clips"))

    @property
    def flags(self) -> tuple[Any, ...]:
        return ()

    def from_word(self, word: str) -> Any:
        return word

    def samples(self, rng: np.random.Generator) -> list[Any]:
        """Noise of two sizes and lengths."""
        sizes = ((self.frames + 3, 96, 128), (self.frames, 80, 72))
        return [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]

    def draw(self, item: Any, caption: str, marks: Sequence[Mark]) -> Drawing:
        return Drawing(filmstrip(read_clip(item, "rgb", lambda have: places(have, SHOWN)[0])), caption, marks)


def filmstrip(frames: Array) -> Array:
    """Frames uint8 [T, H, W, 1 or 3] beside each other, in four columns: uint8 [H', W', 3]."""
    height, width = frames.shape[1:3]
    scale = SIDE / max(height, width)
    size = max(1, round(height * scale)), max(1, round(width * scale))
    small = [images.change_mode(images.resize(np.ascontiguousarray(each), size), "rgb") for each in frames]
    columns = min(len(small), SHOWN // 2)
    rows = -(-len(small) // columns)
    made = np.full((rows * (size[0] + GAP) - GAP, columns * (size[1] + GAP) - GAP, 3), 255, np.uint8)
    for number, each in enumerate(small):
        top, left = number // columns * (size[0] + GAP), number % columns * (size[1] + GAP)
        made[top : top + size[0], left : left + size[1]] = each
    return made


OF_FRAMES = {step.name: step for step in STEPS if issubclass(step, PreStep)}


class EachFrame(PreStep):
    """Every frame [H, W, C] of [..., H, W, C] through the same steps, those of images."""

    name = "each_frame"

    def __init__(self, steps: Sequence[Mapping[str, Any]]) -> None:
        good = isinstance(steps, list | tuple) and 0 < len(steps) <= 32 and all(isinstance(s, dict) for s in steps)
        check(good, "steps must be a list of up to 32 steps")
        self.steps: list[PreStep] = []
        for step in steps:
            name = one_of("step", step.get("step"), tuple(OF_FRAMES))
            make: Any = OF_FRAMES[name]
            self.steps.append(make(**{key: value for key, value in step.items() if key != "step"}))

    def __call__(self, value: Any) -> Any:
        frames = []
        for each in value.reshape(-1, *value.shape[-3:]):
            for step in self.steps:
                each = step(each)
            frames.append(each)
        images.require_room((len(frames), *frames[0].shape), frames[0].itemsize)
        made = np.stack(frames)
        return made.reshape(*value.shape[:-3], *made.shape[1:])

    def error(self, before: float) -> float:
        for step in self.steps:
            before = step.error(before)
        return before


class ThreeCrops(PreStep):
    """Three windows size = [height, width] of the frames [..., T, H, W, C]: at both ends and in the middle of the
    longer side, in the middle of the other: [3 K, T, height, width, C] of K clips."""

    name = "three_crops"

    def __init__(self, size: Sequence[int]) -> None:
        self.size = count("size", size[0]), count("size", size[1])

    def __call__(self, value: Any) -> Any:
        return three_crops(value, self.size)


def three_crops(x: Array, size: tuple[int, int]) -> Array:
    """The windows of frames [T, H, W, C], or of several clips [K, T, H, W, C]: [3 K, T, height, width, C]."""
    room = x.shape[-3] - size[0], x.shape[-2] - size[1]
    if min(room) < 0:
        have = f"{x.shape[-3]} x {x.shape[-2]}"
        raise UsageError(f"windows of {size[0]} x {size[1]} do not fit into frames of {have}; resize them first")
    across = x.shape[-2] >= x.shape[-3]
    corners = [(room[0] // 2, left) for left in (0, room[1] // 2, room[1])]
    corners = corners if across else [(top, room[1] // 2) for top in (0, room[0] // 2, room[0])]
    clips = x if x.ndim == 5 else x[None]
    return np.concatenate([clips[..., t : t + size[0], left : left + size[1], :] for t, left in corners])
