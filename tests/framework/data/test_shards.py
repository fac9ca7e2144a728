"""Data sets of many files: the same samples as of the files read whole, every one once, wherever they lie."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import os
import tarfile
import threading
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataLoader, Shards, ShardSampler, write_counts
from pdl.data import addresses as places
from pdl.errors import ConfigError, DataError, UsageError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def texts(folder: Path, sizes: tuple[int, ...] = (70, 1, 300, 129)) -> list[str]:
    """JSON lines of these sizes, with blank lines between; their texts."""
    folder.mkdir(exist_ok=True)
    found = []
    for number, size in enumerate(sizes):
        rows = [f"{number} {row} äß" for row in range(size)]
        lines = [json.dumps({"text": row, "n": len(found) + i}, ensure_ascii=False) for i, row in enumerate(rows)]
        (folder / f"{number}.jsonl").write_text("\n \n".join(lines) + "\n" * (number % 2), "utf-8")
        found += rows
    return found


def tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return path


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


# -- forms -------------------------------------------------------------------------------------------------------------
def forms(folder: Path) -> dict[str, tuple[Path, list[dict[str, Any]]]]:
    """A file of each form, and its samples."""
    import pyarrow as pa
    from pyarrow import parquet
    from safetensors.numpy import save_file

    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    rows = [{"a": "1", "b": 'x, "y"\nz'}, {"a": "2", "b": ""}, {"a": "ä", "b": "q"}]
    made: dict[str, tuple[Path, list[dict[str, Any]]]] = {}
    made["txt"] = folder / "a.txt", [{"text": each} for each in ("one", "two words", "drei ß")]
    made["txt"][0].write_text("\ufeffone\r\n\n  two words \n \t \ndrei ß", "utf-8")
    made["csv"] = folder / "a.csv", rows
    made["csv"][0].write_text('a,b\n1,"x, ""y""\nz"\n2,\nä,q\n', "utf-8")
    made["tsv"] = folder / "a.tsv", [{"a": '"1', "b": "2"}]
    made["tsv"][0].write_text('a\tb\n"1\t2\n', "utf-8")
    files = {
        "d/1.cls": b"3",
        "d/1.npy": npy(x),
        "d/1.seg.json": b"[1]",
        "2.cls": b"cat",
        "2.txt": b" t ",
        "2.raw": b"\0",
    }
    made["tar"] = tar(folder / "a.tar", files), [
        {"label": 3, "npy": x, "seg.json": [1]}, {"label": "cat", "text": "t", "raw": b"\0"}
    ]  # fmt: skip
    made["parquet"] = folder / "a.parquet", [{"i": i, "v": np.array([i, 2.0]), "s": str(i)} for i in range(7)]
    table = pa.table({"i": range(7), "v": [[float(i), 2.0] for i in range(7)], "s": [str(i) for i in range(7)]})
    parquet.write_table(table, made["parquet"][0], row_group_size=3)
    arrays = {"x": x, "y": np.arange(4)}
    made["npz"] = folder / "a.npz", [{"x": x[i], "y": i} for i in range(4)]
    np.savez(made["npz"][0], **arrays)
    made["safetensors"] = folder / "a.safetensors", made["npz"][1]
    save_file(arrays, made["safetensors"][0])
    return made


def test_every_form_gives_its_samples_and_damage_is_told(tmp_path: Path, cache: Path) -> None:
    for form, (path, expected) in forms(tmp_path).items():
        data = Shards(path)
        assert len(data) == len(expected), form
        for index in [*range(len(expected)), 0]:
            found = data[index]
            assert found.keys() == expected[index].keys()
            for name, value in expected[index].items():
                np.testing.assert_array_equal(found[name], value, f"{form} {name}")
        del data
        whole = path.read_bytes()
        if form in ("tar", "parquet", "npz", "safetensors"):
            path.write_bytes(whole[: len(whole) * 2 // 5])
            with pytest.raises(DataError, match=path.name):
                Shards(path)[0]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"../a.txt": b"1"}, "no name below its folder"),
        ({"1.txt": b"1", "2.txt": b"2", "1.cls": b"3"}, "do not stand together"),
    ],
)
def test_tars_that_are_refused(files: dict[str, bytes], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        Shards(tar(tmp_path / "a.tar", files))


def test_a_tar_with_a_link_or_a_hole_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        about = tarfile.TarInfo("1.txt")
        about.type, about.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(about)
    with pytest.raises(DataError, match="link or device"):
        Shards(tmp_path / "a.tar")
    whole = bytearray(tar(tmp_path / "b.tar", {f"{i}.txt": b"x" for i in range(5)}).read_bytes())
    whole[1024:1100] = b"\xff" * 76  # the second header
    (tmp_path / "b.tar").write_bytes(whole)
    with pytest.raises(DataError, match="damaged at byte 1,024"):
        Shards(tmp_path / "b.tar")


def test_images_with_classes_are_what_a_folder_of_them_is(tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 9, 3), dtype=np.uint8)
    files = {}
    for i, image in enumerate(images):
        files |= {
            f"{i}.png": cv2.imencode(".png", image[..., ::-1])[1].tobytes(),
            f"{i}.cls": b"dog" if i % 2 else b"0",
        }
    tar(tmp_path / "a.tar", files)
    data = Shards(tmp_path / "a.tar", classes=["cat", "dog"])
    batch = next(iter(DataLoader(data, batch_size=5)))
    np.testing.assert_array_equal(batch["image"], images)
    assert batch["label"].tolist() == [0, 1, 0, 1, 0]
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 0, 1, 0]
    assert set(Shards(tmp_path / "a.tar", only=["label"])[0]) == {"label"}
    with pytest.raises(DataError, match="class 'dog' is none of"):
        Shards(tmp_path / "a.tar", classes=["cat"])[1]


# -- order -------------------------------------------------------------------------------------------------------------
def test_in_order_it_is_the_files_one_after_another(tmp_path: Path) -> None:
    expected = texts(tmp_path / "s")
    data = Shards(str(tmp_path / "s" / "*.jsonl"), keys={"words": "text"}, only=["words"])
    assert [data[i] for i in range(len(data))] == [{"words": each} for each in expected]
    assert data.path_of(70) == str(tmp_path / "s" / "1.jsonl")


def test_an_order_has_every_sample_once_and_begins_anywhere() -> None:
    sizes = np.random.default_rng(0).integers(0, 900, 13)
    sampler = ShardSampler(sizes, block=64, lanes=8, window=500, seed=3)
    order, n = sampler.order(2), len(sampler)
    assert (np.sort(order) == np.arange(n)).all()
    assert (order == ShardSampler(sizes, block=64, lanes=8, window=500, seed=3).order(2)).all()
    assert (sampler.order(1) != order).mean() > 0.9
    assert (ShardSampler(sizes, block=64, lanes=8, window=500, seed=4).order(2) != order).mean() > 0.9
    for start in (0, 1, 499, 504, 505, 1000, n - 1, n):
        assert (np.concatenate([order[:start], *sampler.pieces(2, start)]) == order).all()
    # neighbours in the order are not neighbours in the files
    assert np.median(np.abs(np.diff(order[::8]))) > 10


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_and_ranks_have_files_of_their_own(tmp_path: Path, workers: int) -> None:
    expected = texts(tmp_path / "s", sizes=tuple(range(40, 56)))

    def loader() -> DataLoader:
        data = Shards(str(tmp_path / "s"), lanes=4, window=64)
        return DataLoader(data, batch_size=8, shuffle=True, seed=1, workers=workers)

    whole = loader()
    batches = [[batch["text"] for batch in whole] for _ in range(2)]
    for epoch in batches:
        assert sorted(text for batch in epoch for text in batch) == sorted(expected)
    assert batches[0] != batches[1]
    for stop in (1, 95):
        begun = loader()
        passed = iter(begun)
        assert [next(passed)["text"] for _ in range(stop)] == batches[0][:stop]
        state = begun.state_dict()
        again = loader()
        again.load_state_dict(state)
        assert [batch["text"] for batch in again] == batches[0][stop:]
    parts, files = [], []
    for rank in range(4):
        mine = loader()
        mine.share(rank, 4)
        parts.append([batch["text"] for batch in mine])
        files.append({text.split()[0] for batch in parts[-1] for text in batch})
    for number, batch in enumerate(batches[0]):
        own = [part[number] if number < len(part) else [] for part in parts]
        assert [each[i // 4] for i in range(len(batch)) for each in [own[i % 4]]] == batch
    assert sum(map(len, files)) <= 16 + 4  # a lane ends within a file


def test_memory_is_that_of_a_window(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(("x" * 10000 + "\n") * 500)  # 20 MB in all
    Shards(tmp_path)  # the index
    tracemalloc.start()
    loader = DataLoader(Shards(tmp_path, window=256), batch_size=64, shuffle=True)
    count = sum(len(batch["text"]) for batch in loader)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 2000
    assert peak < 4e6


# -- where files are ---------------------------------------------------------------------------------------------------
def test_files_by_folder_range_and_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = texts(tmp_path / "s", sizes=(3,) * 12)
    for number in range(12):
        (tmp_path / "s" / f"{number}.jsonl").rename(tmp_path / "s" / f"{number:02d}.jsonl")
    monkeypatch.setenv("PDL_DATA", str(tmp_path))
    for path in ("s", str(tmp_path / "s" / "{00..11}.jsonl"), ["s/0*.jsonl", "s/{10..11}.jsonl"]):
        data = Shards(path)
        assert [data[i]["text"] for i in range(len(data))] == expected
    packed = tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "s" / "00.jsonl").read_bytes()))
    assert Shards(packed)[2]["text"] == expected[2]
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"p\.jsonl\.gz: damaged"):
        Shards(packed)


@pytest.mark.parametrize(
    ("path", "kind", "said"),
    [
        ("nowhere/*.jsonl", DataError, "no such file"),
        ("s/{5..1}.jsonl", ConfigError, "no range"),
        ("python://x.jsonl", ConfigError, "an address of one of"),
        ("https://x/*.jsonl", ConfigError, "servers do not list files"),
        (["s/0.jsonl", "s/0.jsonl"], ConfigError, "named twice"),
        ("a.exe", ConfigError, "say what it is"),
    ],
)
def test_paths_that_cannot_be(
    path: Any, kind: type[Exception], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts(tmp_path / "s", sizes=(1, 1))
    (tmp_path / "a.exe").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=said):
        Shards(path)


def test_a_file_that_changes_is_told(tmp_path: Path) -> None:
    texts(tmp_path / "s")
    data = Shards(tmp_path / "s")
    first = data[0]
    with (tmp_path / "s" / "2.jsonl").open("a") as file:
        file.write("\n{}")
    with pytest.raises(DataError, match="has changed since"):
        data[100]
    assert data[0] == first
    assert len(Shards(tmp_path / "s")) == len(data) + 1
    (tmp_path / "s" / "2.jsonl").unlink()
    with pytest.raises(DataError, match=r"2\.jsonl: no such file"):
        data[100]


def test_counts_beside_files_let_each_be_opened_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = texts(tmp_path / "s")
    assert write_counts(tmp_path / "s") == [tmp_path / "s" / "shards.json"]
    read: list[str] = []
    local = places.local
    monkeypatch.setattr(
        places, "local", lambda file: (None if file.endswith("s.json") else read.append(file), local(file))[1]
    )
    data = Shards(tmp_path / "s")
    assert (len(data), read) == (500, [])
    assert data[499]["text"] == expected[499]
    assert read == [str(tmp_path / "s" / "3.jsonl")]
    said = json.loads((tmp_path / "s" / "shards.json").read_text())
    said["shards"]["1.jsonl"]["samples"] = 2
    (tmp_path / "s" / "shards.json").write_text(json.dumps(said))
    with pytest.raises(DataError, match="has 1 samples and not 2"):
        Shards(tmp_path / "s")[71]
    (tmp_path / "s" / "shards.json").write_text("{")
    with pytest.raises(DataError, match=r"shards\.json: cannot be read"):
        Shards(tmp_path / "s")


def test_other_file_systems(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    expected = texts(tmp_path / "s")
    memory = fsspec.filesystem("memory")
    for file in (tmp_path / "s").iterdir():
        memory.pipe(f"/bucket/{file.name}", file.read_bytes())
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in (tmp_path / "s").iterdir():
            archive.write(file, f"in/{file.name}")
    for path in ("memory://bucket/*.jsonl", "memory://bucket", f"file://{tmp_path}/s/*.jsonl",
                 f"zip://in/*.jsonl::file://{tmp_path}/all.zip"):  # fmt: skip
        monkeypatch.setattr(places, "_checked", set())
        data = Shards(path)
        assert [data[i]["text"] for i in range(len(data))] == expected
    memory.pipe("/bucket/0.jsonl", b'{"text": "new"}')
    monkeypatch.setattr(places, "_checked", set())
    assert Shards("memory://bucket/*.jsonl")[0] == {"text": "new"}
    with pytest.raises(DataError, match=r"memory://bucket/9\.jsonl: no such file"):
        Shards("memory://bucket/9.jsonl")
    monkeypatch.setattr(places, "STALL", 0.2)
    held = threading.Event()
    monkeypatch.setattr(type(memory), "info", lambda *a, **k: held.wait(5))
    monkeypatch.setattr(places, "_checked", set())
    with pytest.raises(DataError, match=r"memory://bucket/1\.jsonl: no answer within"):
        places.local("memory://bucket/1.jsonl")
    held.set()
    monkeypatch.setenv("PDL_OFFLINE", "1")
    with pytest.raises(UsageError, match="PDL_OFFLINE is set"):
        Shards("s3://name:password@bucket/1.jsonl")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Serves the folder; (address, what was asked for and how many bytes were sent)."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *a: Any, **k: Any) -> None:
            super().__init__(*a, directory=str(tmp_path), **k)

        def log_message(self, *a: Any) -> None:
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_port}", asked
        made.shutdown()


def test_http_is_copied_once_and_again_where_it_has_changed(
    server: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = server
    monkeypatch.delenv("PDL_OFFLINE", raising=False)
    expected = texts(tmp_path / "s")
    write_counts(tmp_path / "s")
    path = f"{address}/s/{{0..3}}.jsonl"
    data = Shards(path)
    assert data[0]["text"] == expected[0]
    assert not [each for each in asked if "1.jsonl" in each]
    assert [data[i]["text"] for i in range(len(data))] == expected
    monkeypatch.setattr(places, "_checked", set())
    before = places.local(f"{address}/s/0.jsonl").stat().st_mtime_ns  # asked, not copied
    (tmp_path / "s" / "0.jsonl").write_text('{"text": "new"}')
    os.utime(tmp_path / "s" / "0.jsonl", (0, 0))
    assert places.local(f"{address}/s/0.jsonl").stat().st_mtime_ns == before  # once a process
    monkeypatch.setattr(places, "_checked", set())
    assert places.local(f"{address}/s/0.jsonl").read_text() == '{"text": "new"}'
    with pytest.raises(DataError, match=r"/s/9\.jsonl: answers 404"):
        places.local(f"{address}/s/9.jsonl")
    monkeypatch.setattr(places, "MOST", 3)
    monkeypatch.setattr(places, "_checked", set())
    (tmp_path / "s" / "0.jsonl").write_text('{"text": "newer"}')
    with pytest.raises(DataError, match="at most 3"):
        places.local(f"{address}/s/0.jsonl")
