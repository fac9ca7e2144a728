"""Several readers of a click log, and several ranks: the rows, batches and errors of one."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError
from pdl_rec.click_through.loader import StreamLoader
from pdl_rec.data import ClickStream, readers
from pdl_rec.data.columns import Text
from pdl_rec.data.reading import CRITEO
from tests.rec.click_through.test_click_file import RATIOS, bound, table


def rows_of(stream: ClickStream) -> list[tuple[Any, ...]]:
    columns = [name for name in stream.columns if name != "price"]
    found: list[tuple[Any, ...]] = []
    for block in stream.blocks(columns, ["price"] if "price" in stream.columns else []):
        values = [block[n].texts() if isinstance(block[n], Text) else block[n] for n in columns]  # type: ignore[union-attr]
        found += zip(*values, *([block["price"].tolist()] if "price" in block else []), strict=True)  # type: ignore[union-attr]
    return found


def logs(folder: Path) -> dict[str, dict[str, Any]]:
    """Arguments of streams of each form."""
    plain = table(folder / "a.csv", 700)
    (folder / "b.csv.gz").write_bytes(gzip.compress(table(folder / "c.csv", 300).read_bytes()))
    lines = plain.read_text().splitlines()
    (folder / "d.inter").write_text("\n".join(["click:float\trow:token\tuser:token\tprice:float",
                                               *(line.replace(",", "\t") for line in lines[1:])]))  # fmt: skip
    criteo = ["\t".join([str(i % 2), *[str(i)] * 13, *[f"v{i % 7}"] * 26]) for i in range(200)]
    (folder / "day").write_text("\n".join(criteo) + "\n\n")
    (folder / "part").write_text("".join(f"{i % 2} 101:{i} 103:a 103:b{i}\n\n" for i in range(100)))
    return {
        "csv": {"path": [plain, folder / "b.csv.gz", folder / "c.csv"]},
        "split": {"path": plain, "split": "val", "ratios": RATIOS},
        "first rows": {"path": plain, "rows": 333},
        "inter": {"path": folder / "d.inter"},
        "criteo": {"path": folder / "day", "form": "criteo"},
        "slots": {"path": folder / "part", "form": "slots"},
    }


@pytest.mark.parametrize("size", [200, 900])
def test_several_readers_give_the_rows_of_one(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PIECE", size)
    for name, settings in logs(tmp_path).items():
        if size > 200 or name == "first rows":
            one = rows_of(ClickStream(**settings))
            assert one == rows_of(ClickStream(**settings, readers=3)), name
            assert len(one) > 99
    assert ClickStream(tmp_path / "day", form="criteo", readers=3).columns == list(CRITEO)


def test_an_error_has_the_line_that_one_reader_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PIECE", 100)
    (tmp_path / "part").write_text("1 101:7\n" * 100 + "1 101\n" + "1 101:7\n" * 50)
    (tmp_path / "a.csv").write_text("click,user\n" + "1,a\n" * 100 + "1,a,3\n" + "1,a\n" * 50)
    for settings in ({"path": tmp_path / "part", "form": "slots"}, {"path": tmp_path / "a.csv"}):
        said = []
        for count in (1, 4):
            with pytest.raises(DataError) as error:
                rows_of(ClickStream(**settings, readers=count))
            said.append(str(error.value))
        assert said[0] == said[1]
    assert ":101: '101' is not slot:id" in _said(tmp_path / "part")


def _said(path: Path) -> str:
    with pytest.raises(DataError) as error:
        rows_of(ClickStream(path, form="slots", readers=2))
    return str(error.value)


@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_share_the_batches_of_one(shuffle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PIECE", 3000)
    path = table(tmp_path / "a.csv")

    def loader(world: int, rank: int, start: int = 0) -> list[Any]:
        stream = ClickStream(path, buffer=300, readers=2)
        bound(stream, {"row": {"kind": "number"}})
        made = StreamLoader(stream, batch_size=64, shuffle=shuffle, seed=3)
        made.share(rank, world)
        made.position = start
        return list(made)

    whole = loader(1, 0)
    assert [len(batch["index"]) for batch in whole] == [64] * 15 + [40]
    for start in (0, 5, 15):
        parts = [loader(3, rank, start) for rank in range(3)]
        for rank, part in enumerate(parts):
            for batch, mine in zip(whole[start:], part, strict=True):
                assert mine.keys() == batch.keys()
                for name, values in batch.items():
                    np.testing.assert_array_equal(values[rank::3], mine[name], name)


def test_patterns_and_addresses_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setenv("PDL_CACHE", str(tmp_path / "cache"))
    paths = [table(tmp_path / f"day_{n}.csv", 10 + n) for n in range(2)]
    memory = fsspec.filesystem("memory")
    for path in paths:
        memory.pipe(f"/days/{path.name}", path.read_bytes())
    one = rows_of(ClickStream(paths))
    for named in (tmp_path / "day_*.csv", f"{tmp_path}/day_{{0..1}}.csv", "memory://days/*.csv"):
        assert rows_of(ClickStream(named, readers=2)) == one
