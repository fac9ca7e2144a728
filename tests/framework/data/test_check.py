"""`pdl.data.check` on small sets in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import ArrayDataset, Dataset, Fault, check, fault


def images(n: int, start: int = 0, **changes: Any) -> ArrayDataset:
    pixels = np.arange(start, start + n, dtype=np.uint8)[:, None, None, None] + np.zeros((n, 4, 4, 1), np.uint8)
    return ArrayDataset(**{"image": pixels, "label": np.arange(n) % 2, "classes": ["cat", "dog"], **changes})


def one(faults: list[Fault]) -> Fault:
    assert len(faults) == 1, [str(f) for f in faults]
    return faults[0]


def test_sound_data_has_no_faults_and_progress_is_told() -> None:
    messages: list[tuple[str, int, int]] = []
    sets = {"train": images(6), "val": lambda: images(2, 6)}
    assert check(sets, num_classes=2, progress=lambda *step: messages.append(step)) == []
    assert messages == [("train", i, 6) for i in range(1, 7)] + [("val", i, 2) for i in (1, 2)]


def test_of_generated_samples_the_first_are_looked_at() -> None:
    class Made(Dataset):
        generated = True

        def __len__(self) -> int:
            return 10**9

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"image": np.full((2, 2, 1), index)}

    messages: list[tuple[str, int, int]] = []
    assert check({"train": Made()}, progress=lambda *step: messages.append(step)) == []
    assert messages[-1] == ("train", 256, 256)


def test_leak_names_both() -> None:
    found = one(check({"train": images(6), "val": images(2, 5), "test": images(2, 9)}))
    assert (found.split, found.index) == ("val", 0)
    assert "same image is in train: train index 5" in found.what


def test_many_faults_are_shortened() -> None:
    faults = check({"train": images(50), "val": images(50)}, limit=3)
    assert len(faults) == 4
    assert "47 more" in faults[-1].what


def test_empty_split_and_class_count() -> None:
    faults = check({"train": images(4), "val": images(0)}, num_classes=3)
    text = "\n".join(map(str, faults))
    assert "[val]: the split is empty" in text
    assert "2 classes, the model is built for 3" in text


def test_labels_and_absent_classes() -> None:
    found = one(check({"train": images(4, label=np.array([0, 1, 5, -1]))}))
    assert found.index == 2
    assert "label 5 is outside of 0..1 (2 such labels)" in found.what
    absent = one(check({"train": images(4, label=np.zeros(4, int))}))
    assert "1 of 2 classes have no samples: dog" in absent.what
    assert absent.severity == "error"


def test_class_lists() -> None:
    found = one(check({"train": images(4), "val": images(2, 8, classes=["dog", "cat"])}))
    assert "same names, another order" in found.what


def test_what_cannot_be_opened_or_read() -> None:
    class Flaky(Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> dict[str, Any]:
            if index == 1:
                raise RuntimeError("bad sector")
            return {"image": np.full((2, 2, 1), index)[:index]}

        def path_of(self, index: int) -> str:
            return f"{index}.png"

    def missing() -> Dataset:
        raise fault("gone", "no such folder", "make it")

    faults = check({"train": Flaky(), "val": missing})
    places = [(f.split, f.path, f.index) for f in faults]
    assert places == [("val", "gone", None), ("train", "0.png", 0), ("train", "1.png", 1)]
    assert "there is nothing in it" in faults[1].what
    assert "bad sector" in faults[2].what
