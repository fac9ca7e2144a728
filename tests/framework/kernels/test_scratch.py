"""Scratch memory: every kernel works in the blocks that `scratch.h` gives its file, under their names."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl import threads

SOURCES = Path(__file__).parents[3] / "framework/pdl/kernels/src"


def test_slots_are_those_of_the_registry() -> None:
    registry = (SOURCES / "scratch.h").read_text(encoding="utf-8")
    given: dict[str, list[str]] = {
        slot: files.split(", ")
        for names, files in re.findall(r"^  (k\w+ = \d.*?),\s+// (.*)$", registry, re.M)
        for slot in re.findall(r"k\w+", names)
    }
    assert len(given) > 30
    used: dict[str, set[str]] = {}
    for file in SOURCES.glob("*.h"):
        text = file.read_text(encoding="utf-8")
        assert file.name == "scratch.h" or not re.search(r"\bscratch\((?!Slot::)\w+, ", text), file.name
        for slot in re.findall(r"Slot::(k\w+)", text):
            assert any(fnmatch(file.name, each) for each in given[slot]), f"{slot} is not of {file.name}"
            used.setdefault(slot, set()).add(file.name)
    assert set(used) == set(given)


@pytest.mark.parametrize("count", [1, 3])
def test_memory_that_is_not_there_is_an_error_on_any_thread(count: int) -> None:
    """281 TB are more than an address holds; the threads go on afterwards, with the same results."""
    x, w = pdl.ones((8, 1, 1, 4096)), pdl.ones((3, 3, 4096, 64))
    image = np.random.default_rng(0).normal(size=(8, 16, 16, 64)).astype(np.float32)
    small = pdl.tensor(image), pdl.ones((3, 3, 64, 64))
    with threads.num_threads(count):
        before = pdl.conv2d(*small, padding=1).numpy()
        for _ in range(3):
            with pytest.raises(MemoryError, match=r"a kernel needs .* GB of memory to work in"):
                pdl.conv2d(x, w, padding=2**16, dilation=2**16)
        assert np.array_equal(pdl.conv2d(*small, padding=1).numpy(), before)
