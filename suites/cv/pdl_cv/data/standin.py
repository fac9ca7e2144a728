"""Stand-ins: the handwritten digits that ship with pdl, written in the formats of other data sets, so that recipes
and readers can be tried where those are not (`pdl selftest`). A class of theirs is a digit.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data import Few
from pdl_cv.data.digits import Digits

COUNTS = {"train": 1000, "val": 150, "test": 300}
IMAGES = 300  # files of a split of folders
CLASSES = 10
SCENES = {"train": 64, "val": 24, "test": 24}  # images of a split with objects
CORNERS = ["left_top", "right_top", "left_bottom", "right_bottom"]


def write_idx(folder: Path, *, side: int = 28) -> None:
    """The four files of MNIST (`pdl_cv.data.read_idx`), uncompressed: gray, side x side."""
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = digits(split)
        _idx(folder / f"{prefix}-images-idx3-ubyte", enlarged(images, side))
        _idx(folder / f"{prefix}-labels-idx1-ubyte", labels)


def write_cifar10(folder: Path) -> None:
    """The six binary batches of CIFAR-10, with fewer records than the real ones (partial=true reads them)."""
    for split, names in (("train", [f"data_batch_{i}.bin" for i in range(1, 6)]), ("test", ["test_batch.bin"])):
        images, labels = digits(split)
        planes = coloured(enlarged(images, 32), labels).transpose(0, 3, 1, 2).reshape(len(labels), -1)
        records = np.concatenate([labels[:, None], planes], axis=1).astype(np.uint8)
        for number, name in enumerate(names):
            (folder / name).write_bytes(records[number :: len(names)].tobytes())


def write_folders(folder: Path, names: Sequence[str], *, splits: bool, gray: bool) -> None:
    """A folder for each of at most ten classes, with PNG and JPEG files of several sizes; below train, val and test
    with `splits`.
    """
    import cv2

    for split in COUNTS:
        images, labels = digits(split, IMAGES)
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            if label >= len(names):
                continue
            side = (72, 96, 128)[number % 3]
            large = enlarged(image[None], side)
            shown = large[0] if gray else coloured(large, labels[number : number + 1])[0, ..., ::-1]
            file = folder / (split if splits else "") / names[label] / f"{split}-{number}.{('png', 'jpg')[number % 2]}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(cv2.imencode(file.suffix, shown)[1].tobytes())


def write_list(folder: Path, names: Sequence[str], *, splits: bool) -> Path:
    """The images of `write_folders` in a list of their paths, labels and, with `splits`, splits; the list's path."""
    write_folders(folder, names, splits=splits, gray=False)
    lines = []
    for file in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.suffix in {".png", ".jpg"}):
        lines.append("\t".join([file.as_posix(), file.parts[-2], *file.parts[:-2]]) + "\n")
    (folder / "list.tsv").write_text("".join(lines), encoding="utf-8")
    return folder / "list.tsv"


def write_objects(folder: Path, names: Sequence[str], *, splits: bool) -> None:
    """Images with up to four digits, in COCO's form: boxes, outlines, and the corners of the boxes as keypoints. An
    object of class k is a digit k (of k modulo 10). In images/<split> and <split>.json, or all in all.json.
    """
    import cv2

    for split, count in SCENES.items() if splits else {"all": SCENES["train"]}.items():
        images, labels = digits("train" if split == "all" else split)
        rng = np.random.default_rng(len(split))
        page: dict[str, list[Any]] = {"images": [], "annotations": [], "categories": [
            {"id": k, "name": name, "keypoints": CORNERS, "skeleton": [[1, 2], [2, 4], [4, 3], [3, 1]]}
            for k, name in enumerate(names)
        ]}  # fmt: skip
        (folder / "images" / split).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            height, width = (int(side) for side in rng.integers(112, 176, 2))
            scene = rng.integers(20, 60, 3).astype(np.float32) + rng.normal(0, 6, (height, width, 3)).astype(np.float32)
            for quarter in rng.permutation(4)[: rng.integers(1, 5)].tolist():
                label = int(rng.integers(len(names)))
                row = int(rng.choice(np.flatnonzero(labels == label % CLASSES)))
                outline = _drawn(scene, images[row], labels[row : row + 1], quarter, rng)
                about = {"id": len(page["annotations"]) + 1, "image_id": number, "category_id": label, "iscrowd": 0}
                page["annotations"].append({**about, **_described(outline)})
            name = f"{number}.{('png', 'jpg')[number % 2]}"
            pixels = cv2.imencode(name[-4:], np.clip(scene, 0, 255).astype(np.uint8)[..., ::-1])[1]
            (folder / "images" / split / name).write_bytes(pixels.tobytes())
            page["images"].append({"id": number, "file_name": name, "height": height, "width": width})
        (folder / f"{split}.json").write_text(json.dumps(page))


