"""Texts that lie in another file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl_nlp.data import PlainText


def test_a_stream_of_texts_by_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("PDL_CACHE", str(tmp_path))
    memory = fsspec.filesystem("memory")
    memory.pipe({"/texts/b.txt": b"three\n", "/texts/a.jsonl": b'{"text": "one"}\n{"text": "two"}\n'})
    for path in ("memory://texts", ["memory://texts/a.jsonl", "memory://texts/*.txt"]):
        assert [sample["text"] for sample in PlainText(path)] == ["one", "two", "three"]
