"""Scratch memory: every kernel works in the blocks that `scratch.h` gives its file, under their names."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

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
