"""Models and versions: which one answers, and how one is replaced while requests go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pdl.errors import DataError, UsageError
from pdl.runtime import load
from pdl.runtime.bundle import pack
from pdl.serving.models import Models, rows_are_alone, shadowed, shares, sources
from pdl.serving.service import Settings
from tests.framework.runtime.made import good, parts_of
from tests.framework.serving.asking import LENET, Asked, infer, served


def test_words_of_the_command_line(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        (tmp_path / f"pets/{number}").mkdir(parents=True)
        (tmp_path / f"pets/{number}/any.pdl").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/model.pdl").touch()
    found = sources([LENET, "a=x.pdl", "a=y.pdl", "a:7=z.pdl", str(tmp_path / "pets"), str(tmp_path / "run/model.pdl")])
    assert [(each.name, each.version) for each in found] == [
        ("digits_lenet", "1"), ("a", "1"), ("a", "2"), ("a", "7"),
        ("pets", "1"), ("pets", "2"), ("pets", "10"), ("run", "1"),
    ]  # fmt: skip
    for wrong in (["a:x=y"], ["a:1=x", "a:1=y"], ["a b=x"]):
        with pytest.raises(UsageError):
            sources(wrong)
    assert shares(["a=1:90,2:10"]) == {"a": {"1": 90.0, "2": 10.0}}
    assert shadowed(["a=2"]) == {"a": "2"}
    for call in (lambda: shares(["a=1"]), lambda: shadowed(["a"])):
        with pytest.raises(UsageError, match="expected NAME="):
            call()
    with pytest.raises(UsageError, match="there is no a:3"):
        Models(sources(["a=x"]), weights={"a": {"3": 1}})
    with pytest.raises(UsageError, match="no other version"):
        Models(sources(["a=x"]), shadows={"a": "1"})


def test_versions_share_requests_and_a_shadow_answers_unheard() -> None:
    words = [f"m={LENET}"] * 3
    models = served(*words, weights={"m": {"1": 75, "2": 25}}, shadows={"m": "3"})
    chosen = [models.find("m").version for _ in range(400)]
    assert chosen.count("1") == pytest.approx(300, abs=2)
    assert chosen.count("1") + chosen.count("2") == 400
    assert set(chosen[:8]) == {"1", "2"}
    app = Asked(models)

    async def ask() -> None:
        for _ in range(4):
            status, said = await app.json("POST", "/v2/models/m/infer", infer())
            assert (status, said["model_version"] in "12") == (200, True)

    asyncio.run(ask())
    assert models.find("m", "3").batcher.close(60)
    text = app.service.metrics_text()
    assert 'pdl_shadow_total{model="m",version="3",outcome="answered"} 4' in text
    assert 'pdl_shadow_difference_bucket{model="m",version="3",le="1e-05"} 4' in text
    assert served(*words, shadows={"m": "3"}).find("m").version == "2"  # the newest that is no shadow


def test_models_are_replaced_while_requests_go_on(tmp_path: Path) -> None:
    place = tmp_path / "model.pdl"
    first, second = scaled(1.0), scaled(2.0)
    place.write_bytes(first)
    models = served(f"m={place}")
    app = Asked(models, Settings(control=True))
    asked = {"inputs": [{"name": "image", "shape": [1, 8, 8, 3], "datatype": "FP32", "data": [0.5] * 192}]}
    seen: list[float] = []

    async def ask() -> None:
        async def many() -> None:
            while not done.is_set():
                status, said = await app.json("POST", "/v2/models/m/infer", asked)
                assert status == 200, said
                seen.append(said["outputs"][0]["data"][0])

        done = asyncio.Event()
        clients = [asyncio.ensure_future(many()) for _ in range(4)]
        for data in (second, first, second, None):
            enough = len(seen) + 10
            while len(seen) < enough and not clients[0].done():
                await asyncio.sleep(0.001)
            if data is not None:
                (tmp_path / "new").write_bytes(data)
                (tmp_path / "new").replace(place)
                assert (await app.json("POST", "/v2/repository/models/m/load"))[0] == 200
        done.set()
        await asyncio.gather(*clients)
        (tmp_path / "new").write_bytes(b"broken")
        (tmp_path / "new").replace(place)
        status, said = await app.json("POST", "/v2/repository/models/m/load")
        assert (status, "model.pdl" in said["error"]) == (400, True)
        status, said = await app.json("POST", "/v2/models/m/infer", asked)  # the one before goes on
        assert status == 200
        assert (await app.json("POST", "/v2/repository/models/m/unload"))[0] == 200
        assert (await app.json("POST", "/v2/models/m/infer", asked))[0] == 503
        assert (await app.json("GET", "/v2/health/ready"))[0] == 503

    asyncio.run(ask())
    low, high = min(seen), max(seen)
    assert high == pytest.approx(2 * low, rel=1e-4) or low == pytest.approx(2 * high, rel=1e-4)


def scaled(factor: float) -> bytes:
    """A bundle whose outputs are times a factor."""
    program, arrays = parts_of("conv")
    return pack(program, {name: x * factor if x.shape[-1] == 5 else x for name, x in arrays.items()})


def test_rows_that_depend_on_each_other_are_found() -> None:
    assert rows_are_alone(load(good("conv")))
    assert not rows_are_alone(load(good("pixels")))


def test_a_model_that_is_not_there_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "x.pdl").write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(DataError, match=r"x\.pdl"):
        served(str(tmp_path / "x.pdl"))
