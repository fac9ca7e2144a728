"""Images and tables of images' names at http addresses, as inputs of `pdl predict`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

from pdl.cli import main
from pdl.runtime.steps.images import ImageInput
from pdl.runtime.steps.rows import RowInput
from pdl.workflow import addresses
from tests.framework.hub.server import Server, redirect, status, whole

ROW = RowInput("numbers", {"a": {"column": "a", "kind": "number"}})
PNG = cv2.imencode(".png", np.full((8, 8), 200, np.uint8))[1].tobytes()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("PDL_OFFLINE")
    monkeypatch.setenv("no_proxy", "*")
    with Server() as running:
        running.answers |= {"/a.png": [redirect("/b.png?x=1")], "/b.png?x=1": [whole(PNG)], "/c.png": [status(404)],
                            "/page": [whole(b"<html>not an image</html>")]}  # fmt: skip
        yield running


def said(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> tuple[list[dict[str, Any]], str]:
    assert main(["predict", "cv/digits_lenet", "--json", *words]) == code
    messages = capsys.readouterr()
    return json.loads(messages.out) if messages.out else [], messages.err


def test_an_image(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    (answer,), _ = said(capsys, 0, f"{server.url}/a.png")
    assert answer["input"] == f"{server.url}/a.png"
    assert "label" in answer


def test_one_that_cannot_be_had_stops_no_other(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    urls = [f"{server.url}/{name}" for name in ("a.png", "c.png", "page", "b.png?x=1")]
    answers, error = said(capsys, 0, *urls)
    assert [each["input"] for each in answers] == urls
    assert ["error" in each for each in answers] == [False, True, True, False]
    assert f"{server.url}/c.png: answers 404" in error
    assert said(capsys, 3, urls[1], urls[0], "--strict") == ([], f"{urls[1]}: answers 404 Not Found\n")


def test_limits(server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "MOST", 16)
    assert f"is {len(PNG)} bytes long; at most 16 are taken" in said(capsys, 3, f"{server.url}/a.png")[1]
    monkeypatch.setenv("PDL_OFFLINE", "1")
    assert "PDL_OFFLINE is set" in said(capsys, 2, f"{server.url}/a.png")[1]
    assert len(server.seen) == 2


def test_what_is_an_address() -> None:
    image = ImageInput()
    assert addresses.is_address("https://host/photo", image)
    assert addresses.is_address("HTTP://host/rows.csv?x=1", ROW)
    assert not addresses.is_address("https://host/photo", ROW)
    assert not addresses.is_address("photo.png", image)


def test_a_file_of_many(server: Server, tmp_path: Any) -> None:
    server.answers["/rows.csv"] = [whole(b"a\n1\n")]
    path = addresses.fetched(f"{server.url}/rows.csv", ROW, tmp_path)
    assert path == tmp_path / "0-rows.csv"
    assert path.read_bytes() == b"a\n1\n"