def _drawn(
    scene: np.ndarray, image: np.ndarray, label: np.ndarray, quarter: int, rng: np.random.Generator
) -> list[Any]:
    """Draw a digit into a quarter of the scene; its outlines, int [P, 2] each."""
    import cv2

    height, width = scene.shape[0] // 2, scene.shape[1] // 2
    side = int(rng.integers(32, min(height, width)))
    large = cv2.resize(image, (side, side), interpolation=cv2.INTER_CUBIC)
    top = int(rng.integers(height - side + 1)) + quarter // 2 * height
    left = int(rng.integers(width - side + 1)) + quarter % 2 * width
    ink = (large > 96).astype(np.uint8)
    part = scene[top : top + side, left : left + side]
    part[ink > 0] = coloured(large[None], label)[0][ink > 0]
    found, _ = cv2.findContours(ink, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return [each[:, 0] + (left, top) for each in found if len(each) > 3]


def _described(outline: list[Any]) -> dict[str, Any]:
    """COCO's words for an object with these outlines."""
    points = np.concatenate(outline)
    (x1, y1), (x2, y2) = points.min(axis=0).tolist(), (points.max(axis=0) + 1).tolist()
    corners = [v for x, y in ((x1, y1), (x2, y1), (x1, y2), (x2, y2)) for v in (x, y, 2)]
    rings = [(each + 0.5).reshape(-1).tolist() for each in outline]
    return {"bbox": [x1, y1, x2 - x1, y2 - y1], "area": (x2 - x1) * (y2 - y1) / 2, "segmentation": rings,
            "keypoints": corners, "num_keypoints": 4}  # fmt: skip


def whole(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What takes `per_class` back: a stand-in is small, and may hold fewer of a class."""
    return {"per_class": None} if settings.get("per_class") is not None else {}


def digits(split: str, most: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """(uint8 [N, 8, 8], uint8 [N]): as many of each digit."""
    few = Few(Digits(split=split), min(COUNTS[split], most))
    samples = [few[i] for i in range(len(few))]
    return np.stack([sample["image"][..., 0] for sample in samples]), np.array([s["label"] for s in samples], np.uint8)


def enlarged(images: np.ndarray, side: int) -> np.ndarray:
    """uint8 [N, 8, 8] -> [N, side, side], by linear interpolation."""
    import cv2

    return np.stack([cv2.resize(image, (side, side), interpolation=cv2.INTER_LINEAR) for image in images])


def coloured(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Gray [N, H, W] -> RGB [N, H, W, 3], uint8: light ink on a dark ground, both in colours that the digit decides."""
    grounds, inks = np.array(list(_colours(0, 90))), np.array(list(_colours(3, 255)))
    share = images[..., None].astype(np.float32) / 255
    mixed = grounds[labels][:, None, None] * (1 - share) + inks[labels][:, None, None] * share
    return np.rint(mixed).astype(np.uint8)


def _colours(offset: int, brightness: int) -> Iterator[tuple[float, ...]]:
    """A colour for each digit, spread over the circle of hues."""
    for digit in range(CLASSES):
        angle = 2 * np.pi * ((digit * 3 + offset) % CLASSES) / CLASSES
        yield tuple(brightness * (0.6 + 0.4 * np.cos(angle - 2 * np.pi * channel / 3)) for channel in range(3))


def _idx(path: Path, array: np.ndarray) -> None:
    path.write_bytes(struct.pack(f">BBBB{array.ndim}I", 0, 0, 0x08, array.ndim, *array.shape) + array.tobytes())


def write_pairs(folder: Path, *, splits: bool) -> None:
    """Outlines of digits in A, and the digits in B, as PNG of 128 x 96 pixels; below train, val and test with
    `splits`."""
    import cv2

    for split, count in SCENES.items() if splits else {"": SCENES["train"]}.items():
        images, labels = digits(split or "train")
        for number, (image, label) in enumerate(zip(images[:count], labels[:count], strict=True)):
            large = cv2.resize(enlarged(image[None], 96)[0], (128, 96))
            picture = coloured(large[None], np.array([label]))[0]
            for part, shown in (("A", cv2.Canny(large, 100, 200)), ("B", picture[..., ::-1])):
                file = folder / part / split / f"{number}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(cv2.imencode(".png", shown)[1].tobytes())
