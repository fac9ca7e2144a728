"""Every broken data set is reported with its place and what to do, by `pdl.data.check` and by the loader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pdl.data import DataLoader, check
from pdl.data import transforms as T
from pdl.errors import DataError
from tests.cv.data.broken import (
    BROKEN,
    Broken,
    Nodes,
    cifar_binary,
    cifar_nodes,
    cifar_tar,
    image_folder,
    image_list,
    make,
    mnist,
)


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PDL_DATA", "PDL_CACHE"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp("store")))


def skip_if_root(case: Broken) -> None:
    if case.skip_as_root and os.geteuid() == 0:
        pytest.skip("root reads files of any permission")


@pytest.mark.parametrize("case", BROKEN, ids=lambda c: c.name)
def test_check_reports(case: Broken, tmp_path: Path) -> None:
    skip_if_root(case)
    nodes = case.build(tmp_path)
    faults = check({split: lambda node=node: make(node) for split, node in nodes.items()})
    said = [str(fault) for fault in faults]
    assert any(all(word in text for word in case.says) for text in said), said
    assert all(fault.advice for fault in faults)


def _use(nodes: Nodes, found: str) -> None:
    sets = [make(node) for node in nodes.values()]
    assert found == "read"
    for dataset in sets:
        list(DataLoader(dataset, batch_size=2, transforms=T.Resize(8), workers=1))


@pytest.mark.parametrize("case", [c for c in BROKEN if c.found != "check"], ids=lambda c: c.name)
def test_using_it_raises(case: Broken, tmp_path: Path) -> None:
    skip_if_root(case)
    nodes = case.build(tmp_path)
    with pytest.raises(DataError) as info:
        _use(nodes, case.found)
    assert all(word in str(info.value) for word in case.says), str(info.value)
    assert info.value.exit_code == 3


@pytest.mark.parametrize("case", [c for c in BROKEN if c.found == "read"], ids=lambda c: c.name)
def test_skip_counts_it(case: Broken, tmp_path: Path) -> None:
    skip_if_root(case)
    dataset = make(case.build(tmp_path)["train"])
    loader = DataLoader(dataset, batch_size=2, transforms=T.Resize(8), on_error="skip")
    assert sum(len(batch["label"]) for batch in loader) == len(dataset) - 1
    assert loader.skipped == 1


SOUND = [image_folder, mnist, cifar_binary, lambda tmp: image_list(tmp, ["0.png 0", "1.png dog"])]


@pytest.mark.parametrize("build", SOUND)
def test_the_sound_ones_have_no_faults(build: object, tmp_path: Path) -> None:
    nodes = build(tmp_path)  # type: ignore[operator]
    assert [
        f
        for f in check({s: make(n) for s, n in nodes.items()})
        if f.severity == "error" and "classes have no samples" not in f.what
    ] == []


def test_nothing_is_unpacked_to_disk(tmp_path: Path) -> None:
    (tmp_path / "cifar10.tar").write_bytes(cifar_tar())
    assert len(make(cifar_nodes(tmp_path)["test"])) == 20
    assert [p.name for p in tmp_path.iterdir()] == ["cifar10.tar"]
